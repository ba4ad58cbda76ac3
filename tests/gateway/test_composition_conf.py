"""Confs of auth_request, mirror, addition, ssi and sub_filter: refused in nginx's words, or accepted as it accepts."""

from pathlib import Path

import pytest

from tests.gateway.nginx import agrees, needs_nginx

LOCATIONS = [
    "auth_request /a; auth_request /b;",
    "auth_request;",
    "auth_request off; auth_request_set $a $uri;",
    "auth_request_set a b;",
    "auth_request_set $uri b;",
    "auth_request_set $a $nosuch;",
    "auth_request_set $args x; auth_request /a;",
    "mirror off; mirror /a;",
    "mirror /a; mirror off;",
    "mirror /a; mirror /b; mirror_request_body off;",
    "mirror_request_body maybe;",
    "add_before_body /a; add_before_body /b;",
    "addition_types text/plain;",
    "ssi on; ssi_value_length 1k; ssi_types text/plain; ssi_min_file_chunk 2k; ssi_silent_errors on;",
    "ssi_last_modified on; ssi_ignore_recycled_buffers on;",
    "ssi maybe;",
    "sub_filter '' x;",
    "sub_filter a;",
    "sub_filter a $nosuch;",
    "sub_filter a b; sub_filter c d; sub_filter_once off; sub_filter_types *; sub_filter_last_modified on;",
    "sub_filter $uri x;",
    "log_subrequest on; subrequest_output_buffer_size 8k;",
    "if ($uri) { ssi on; }",
    "if ($uri) { sub_filter a b; }",
    "if ($uri) { mirror /a; }",
]


@needs_nginx
@pytest.mark.parametrize("location", LOCATIONS)
def test_the_verdict_is_nginxs(location: str, tmp_path: Path) -> None:
    agrees(tmp_path, f"server {{ location / {{ {location} }} }}")


@needs_nginx
def test_there_is_a_limit_of_patterns(tmp_path: Path) -> None:
    agrees(tmp_path, "sub_filter a b;\n" * 256)
