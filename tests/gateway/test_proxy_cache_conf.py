"""Mistakes in the directives of proxy_cache, in nginx's words."""

from pathlib import Path

import pytest

from gateway.config.schema import ConfigError
from tests.gateway.nginx import agrees, compiled, needs_nginx


@needs_nginx
@pytest.mark.parametrize(
    "block",
    [
        "proxy_cache_path a keys_zone=one:1m;",
        "proxy_cache_path a keys_zone=one:1m levels=1:2:2 inactive=1d max_size=1g min_free=1m use_temp_path=off;",
        "proxy_cache_path a;",
        "proxy_cache_path a levels=1:2;",
        "proxy_cache_path a keys_zone=one:1m levels=3;",
        "proxy_cache_path a keys_zone=one:1m levels=1:2:1:1;",
        "proxy_cache_path a keys_zone=one;",
        "proxy_cache_path a keys_zone=one:4k;",
        "proxy_cache_path a keys_zone=one:x;",
        "proxy_cache_path a keys_zone=one:1m inactive=x;",
        "proxy_cache_path a keys_zone=one:1m max_size=x;",
        "proxy_cache_path a keys_zone=one:1m use_temp_path=maybe;",
        "proxy_cache_path a keys_zone=one:1m more=1;",
        "proxy_cache_path a keys_zone=one:1m; proxy_cache_path b keys_zone=one:1m;",
        "proxy_cache_valid x;",
        "proxy_cache_valid 99 1m;",
        "proxy_cache_valid any 1m; proxy_cache_valid 200 302 1h;",
        "proxy_cache_use_stale wrong;",
        "proxy_cache_methods GET NONE;",
        "proxy_cache_path a keys_zone=one:1m; proxy_cache one;"
        " server { listen 127.0.0.1:1; location / { proxy_pass http://127.0.0.1:1; proxy_cache off; } }",
    ],
)
def test_mistakes_in_nginx_s_words(tmp_path: Path, block: str) -> None:
    agrees(tmp_path, block)


def test_an_unknown_cache_is_refused(tmp_path: Path) -> None:
    block = "server { listen 127.0.0.1:1; location / { proxy_pass http://127.0.0.1:1; proxy_cache two; } }"
    with pytest.raises(ConfigError, match='"proxy_cache" zone "two" is unknown in '):
        compiled(tmp_path, block)
