"""Binding: nginx's judgements in nginx's words, with real nginx as the judge."""

import random
from pathlib import Path
from typing import Any

import pytest

from gateway.config import bind
from gateway.config.args import bits, flag, integer, mime_types, nothing, size, string, strings
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Item, Level, Paths, Statement, block, directive, many
from gateway.config.source import read
from tests.gateway.nginx import needs_nginx, verdict


def constant(context: In) -> Any:
    """What `opens` wants: the context of the inner level, whatever the outer."""
    return lambda _outer: context


def entries(statement: Statement) -> dict[str, str]:
    """A block that its own grammar reads."""
    return {entry.name: entry.args[0] for entry in statement.block or ()}


@block
class Blocks:
    events: tuple[Item[Level], ...] = many(In.MAIN, {"events": nothing()}, "-", opens={"events": constant(In.EVENTS)})
    http: tuple[Item[Level], ...] = many(In.MAIN, {"http": nothing()}, "-", opens={"http": constant(In.HTTP)})
    server: tuple[Item[Level], ...] = many(In.HTTP, {"server": nothing()}, "-", opens={"server": constant(In.SERVER)})
    location: tuple[Item[Level], ...] = many(
        In.SERVER | In.LOCATION, {"location": strings(1, 2)}, "-", opens={"location": constant(In.LOCATION)}
    )
    upstream: tuple[Item[Level], ...] = many(
        In.HTTP, {"upstream": string()}, "-", opens={"upstream": constant(In.UPSTREAM)}
    )


@block
class Rows:
    gzip: bool = directive(ANYWHERE | In.IF_LOCATION, flag(), False, "-")
    gzip_comp_level: int = directive(ANYWHERE, integer(1, 9), 1, "-")
    gzip_min_length: int = directive(ANYWHERE, size(), 20, "-")
    gzip_types: frozenset[bytes] = directive(ANYWHERE, mime_types(), frozenset(), "-")
    gzip_proxied: frozenset[str] = directive(ANYWHERE, bits("any", "expired"), frozenset(), "-")
    keepalive_requests: int = directive(ANYWHERE, integer(), 1000, "-")
    root: str = directive(ANYWHERE, string(), "html", "-")
    server_name: tuple[tuple[str, ...], ...] = many(In.SERVER, strings(1), "-")
    types: dict[str, str] = directive(ANYWHERE, Arg("{ }", 0, 0, entries, block=True), {}, "-")
    aio: str = directive(ANYWHERE, string(), "off", "-", idle="a reason")


@block
class Rewrite:
    program: tuple[Item[Any], ...] = many(
        In.SERVER | In.LOCATION | In.IF_SERVER | In.IF_LOCATION,
        {"set": strings(2, 2), "return": strings(1, 2), "if": strings(1)},
        "-",
        opens={"if": lambda outer: In.IF_SERVER if outer is In.SERVER else In.IF_LOCATION},
    )
    add_header: tuple[tuple[str, ...], ...] = many(ANYWHERE | In.IF_LOCATION, strings(2, 3), "-")


@block
class Upstream:
    servers: tuple[str, ...] = many(In.UPSTREAM, string(), "-", name="server")
    keepalive: int = directive(In.UPSTREAM, integer(1), 0, "-")


TABLES = (Blocks, Rows, Rewrite, Upstream)


def bound(folder: Path, text: str) -> Level:
    """Write, read and bind a configuration."""
    (folder / "main.conf").write_text(text)
    return bind.bind(read(f"{folder}/main.conf", Paths(f"{folder}/", f"{folder}/")).statements, TABLES)


def test_levels_and_values(tmp_path: Path) -> None:
    root = bound(
        tmp_path,
        "http {\n gzip on;\n upstream u { server a; server b; keepalive 4; }\n"
        " server { add_header A b; add_header C d; types { a b; c d; }\n  location = /x { root y; } } }",
    )
    (http,) = root.children
    upstream, server = http.children
    (location,) = server.children
    assert [level.context for level in (root, http, upstream, server, location)] == [
        In.MAIN,
        In.HTTP,
        In.UPSTREAM,
        In.SERVER,
        In.LOCATION,
    ]
    assert http.values[Rows, "gzip"] is True
    assert upstream.values[Upstream, "servers"] == ["a", "b"]
    assert (upstream.head, upstream.values[Upstream, "keepalive"]) == ("u", 4)
    assert server.values[Rewrite, "add_header"] == [("A", "b"), ("C", "d")]
    assert server.values[Rows, "types"] == {"a": "b", "c": "d"}
    assert (location.head, location.parent) == (("=", "/x"), server)
    assert root.values[Blocks, "http"][0].value is http
    assert str(bind.place_of(location, Rows, "root")) == f"{tmp_path}/main.conf:5"
    assert bind.place_of(server, Rows, "root") is None
    assert str(location.place) == f"{tmp_path}/main.conf:5"


def test_a_program_keeps_its_order(tmp_path: Path) -> None:
    root = bound(tmp_path, "http { server { set $a b;\n if ($a) { set $c d; return 204; }\n return 200; } }")
    server = root.children[0].children[0]
    program = server.values[Rewrite, "program"]
    assert [(item.name, item.place.line) for item in program] == [("set", 1), ("if", 2), ("return", 3)]
    inner = program[1].value
    assert isinstance(inner, Level)
    assert (inner.context, inner.head, inner.parent) == (In.IF_SERVER, ("($a)",), server)
    assert [item.name for item in inner.values[Rewrite, "program"]] == ["set", "return"]


def test_repeated_sets_add_up(tmp_path: Path) -> None:
    root = bound(tmp_path, "http { gzip_types a/b; gzip_types c/d; gzip_proxied any; gzip_proxied expired; }")
    values = root.children[0].values
    assert values[Rows, "gzip_types"] == {b"text/html", b"a/b", b"c/d"}
    assert values[Rows, "gzip_proxied"] == {"any", "expired"}


def test_idle_directives_are_collected(tmp_path: Path) -> None:
    root = bound(tmp_path, "http { aio on;\n server {\n aio off; gzip on; } }")
    assert [(row.name, row.idle, place.line) for row, place in bind.idle(root)] == [
        ("aio", "a reason", 1),
        ("aio", "a reason", 3),
    ]


def test_one_name_in_two_tables_and_one_context() -> None:
    @block
    class Again:
        gzip: bool = directive(In.LOCATION, flag(), False, "-")

    with pytest.raises(TypeError, match="gzip: declared by Rows and by Again"):
        bind.index((Rows, Again))


MISTAKES = {
    "unknown": "http { gzipp on; }",
    "unknown_block": "http { foo {\n bar; } }",
    "unknown_in_block": "http {\n server {\n foo\n bar; } }",
    "not_allowed": "http { location / { } }",
    "not_allowed_row": "http { upstream u { gzip on; } }",
    "not_allowed_main": "gzip on;",
    "block_wanted": "http { server; }",
    "block_unwanted": "http { gzip on { } }",
    "types_without_block": "http { types; }",
    "too_few": "http { gzip; }",
    "too_many": "http { gzip on\n off; }",
    "argument_for_block": "http { server x { } }",
    "no_argument_for_block": "http { server { location { } } }",
    "flag": "http { gzip maybe; }",
    "duplicate": "http { root a;\n root b; }",
    "duplicate_before_value": "http { gzip on;\n gzip maybe; }",
    "number": "http { keepalive_requests x; }",
    "bounds": "http { gzip_comp_level 10; }",
    "size": "http { gzip_min_length 10g; }",
    "bits": "http { gzip_proxied any foo; }",
    "first_wins": "http { foo; server {",
    "regex_brace": "http { server { location ~ ^/a{2}$ { } } }",
    "unclosed_types": "http { types { a b;",
    "unclosed_after_good": "http { gzip on; server { gzip off;\n",
    "missing_include": "http { gzip on;\n include nope.conf; }",
    "empty_name": "http { '' x; }",
}


@needs_nginx
@pytest.mark.parametrize("text", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    text = "events { }\n" + text + "\n"
    with pytest.raises(ConfigError) as caught:
        bound(tmp_path, text)
    assert str(caught.value) == verdict(tmp_path, text)


PIECES = [
    "a",
    "b1",
    "{",
    "}",
    ";",
    " ",
    "\n",
    '"',
    "'",
    "\\",
    "$",
    "${",
    "#",
    "(",
    ")",
    "\t",
    "a;",
    '"x"',
    "'y'",
    "\r\n",
    "} ",
]


@needs_nginx
@pytest.mark.parametrize("seed", range(40))
def test_random_text_as_nginx(tmp_path: Path, seed: int) -> None:
    """Both find the same first mistake, or none, in a handful of characters that mean something."""
    draw = random.Random(seed)
    name = "".join(draw.choices(PIECES, k=draw.randint(1, 14)))
    text = f"events {{ }}\nhttp {{ server {{ server_name x {name}{draw.choice(['', '; } }', ' } }', ';'])}"
    try:
        bound(tmp_path, text)
        said = None
    except ConfigError as error:
        said = str(error)
    assert said == verdict(tmp_path, text), text
