"""charset: which answers name one, and recoding between tables and UTF-8, however the body is cut."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.modules.charset import FromUtf8, Recode
from tests.gateway.livesite import Site, serving
from tests.gateway.nginx import agrees, needs_nginx

KOI = {0xC1: "а", 0xC2: "б", 0xC7: "г", 0xA4: "є"}
MAPS = """
charset_map koi8-u utf-8 { C1 D0B0; C2 D0B1; C7 D0B3; A4 D194; }
charset_map koi8-u windows-1251 { C1 E0; C2 E1; C7 E3; A4 BA; }
"""
SERVER = """
charset utf-8;
location /own/ { charset koi8-u; }
location /off/ { charset off; }
location /some/ { charset_types text/css; }
location /every/ { charset_types *; }
location /asked/ { charset $arg_c; source_charset koi8-u; }
location /to-utf8/ { alias %ROOT%/koi/; source_charset koi8-u; }
location /to-1251/ { alias %ROOT%/koi/; source_charset koi8-u; charset windows-1251; }
location /from-utf8/ { alias %ROOT%/utf/; source_charset utf-8; charset koi8-u; }
location /back/ { alias %ROOT%/koi/; source_charset windows-1251; charset koi8-u; }
location /named/ { proxy_pass http://127.0.0.1:%PORT2%; }
location /override/ { proxy_pass http://127.0.0.1:%PORT2%; override_charset on; charset koi8-u; }
"""
ORIGIN = (
    "server { listen 127.0.0.1:%PORT2%; charset windows-1251; default_type text/plain; location / { return 200 x; } }"
)
TEXT = "а б г є! plain " * 300
FILES = {
    f"{folder}/{name}": b"text"
    for folder in ("own", "off", "some", "every", "asked")
    for name in ("a.txt", "a.css", "a.html")
}


def koi(text: str) -> bytes:
    back = {char: code for code, char in KOI.items()}
    return bytes(back.get(char, ord(char)) for char in text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    files = FILES | {"koi/a.txt": koi(TEXT), "utf/a.txt": TEXT.encode() + "☺".encode(), "a.txt": b"a"}
    with serving(tmp_path_factory.mktemp("site"), SERVER, http=MAPS + ORIGIN, files=files) as made:
        yield made


@pytest.mark.parametrize(
    "target, kind",
    [
        ("/a.txt", "text/plain; charset=utf-8"),
        ("/own/a.html", "text/html; charset=koi8-u"),
        ("/off/a.txt", "text/plain"),
        ("/some/a.css", "text/css; charset=utf-8"),
        ("/some/a.txt", "text/plain"),
        ("/some/a.html", "text/html; charset=utf-8"),
        ("/own/a.css", "text/css"),
        ("/every/a.css", "text/css; charset=utf-8"),
        ("/asked/a.txt?c=koi8-u", "text/plain; charset=koi8-u"),
        ("/asked/a.txt", "text/plain"),
        ("/named/", "text/plain; charset=windows-1251"),
        ("/override/", "text/plain; charset=koi8-u"),
    ],
)
def test_named(site: Site, target: str, kind: str) -> None:
    for _ in range(3):
        assert site.get(target).get("Content-Type") == kind


def test_errors_and_redirects_are_of_a_type_too(site: Site) -> None:
    assert site.get("/none").get("Content-Type") == "text/html; charset=utf-8"
    assert site.get("/a.txt", "If-None-Match: *").get("Content-Type") is None


def test_recoded(site: Site) -> None:
    answer = site.get("/to-utf8/a.txt")
    assert answer.body.decode() == TEXT and answer.get("Content-Length") is None
    answer = site.get("/to-1251/a.txt")
    assert answer.body.decode("windows-1251") == TEXT and answer.get("Content-Length") == str(len(TEXT))
    assert site.get("/from-utf8/a.txt").body == koi(TEXT) + b"&#9786;"
    assert site.get("/a.txt").body == b"a"


def test_a_range_is_of_the_recoded_text_or_not_given(site: Site) -> None:
    answer = site.get("/to-1251/a.txt", "Range: bytes=0-2")
    assert (answer.status, answer.body.decode("windows-1251")) == (206, TEXT[:3])


def test_recoded_for_head(site: Site) -> None:
    assert site.get("/to-utf8/a.txt", method="HEAD").get("Content-Type") == "text/plain; charset=utf-8"


TABLE = {char: bytes((code,)) for code, char in KOI.items()}


@given(st.text("абгєz☺\n€"), st.lists(st.integers(0, 60)))
def test_utf8_cut_anywhere(text: str, cuts: list[int]) -> None:
    data = text.encode()
    whole = FromUtf8(TABLE)
    wanted = whole.feed(data) + whole.finish()
    pieces = FromUtf8(TABLE)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    got = b"".join(pieces.feed(data[start:end]) + pieces.flush() for start, end in pairwise(bounds))
    assert got + pieces.finish() == wanted


def test_half_a_character_at_the_end() -> None:
    pieces = FromUtf8(TABLE)
    assert pieces.feed("а".encode() + b"\xd0") + pieces.finish() == b"\xc1?"


@given(st.binary())
def test_single_bytes(data: bytes) -> None:
    table = [bytes((255 - code,)) for code in range(256)]
    transform = Recode(table)
    assert transform.feed(data) + transform.finish() == bytes(255 - byte for byte in data)
    longer = Recode([b"[%d]" % code for code in range(256)])
    assert longer.feed(data) == b"".join(b"[%d]" % byte for byte in data)


CASES = {
    "no_map": "server { charset utf-8; source_charset koi8-r; }",
    "same": "charset_map a a { }",
    "bad_code": "charset_map a b { xx 80; }",
    "bad_text": "charset_map a b { 80 xx; }",
    "long_text": "charset_map a b { 80 8081; }",
    "no_text": "charset_map a b { 80; }",
    "large": "charset_map a b { 180 80; }",
    "twice": "charset_map a b { 80 81; } charset_map a b { 80 82; }",
    "good": "charset_map a utf-8 { 80 D0B0; 81 D0B1D0B2; } server { charset utf-8; source_charset a; }",
    "others": "server { override_charset on; charset_types x/y; }",
    "in_if": "server { location / { if ($uri) { charset utf-8; } } }",
    "variable": "server { charset $arg_x; source_charset koi8-r; }",
    "unknown": "server { charset $nobody; }",
}


@needs_nginx
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_rows_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
