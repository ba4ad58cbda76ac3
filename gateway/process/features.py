"""What of nginx is here and what is not, in one table: for `-V` and `load_module`.

A feature is here if the file that does it is. `-V` says so in the words of nginx's configure, for people and for tools
that choose by them: what is on by default there is named when it is missing (`--without-…`), what is off by default
when it is here (`--with-…`).
"""

import importlib
import os
from dataclasses import dataclass

import gateway

_HERE = os.path.dirname(os.path.abspath(gateway.__file__))


@dataclass(frozen=True, slots=True)
class Feature:
    """One module of nginx, and our file that does what it does, dotted below `gateway` ("" if there is none).

    `standard`: nginx has it unless built `--without` it. `files`: names that `load_module` may give it.
    """

    name: str
    part: str
    standard: bool = True
    files: tuple[str, ...] = ()

    @property
    def here(self) -> bool:
        if not self.part:
            return False
        path = os.path.join(_HERE, *self.part.split("."))
        return os.path.exists(path + ".py") or os.path.exists(os.path.join(path, "__init__.py"))


def _standard(names: str, part: str = "") -> tuple[Feature, ...]:
    """`http_X_module`s that nginx has by default, each done by `modules.X` (or all by `part`)."""
    return tuple(Feature(f"http_{name}_module", part or f"modules.{name}") for name in names.split())


def _optional(names: str, part: str = "") -> tuple[Feature, ...]:
    return tuple(Feature(f"http_{name}_module", part or f"modules.{name}", standard=False) for name in names.split())


def _added(part: str, *files: str) -> Feature:
    """A third-party module, with the names that its .so files have."""
    return Feature(files[0].removesuffix(".so"), part, standard=False, files=files)


TLS = Feature("http_ssl_module", "net.tls", standard=False)

FEATURES: tuple[Feature, ...] = (
    *_standard("charset gzip ssi userid access auth_basic mirror autoindex geo map split_clients referer rewrite"),
    *_standard("proxy fastcgi uwsgi scgi grpc memcached tunnel limit_conn limit_req empty_gif browser"),
    Feature("http_upstream_hash_module", "modules.upstream"),
    Feature("http_upstream_ip_hash_module", "modules.upstream"),
    Feature("http_upstream_least_conn_module", "modules.upstream"),
    Feature("http_upstream_least_time_module", ""),
    Feature("http_upstream_random_module", "modules.upstream"),
    Feature("http_upstream_keepalive_module", "modules.upstream"),
    Feature("http_upstream_zone_module", "modules.upstream"),
    Feature("http_upstream_sticky_module", ""),
    Feature("http-cache", "modules.proxy_cache"),
    TLS,
    Feature("http_v2_module", "http.http2", standard=False),
    Feature("http_gzip_static_module", "modules.precompressed", standard=False),
    *_optional("realip addition sub gunzip random_index secure_link slice stub_status auth_request"),
    *_optional("dav flv mp4"),
    _added("modules.lua", "ngx_http_lua_module.so", "ndk_http_module.so"),
    _added("modules.brotli", "ngx_http_brotli_filter_module.so"),
    _added("modules.zstd", "ngx_http_zstd_filter_module.so"),
    _added("modules.precompressed", "ngx_http_brotli_static_module.so", "ngx_http_zstd_static_module.so"),
    _added("modules.immutable", "ngx_http_immutable_module.so"),
    _added("modules.headers_more", "ngx_http_headers_more_filter_module.so"),
    _added("modules.cache_purge", "ngx_http_cache_purge_module.so"),
    _added("modules.echo", "ngx_http_echo_module.so"),
)


# Modules that are not here, and whose directives are refused one by one: to load one changes nothing by itself.
REFUSED: frozenset[str] = frozenset(
    f"{name}.so"
    for name in (  # noqa: SIM905
        "ngx_stream_module ngx_stream_js_module ngx_stream_geoip_module ngx_stream_geoip2_module ngx_mail_module"
        " ngx_rtmp_module ngx_otel_module ngx_http_js_module ngx_http_perl_module ngx_http_geoip_module"
        " ngx_http_geoip2_module ngx_http_image_filter_module ngx_http_xslt_filter_module ngx_http_dav_ext_module"
        " ngx_http_vhost_traffic_status_module ngx_http_stream_server_traffic_status_module"
        " ngx_http_modsecurity_module ngx_http_naxsi_module ngx_http_fancyindex_module ngx_http_upstream_fair_module"
        " ngx_http_auth_pam_module ngx_http_auth_spnego_module ngx_http_auth_digest_module ngx_http_shibboleth_module"
        " ngx_http_subs_filter_module ngx_http_set_misc_module ngx_http_uploadprogress_module ngx_http_upload_module"
        " ngx_http_cache_purge_module ngx_http_vod_module ngx_nchan_module ngx_pagespeed ngx_http_acme_module"
        " ngx_http_upstream_check_module ngx_http_upstream_session_sticky_module ngx_http_sysguard_module"
        " ngx_http_concat_module ngx_http_trim_filter_module ngx_http_footer_filter_module"
        " ngx_http_upstream_dyups_module ngx_http_reqstat_module ngx_http_xquic_module"
    ).split()
)


def arguments() -> str:
    """nginx's "configure arguments" that describe what is here."""
    lacking = [f"--without-{feature.name}" for feature in FEATURES if feature.standard and not feature.here]
    having = [
        f"--with-{feature.name}"
        for feature in FEATURES
        if not feature.standard and not feature.files and feature.here
    ]
    return " ".join(having + lacking)


def loadable(file: str) -> bool:
    """Whether what this dynamic module (a file name) offers is here."""
    return any(feature.here and file in (*feature.files, *_names(feature.name)) for feature in FEATURES)


def _names(name: str) -> tuple[str, str]:
    """Filters are called `http_X_filter_module` where configure says `http_X_module`."""
    return f"ngx_{name}.so", f"ngx_{name.replace('_module', '_filter_module')}.so"


def library() -> str:
    """The TLS library, as `-V` names it: `OpenSSL 3.0.17 1 Jul 2025`."""
    return str(importlib.import_module("gateway.net.openssl").LIBRARY)
