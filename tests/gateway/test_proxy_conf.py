"""Configurations of proxy_pass that are refused: in nginx's words, or as not supported yet."""

from typing import Any

import pytest

from gateway.config.schema import ConfigError
from tests.gateway.nginx import agrees, compiled, needs_nginx


@needs_nginx
@pytest.mark.parametrize(
    "block",
    [
        "location / { proxy_pass ftp://a; }",
        "location / { proxy_pass http://127.0.0.1:99999; }",
        "location / { proxy_pass http://nowhere.invalid; }",
        "location ~ x { proxy_pass http://127.0.0.1/x; }",
        "location / { if ($arg_a) { proxy_pass http://127.0.0.1/x; } }",
        "location / { limit_except GET { proxy_pass http://127.0.0.1/x; } }",
        "location / { proxy_pass http://127.0.0.1; proxy_redirect x; }",
        "location / { proxy_pass http://$host; proxy_redirect default; }",
        "location / { proxy_set_header X; }",
        "location / { proxy_http_version 3; }",
        "location / { proxy_next_upstream often; }",
    ],
)
def test_mistakes_in_nginx_s_words(tmp_path: Any, block: str) -> None:
    agrees(tmp_path, f"server {{ listen 127.0.0.1:1; {block} }}")


@pytest.mark.parametrize(
    "words",
    ["proxy_bind 127.0.0.1"],
)
def test_what_is_missing_says_so(tmp_path: Any, words: str) -> None:
    place = f"{words};" if "path" in words else f"server {{ listen 127.0.0.1:1; location / {{ {words}; }} }}"
    with pytest.raises(ConfigError, match=r"(is|are) not supported yet"):
        compiled(tmp_path, place)
