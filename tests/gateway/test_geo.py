"""The geo module: what nginx refuses and in which words; proxies. More is judged in tests/parity."""

from pathlib import Path

import pytest

from tests.gateway.nginx import agrees, needs_nginx

CASES = {
    "name": "geo a { }",
    "source": "geo a $b { }",
    "fixed": "geo $uri { }",
    "count": "geo $a $b $c { }",
    "no_block": "geo $a;",
    "parameters": "geo $a { 1.2.3.4 a b; }",
    "parameter": "geo $a { 1.2.3.4; }",
    "network": "geo $a { 1.2.3 x; }",
    "network_mask": "geo $a { 1.2.3.4/33 x; }",
    "network_netmask": "geo $a { 1.2.3.4/255.0.0.0 x; }",
    "proxy": "geo $a { proxy x; }",
    "range": "geo $a { ranges; 1.2.3.4 x; }",
    "range_order": "geo $a { ranges; 1.2.3.4-1.2.3.3 x; }",
    "range_word": "geo $a { ranges; a-b x; }",
    "ranges_late": "geo $a { 1.2.3.4 x; ranges; }",
    "range_overlap": "geo $a { ranges; 1.2.3.4-1.2.3.9 x; 1.2.3.5-1.2.3.12 y; }",
    "range_overlap_first": "geo $a { ranges; 1.2.3.4-1.2.3.9 x; 1.2.3.1-1.2.3.5 y; }",
    "range_around": "geo $a { ranges; 1.2.3.4-1.2.3.9 x; 1.2.3.1-1.2.3.50 y; }",
    "range_between": "geo $a { ranges; 1.2.3.4-1.2.3.9 x; 1.2.3.20-1.2.3.29 x; 1.2.3.10-1.2.3.20 y; }",
    "unknown": "geo $nobody $a { default x; }",
    "good": "geo $arg_a $a { default 1; 10.0.0.0/8 2; 10.1.2.3/8 3; delete 10.0.0.0/8; delete 11.0.0.0/8; ::1 4; }",
    "good_ranges": "geo $b { ranges; default 1; 10.0.0.1-10.0.0.9 2; 10.0.0.2-10.0.0.3 3; delete 10.0.0.1-10.0.0.9; }",
    "good_proxy": "geo $b { proxy 10.0.0.0/8; proxy ::1; proxy_recursive; 1.2.3.4/32 2; } server { set $b 1; }",
}


@needs_nginx
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
