"""The rewrite module: what nginx refuses, in which words. More is judged in tests/parity."""

from pathlib import Path
from typing import Any

import pytest

from gateway.http.substitution import unescape_redirect
from tests.gateway.nginx import agrees, compiled, needs_nginx

MISTAKES = {
    "rewrite_count": "rewrite ^/a;",
    "rewrite_empty": "rewrite ^/a '';",
    "rewrite_flag": "rewrite ^/a /b perm;",
    "rewrite_flag_absolute": "rewrite ^/a http://b perm;",
    "rewrite_regex": "rewrite ^/(a /b;",
    "rewrite_variable": "rewrite ^/a /$nobody;",
    "rewrite_bracket": "rewrite ^/a /${nobody;",
    "return_word": "return never;",
    "return_word_text": "return never text;",
    "return_url_text": "return http://a b;",
    "return_high": "return 1000;",
    "return_negative": "return -1;",
    "return_count": "return 200 a b;",
    "set_name": "set a b;",
    "set_dollar": "set $ b;",
    "set_fixed": "set $uri b;",
    "set_unknown": "set $a $nobody;",
    "set_count": "set $a;",
    "if_no_brackets": "if $uri { }",
    "if_open": "if ($uri { }",
    "if_open_words": "if ($uri = a { }",
    "if_empty": "if () { }",
    "if_empty_words": "if ( ) { }",
    "if_word": "if (uri) { }",
    "if_too_many": "if ($uri = a b) { }",
    "if_two": "if ($uri =) { }",
    "if_operator": "if ($uri == a) { }",
    "if_operator_none": "if ($uri a b) { }",
    "if_regex": "if ($uri ~ (a) { }",
    "if_regex_open": "if ($uri ~ '(a') { }",
    "if_file": "if (-f) { }",
    "if_file_kind": "if (-z $uri) { }",
    "if_file_many": "if (-f a b) { }",
    "if_not": "if (!$uri) { }",
    "if_unknown": "if ($nobody) { }",
    "if_two_variables": "if ($uri$args) { }",
    "if_in_if": "if ($uri) { if ($uri) { } }",
    "if_not_allowed": "location / { if ($uri) { server_name a; } }",
    "if_no_block": "if ($uri);",
    "if_no_argument": "if { }",
    "break_argument": "break now;",
    "log": "rewrite_log maybe;",
    "warn": "uninitialized_variable_warn 1;",
}
GOOD = """
    set $a "$uri"; set $a 1; set $args x; set $limit_rate 1k; set $http_x y; set $arg_x y; set $captured z;
    if ( $a ) { break; } if ($a = "") { } if ( $a != b ) { } if ($a ~* (?<captured>x)) { } if (!-e "$uri") { }
    if ($a = ")") { } if ($a !~ "x{2}") { return 204; } if (-d /) { set $b $captured; }
    rewrite ^/x{2}$ /y? permanent; rewrite ^ http://x break; rewrite ^ $scheme://x; rewrite_log on;
    location / { if ($a) { root x; add_header A b; rewrite ^ /c last; } return https://x; }
"""


@needs_nginx
@pytest.mark.parametrize("text", [*MISTAKES.values(), GOOD], ids=[*MISTAKES, "good"])
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{\n{text}\n}}")


def test_a_program_is_absent_where_nothing_is_written(tmp_path: Path) -> None:
    text = "server { location / { } location = /a { return 204; } }"
    (server,) = compiled(tmp_path, text).site.servers
    assert server.program is None
    assert server.locations.prefixes[b"/"].program is None
    assert server.locations.exact[b"/a"].program is not None


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (b"/a", b"/a"),
        (b"/%41%2f%20%25%7f%80", b"/A/%20%25%7f%80"),
        (b"/%3fa%41", b"/?a%41"),
        (b"/a?b%41", b"/a?b%41"),
        (b"/%3Fa%41?c", b"/?a%41?c"),
    ],
)
def test_escapes_in_redirects(value: bytes, wanted: bytes) -> None:
    assert unescape_redirect(value) == wanted


def test_logging(gateway: Any) -> None:
    started = gateway(
        """location / { rewrite_log on; rewrite ^/a(.*) /b$1?x=1; rewrite ^/c /d; return 200 "$uri"; }
        location /r { rewrite_log on; rewrite ^ http://x/$uri; }
        location /unset { return 200 "[$later]"; } location /set { set $later 1; }
        location /quiet { uninitialized_variable_warn off; set $quiet 1; }
        location /unquiet { return 200 "[$quiet]"; }"""
    )
    assert started.get("/a/b?c").body == b"/b/b"
    assert started.get("/unset").body == b"[]"
    assert started.get("/unquiet").body == b"[]"
    started.get("/r")
    written = started.log("error.log")
    for line in (
        '[notice] %: "^/a(.*)" matches "/a/b"',
        '[notice] %: rewritten data: "/b/b", args: "x=1&c"',
        '[notice] %: "^/c" does not match "/b/b"',
        '[notice] %: rewritten redirect: "http://x//r"',
        '[warn] %: using uninitialized "later" variable',
    ):
        level, _, message = line.partition(" %: ")
        assert any(level in one and message in one for one in written.splitlines()), line
    assert 'using uninitialized "quiet" variable' not in written
