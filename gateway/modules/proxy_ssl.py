"""TLS to upstream servers: the directives `proxy_ssl_…` of ngx_http_proxy_module; upstream/encrypted.py obeys them.

Source: https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_ssl_certificate
"""

from gateway.module import Module
from gateway.upstream.encrypted import ProxySsl

module = Module(name="proxy_ssl", conf=ProxySsl)
