"""The map module: what nginx refuses and in which words; what tengine looks up. More is judged in tests/parity."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.nginx import agrees, needs_nginx

MISTAKES = {
    "name": "map $uri b { }",
    "dollar": "map $uri $ { }",
    "fixed": "map $args $uri { }",
    "count": "map $uri { }",
    "no_block": "map $uri $b;",
    "parameters": "map $uri $b { a b c; }",
    "parameter": "map $uri $b { a; }",
    "special_twice": "map $uri $b { hostnames x y; }",
    "default_twice": "map $uri $b { default a; default b; }",
    "conflict": "map $uri $b { a 1; A 2; }",
    "conflict_wildcard": "map $uri $b { hostnames; *.a.b 1; *.a.b 2; }",
    "conflict_dot": "map $uri $b { hostnames; .a.b 1; *.a.b 2; }",
    "conflict_dot_exact": "map $uri $b { hostnames; a.b 1; .a.b 2; }",
    "wildcard_inside": "map $uri $b { hostnames; a.*.b 1; }",
    "wildcard_glued": "map $uri $b { hostnames; *a.b 1; }",
    "wildcard_two": "map $uri $b { hostnames; *.a.* 1; }",
    "wildcard_dots": "map $uri $b { hostnames; *..b 1; }",
    "regex": "map $uri $b { ~( 1; }",
    "source_unknown": "map $nobody $b { a 1; }",
    "value_unknown": "map $uri $b { a $nobody; }",
    "block_inside": "map $uri $b { a { } }",
    "unclosed": "map $uri $b { a b;",
    "level": "server { map $uri $b { } }",
    "hash": "map_hash_max_size x;",
}
GOOD = {
    "all": r'map "$uri$args" $b { default $c; "" 1; \default 2; \~x 3; ~*(?<n>x) $n; volatile; *.x 5; a.*.b 6; }'
    " map $b $c { hostnames; .a.b 1; a.* 2; *.c 3; d 4; } server { set $b 1; return 200 $n; }",
    "twice": "map $uri $b { a 1; } map $args $b { a 2; }",
    "text": "map_hash_max_size 64; map_hash_bucket_size 128; map $uri $b { a pre$uri; }",
}


@needs_nginx
@pytest.mark.parametrize("text", [*MISTAKES.values(), *GOOD.values()], ids=[*MISTAKES, *GOOD])
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)


def test_a_value_is_kept_unless_volatile(gateway: Any) -> None:
    started = gateway(
        'set $before "$kept $fresh"; location /a { rewrite ^ /b; } location /b { return 200 "$before $kept $fresh"; }',
        http="map $uri $kept { /a one; /b two; } map $uri $fresh { volatile; /a one; /b two; }",
    )
    assert started.get("/a").body == b"one one one two"


def test_set_replaces_a_value(gateway: Any) -> None:
    started = gateway("set $m mine; return 200 $m;", http="map $uri $m { default map; }")
    assert started.get("/").body == b"mine"


def test_a_pattern_that_gives_up_leaves_the_default(gateway: Any) -> None:
    started = gateway('return 200 "$m";', http="map $arg_x $m { default d; ~^(a+)+$ all; ~a some; }")
    assert started.get("/?x=aaa").body == b"all"
    assert started.get("/?x=" + "a" * 40 + "b").body == b"d"
