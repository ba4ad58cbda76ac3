"""The core's rows: what each takes, and nginx's words for what it does not. What they do: the tests of their users."""

from pathlib import Path

import pytest

from gateway.config.schema import ConfigError
from tests.gateway.nginx import agrees, compiled, needs_nginx

# Every row of the core that stands in a server block, with values that nginx takes.
GOOD = """
root /srv; etag off; if_modified_since before; max_ranges 3; log_not_found off; sendfile on; tcp_nopush on;
tcp_nodelay off;
default_type text/x; types { text/x x y; }
client_max_body_size 0; client_body_buffer_size 8k; client_body_temp_path temp 1 2; client_body_in_file_only clean;
client_header_buffer_size 2k; large_client_header_buffers 4 8k; keepalive_requests 5; keepalive_timeout 30s 20s;
keepalive_time 1h;
keepalive_disable msie6 safari; client_header_timeout 1m; client_body_timeout 90; send_timeout 500ms;
lingering_close always;
lingering_time 10s; lingering_timeout 1s; reset_timedout_connection on; limit_rate 10k; limit_rate_after 1m;
ignore_invalid_headers off; underscores_in_headers on; merge_slashes off; satisfy any; auth_delay 1s;
error_page 404 /x; recursive_error_pages on; server_tokens off; absolute_redirect off; server_name_in_redirect on;
port_in_redirect off; msie_padding off; msie_refresh on; chunked_transfer_encoding off; resolver 127.0.0.1 valid=10s;
resolver_timeout 5s; log_subrequest on; subrequest_output_buffer_size 8k;
sendfile_max_chunk 1m; aio off; aio_write off; directio off; directio_alignment 4k; read_ahead 0;
output_buffers 1 32k;
postpone_output 0; send_lowat 0; open_file_cache max=10 inactive=5s; open_file_cache_valid 1m;
open_file_cache_min_uses 2;
open_file_cache_errors on; connection_pool_size 1k; request_pool_size 8k; client_body_in_single_buffer on;
types_hash_max_size 2048; types_hash_bucket_size 128;
"""
HTTP = """
server_names_hash_max_size 1024; server_names_hash_bucket_size 128; variables_hash_max_size 2048;
variables_hash_bucket_size 128;
"""
STATEMENTS = [
    f"{text.strip()};" for text in GOOD.replace("; }", "%").split(";") if text.strip() and "types {" not in text
]

BAD = [
    "etag maybe;",
    "etag;",
    "etag on off;",
    "etag on; etag off;",
    "if_modified_since never;",
    "max_ranges x;",
    "max_ranges -1;",
    "client_max_body_size 1x;",
    "client_max_body_size -1;",
    "client_max_body_size 99999999999999999999;",
    "large_client_header_buffers 4;",
    "large_client_header_buffers x 8k;",
    "large_client_header_buffers 4 x;",
    "large_client_header_buffers 0 8k;",
    "keepalive_timeout x;",
    "keepalive_timeout 1s x;",
    "keepalive_timeout 1s 2s 3s;",
    "keepalive_disable msie7;",
    "keepalive_disable none msie6;",
    "lingering_close maybe;",
    "satisfy some;",
    "server_tokens maybe;",
    "send_timeout 1q;",
    "send_timeout -1;",
    "send_timeout 1s1m;",
    "error_page 404;",
    "error_page /x;",
    "error_page 200 /x;",
    "error_page 299 /x;",
    "error_page 600 /x;",
    "error_page 499 /x;",
    "error_page abc /x;",
    "error_page 404 = /x;",
    "error_page 404 =200 /x;",
    "error_page 404 =abc /x;",
    "error_page =200 /x;",
    "error_page 404 $nobody;",
    "internal;",
    "location / { internal on; }",
    "types { text/x; }",
    "types { text/x a b; text/y a; }",
    "types x;",
    "client_body_temp_path;",
    "client_body_temp_path a 1 2 3 4;",
    "client_body_in_file_only maybe;",
    "http { }",
    "server { }",
    "worker_processes 1;",
    "location { }",
    "location / / / { }",
    "location /;",
    "root a b;",
    "root;",
]


@needs_nginx
def test_good_ones_together(tmp_path: Path) -> None:
    agrees(tmp_path, f"{HTTP} server {{ {GOOD} }}")


@needs_nginx
@pytest.mark.parametrize("text", BAD)
def test_bad_ones(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{ {text} }}")


@pytest.mark.parametrize("text", STATEMENTS, ids=lambda text: text.split()[0])
def test_each_row_may_stand_once_only(tmp_path: Path, text: str) -> None:
    if text.split()[0] in ("error_page", "keepalive_disable"):
        return  # these add up
    with pytest.raises(ConfigError, match="directive is duplicate in"):
        compiled(tmp_path, f"server {{ {text} {text} }}")
