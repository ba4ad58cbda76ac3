"""The split_clients module: what nginx refuses, and the same draws as nginx."""

from pathlib import Path
from typing import Any

import pytest

from gateway.modules.split_clients import murmur2
from tests.gateway.nginx import agrees, needs_nginx

CASES = {
    "name": "split_clients a b { 50% x; }",
    "count": "split_clients a { 50% x; }",
    "percent_word": "split_clients a $b { x y; }",
    "percent_none": "split_clients a $b { 50 y; }",
    "percent_zero": "split_clients a $b { 0% y; }",
    "percent_fine": "split_clients a $b { 0.001% y; }",
    "total": "split_clients a $b { 50% x; 50.01% y; }",
    "total_rest": "split_clients a $b { 50% x; * y; 1% z; }",
    "fixed": "split_clients a $uri { * x; }",
    "unknown": "split_clients $nobody $b { * x; }",
    "good": 'split_clients "a$uri" $b { 0.5% x; .5% y; 1.% z; 99.99% u; }',
    "good_rest": "split_clients a $b { 0.01% x; * y; } server { return 200 $b; }",
}


@needs_nginx
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text.replace("99.99%", "97.99%"))


def test_murmur2() -> None:
    """Values that MurmurHash2 has by definition or that nginx's use of it fixed (see the parity case)."""
    assert murmur2(b"") == 0
    assert len({murmur2(b"x" * size) for size in range(64)}) == 64


def test_shares(gateway: Any) -> None:
    started = gateway("return 200 $b;", http="split_clients $arg_a $b { 25% one; 25% two; 0.01% rare; * rest; }")
    drawn = [started.get(f"/?a={number}").body for number in range(60)]
    assert {b"one", b"two", b"rest"} <= set(drawn)
    assert [started.get(f"/?a={number}").body for number in range(20)] == drawn[:20]
