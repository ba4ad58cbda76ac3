"""Reading configuration files, with real nginx as the judge of what is a mistake and how it is called."""

from pathlib import Path

import pytest

from gateway.config.args import encode
from gateway.config.schema import ConfigError, Paths, Statement
from gateway.config.source import DEEPEST, Source, broken, read
from tests.gateway.nginx import NGINX, needs_nginx, verdict

LUA = Path("/usr/lib/nginx/modules/ngx_http_lua_module.so")


def reading(folder: Path, data: str | bytes, extra: str = "", **others: str | bytes) -> Source:
    """Write `data` as the main file and `others` beside it (`a_conf` is a.conf), and read it."""
    for name, content in {"main_conf": data, **others}.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(str(folder / "main.conf"), Paths(f"{folder}/", f"{folder}/"), extra)


def shape(statements: tuple[Statement, ...]) -> list[object]:
    """Names and arguments only."""
    return [
        (one.name, *one.args) if one.block is None else (one.name, *one.args, shape(one.block)) for one in statements
    ]


def mistake(source: Source) -> str:
    """The message of the mistake that the reading met, as it would be printed."""
    found = broken(source.statements[-1])
    assert found is not None
    return str(ConfigError(found.args[0], found.place))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b c;", ("a", "b", "c")),
        ("a\r\n\tb;\r\n", ("a", "b")),
        ("a 'b c' \"d;{}\" '';", ("a", "b c", "d;{}", "")),
        (r"a \"b\" 'it\'s' '\"';", ("a", '"b"', "it's", '"')),
        (r"a \t'\n' \r\\ '\\';", ("a", "\t'\n'", "\r\\", "\\")),
        (r"a '\t\n\r\\\x' \d+\.\$;", ("a", "\t\n\r\\\\x", r"\d+\.\$")),
        ("a b'c\"d;", ("a", "b'c\"d")),
        ("a ${b} c${d}e ${f};", ("a", "${b}", "c${d}e", "${f}")),
        ("a b}c} }};", None),
        ("a b}c d}};", ("a", "b}c", "d}}")),
        ("a b#c; # d { ;\n", ("a", "b#c")),
        ("a ( $b = 'c');", ("a", "(", "$b", "=", "c", ")")),
        ("a \u3000b\u00a0c;", ("a", "\u3000b\u00a0c")),
        ("a b\x0bc\x1cd \x0c;", ("a", "b\x0bc\x1cd", "\x0c")),
        ("a b\\ c\\;d\\{e;", ("a", r"b\ c\;d\{e")),
        ("a \\#b;", ("a", r"\#b")),
    ],
)
def test_words(tmp_path: Path, text: str, words: tuple[str, ...] | None) -> None:
    source = reading(tmp_path, text)
    if words is None:
        assert 'unexpected "}"' in mistake(source)
    else:
        assert shape(source.statements) == [words]


def test_bytes_that_are_no_utf8_survive(tmp_path: Path) -> None:
    source = reading(tmp_path, b"a \xff\x80b '\xc3\xa9 \xe4' ${x}\xff; c_by_lua_block { '\xff' }")
    assert [encode(word) for word in source.statements[0].args] == [b"\xff\x80b", b"\xc3\xa9 \xe4", b"${x}\xff"]
    assert source.statements[0].args[1] == "é \udce4"
    assert encode(source.statements[1].args[0]) == b" '\xff' "


def test_blocks_and_lines(tmp_path: Path) -> None:
    """A statement's line is where its `;` or `{` stands, as in nginx's messages."""
    source = reading(tmp_path, "a {\n b\n  c\n ; d\n{ e f; } }\n\ng;")
    assert shape(source.statements) == [("a", [("b", "c"), ("d", [("e", "f")])]), ("g",)]
    outer = source.statements[0]
    assert outer.block is not None
    assert [one.place.line for one in (outer, *outer.block, source.statements[1])] == [1, 4, 5, 7]
    assert outer.place.file == str(tmp_path / "main.conf")


LUA_BODIES = [
    " return '}' ",
    " a = \"}\\\"}\" b = '\\'}' ",
    " -- it's }\n ",
    " --[[ } ]] --[==[ }} ]] \n ]==] --[ }\n ",
    " a = [[ } ]] b = [=[ ]] } ]=] ",
    " a = { b = { c[d[1]] } } ",
    " a = b - c --}\n -- \\\n ",
    " a = '${x}' --[[$]] ",
    "",
]


@pytest.mark.parametrize("body", LUA_BODIES)
def test_lua_blocks(tmp_path: Path, body: str) -> None:
    text = f"x {{\ncontent_by_lua_block{{{body}}}\nset_by_lua_block $a {{{body}}} b\n;}}"
    (outer,) = reading(tmp_path, text).statements
    assert outer.block is not None
    assert shape(outer.block) == [("content_by_lua_block", body), ("set_by_lua_block", "$a", body), ("b",)]
    lines = body.count("\n")
    assert [one.place.line for one in outer.block] == [2 + lines, 3 + 2 * lines, 4 + 2 * lines]


def test_include(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for name in ("b.conf", "a.conf", ".hidden.conf", "c.txt"):
        (tmp_path / "many" / name).write_text(f"from {name};")
    source = reading(
        tmp_path, f"include one.conf; x {{ include many/*.conf; include many/?.nope; include {tmp_path}/one.conf; }}",
        one_conf="one {\n}",
    )  # fmt: skip
    assert shape(source.statements) == [("one", []), ("x", [("from", "a.conf"), ("from", "b.conf"), ("one", [])])]
    names = [str(tmp_path / name) for name in ("main.conf", "one.conf", "many/a.conf", "many/b.conf")]
    assert [name for name, _ in source.files] == names
    assert source.files[1][1] == b"one {\n}"
    assert str(source.statements[0].place) == f"{tmp_path}/one.conf:1"


def test_include_of_itself(tmp_path: Path) -> None:
    source = reading(tmp_path, "a;\ninclude b.conf;", b_conf="\ninclude *.conf;")
    assert mistake(source) == f'"{tmp_path}/b.conf" includes itself in {tmp_path}/b.conf:2'
    assert source.statements[0].name == "a"


def test_blocks_without_end(tmp_path: Path) -> None:
    source = reading(tmp_path, "a {" * 5000)
    assert mistake(source).startswith(f"blocks are nested more than {DEEPEST} deep")
    assert mistake(source).endswith(f" in {tmp_path}/main.conf:1")


def test_missing_main_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"{tmp_path}/none.conf", Paths("", ""))
    assert str(caught.value) == f'open() "{tmp_path}/none.conf" failed (2: No such file or directory)'


def test_command_line_comes_first(tmp_path: Path) -> None:
    source = reading(tmp_path, "b;", "a 1; a 2;")
    assert shape(source.statements) == [("a", "1"), ("a", "2"), ("b",)]
    assert str(source.statements[0].place) == "command line"


BROKEN = {
    "no_semicolon": "daemon off",
    "no_semicolon_brace": "events { worker_connections 4 }",
    "open_block": "events { \n\n",
    "open_inner": "events {}\nhttp { server {\n }\n",
    "stray_brace": "events {}\n}\n",
    "stray_semicolon": "events {};\n",
    "stray_open": "events {}\n{ }",
    "open_quote": 'events {}\nhttp { log_format x "abc; }\n',
    "open_quote_alone": "events {}\n'abc",
    "open_quote_long": "events {}\nhttp { log_format\n x '" + "abc \n" * 2000,
    "long_word": "events {}\nhttp { log_format x \n" + "a" * 4096 + ";}",
    "long_quoted": 'events {}\nhttp { log_format x \n"' + "a" * 4095 + '";}',
    "longer_quoted": 'events {}\nhttp { log_format x \n"' + "a" * 4096 + '";}',
    "glued": "events {}\nhttp { log_format x 'a'\n'b'b; }",
    "glued_quotes": "events {}\nhttp { log_format x 'a''b'; }",
    "glued_comment": "events {}\nhttp { log_format x 'a'#b\n; }",
    "word_before_brace": "events {}\nhttp { gzip on;\n gzip_vary 'on'} ",
    "include_missing": "events {}\nhttp {\ninclude none.conf; }",
    "include_count": "events {}\ninclude a b;",
    "include_none": "events {}\ninclude;",
    "include_block": "events {}\ninclude a {}",
    "include_nested": "events {}\nhttp { include *.inc; }",
    "bom": "\ufeffevents {}",
    "name_lost": "worker_processes",
    "backslash_end": "events {}\nuser a\\",
    "included_brace": "events {}\nhttp { include close.inc; }",
}
LUA_BROKEN = {
    "lua_open": "content_by_lua_block {\n a = b\n\n",
    "lua_open_inner": "content_by_lua_block {\n a = {}\n b = { \n\n ",
    "lua_open_string": 'content_by_lua_block { a = "x } \n" } } }  }',
    "lua_open_bracket": "content_by_lua_block {\n\n a = [==[ } ]]\n",
    "lua_open_comment": "content_by_lua_block {\n\n a = 1\n --[[ } ]\n",
    "lua_no_block": "content_by_lua_block ;",
}


@needs_nginx
@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.inc").write_text("gzip on;\n gzip")
    (tmp_path / "close.inc").write_text("gzip on;\n }")
    wanted = verdict(tmp_path, text)
    source = reading(tmp_path, text)
    if wanted is not None and wanted.startswith("unknown directive"):
        last = source.statements[-1]  # read without a mistake: binding would refuse it
        assert f'unknown directive "{last.name}" in {last.place}' == wanted
    else:
        assert mistake(source) == wanted


@pytest.mark.skipif(NGINX is None or not LUA.exists(), reason="nginx with Lua is not installed")
@pytest.mark.parametrize("text", LUA_BROKEN.values(), ids=LUA_BROKEN)
def test_lua_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    load = "".join(f"load_module {LUA.with_name(name)}; " for name in ("ndk_http_module.so", LUA.name))
    text = load + "events {} http { server { location / {\n" + text
    wanted = verdict(tmp_path, text)
    assert mistake(reading(tmp_path, text)) == wanted


@needs_nginx
@pytest.mark.parametrize("extra", ["worker_processes 1", "worker_processes {", "worker_processes '1", "}", "a 'b'c;"])
def test_command_line_mistakes_as_nginx(tmp_path: Path, extra: str) -> None:
    wanted = verdict(tmp_path, "events {}", extra)
    assert mistake(reading(tmp_path, "events {}", extra)) == wanted
