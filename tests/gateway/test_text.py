"""Values with variables: how they are cut, what nginx refuses, and what they become."""

from pathlib import Path

import pytest

from gateway.config.schema import ConfigError
from gateway.http.text import Constant, Single, Template, compiled, split
from gateway.module import Variable
from tests.gateway.livesite import serving
from tests.gateway.nginx import agrees, needs_nginx


@pytest.mark.parametrize(
    "raw, parts",
    [
        ("", []),
        ("plain", [b"plain"]),
        ("$uri", ["uri"]),
        ("a$uri/b${args}c", [b"a", "uri", b"/b", "args", b"c"]),
        ("${uri}x", ["uri", b"x"]),
        ("$1$10$a1", ["1", "1", b"0", "a1"]),
        ("$uri-$uri", ["uri", b"-", "uri"]),
        ("héé$uri", ["héé".encode(), "uri"]),
    ],
)
def test_split(raw: str, parts: list[bytes | str]) -> None:
    assert split(raw, None) == parts


@pytest.mark.parametrize("raw", ["$", "a$", "$-", "${", "${}", "${uri", "${a-b}"])
def test_broken(raw: str) -> None:
    with pytest.raises(ConfigError):
        split(raw, None)


def test_compiled_to_as_little_as_it_takes() -> None:
    def lookup(name: str, _place: object) -> Variable:
        return Variable(lambda request: name.upper().encode() if name != "none" else None)

    forms = {"": Constant, "a": Constant, "$a": Single, "$a$b": Template, "x$none": Template, "$none": Single}
    values = {"": b"", "a": b"a", "$a": b"A", "$a$b": b"AB", "x$none": b"x", "$none": b""}
    for raw, kind in forms.items():
        made = compiled(raw, lookup, None)
        assert isinstance(made, kind)
        assert made(None) == values[raw]  # type: ignore[arg-type]
        assert made.constant == (values[raw] if kind is Constant else None)


CASES = [
    "$",
    "$nobody",
    "a$",
    "${uri",
    "${}",
    "$uri$",
    "${uri}x$args",
    "$1",
    "$10",
    "$0",
    "${1}",
    "$arg_",
    "$http_x$cookie_y",
    "$ uri",
]


@needs_nginx
@pytest.mark.parametrize("text", CASES)
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f'server {{ location / {{ add_header X "{text}"; }} }}')


def test_served(tmp_path: Path) -> None:
    server = 'location ~ ^/(a)(b)?$ { return 200 "[$1][$2][${1}x][$10][$http_none]"; }'.replace("${1}x", "$1-x")
    with serving(tmp_path, server) as site:
        assert site.get("/ab").body == b"[a][b][a-x][a0][]"
        assert site.get("/a").body == b"[a][][a-x][a0][]"
