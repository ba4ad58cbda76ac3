"""expires, add_header and add_trailer: on which answers, inherited how, replaced how."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.http.dates import http_date, parse_date
from gateway.modules.headers import Expiry, parse_expiry
from tests.gateway.livesite import Site, serving
from tests.gateway.nginx import agrees, needs_nginx

SERVER = """
expires $arg_e; add_header X-Server "1"; add_trailer T-Server 1;
location /inherits/ { }
location /own/ { add_header X-Own "$uri"; add_header X-Always a always; add_header X-Empty ""; expires off; }
location /merge/ { add_header_inherit merge; add_header X-Own 2;
    add_trailer_inherit merge; add_trailer T-Own 2; autoindex on; }
location /none/ { add_header_inherit off; add_trailer_inherit off; autoindex on; }
location /last/ { add_header Last-Modified "Sun, 09 Sep 2001 01:46:39 GMT"; add_header ETag '"own"'; }
location /nolast/ { add_header Last-Modified ""; add_header ETag ""; }
location /hour/ { expires 1h; add_header Cache-Control public; }
location /minus/ { expires -1h; }
location /modified/ { expires modified +1d; }
location /epoch/ { expires epoch; }
location /max/ { expires max; }
location /daily/ { expires @23h59m; }
location /proxied/ { proxy_pass http://127.0.0.1:%PORT2%; expires 1h; }
location /if/ { if ($arg_x) { expires 1h; add_header X-If yes; add_trailer T no; } }
location ~ ^/status/(?<code>[0-9]+)$ { expires 1h; add_header X-Own 1; try_files /never =404; }
"""
STATUS = "".join(
    f"location = /return{code} {{ expires 1h; add_header X-Own 1; add_header X-Always 1 always; return {code} x; }}\n"
    for code in (200, 201, 204, 301, 302, 307, 400, 403, 404, 500)
)
ORIGIN = """server { listen 127.0.0.1:%PORT2%; location / {
add_header Expires "Thu, 01 Jan 1970 00:00:01 GMT"; add_header Cache-Control no-cache;
add_header cache-control no-store; return 200 origin; } }"""
FOLDERS = (
    "inherits",
    "own",
    "merge",
    "none",
    "last",
    "nolast",
    "hour",
    "minus",
    "modified",
    "epoch",
    "max",
    "daily",
    "if",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    files = {f"{folder}/a.txt": b"a" for folder in FOLDERS}
    with serving(tmp_path_factory.mktemp("site"), SERVER + STATUS, http=ORIGIN, files=files) as made:
        yield made


def test_inheritance(site: Site) -> None:
    inherits, own, merge, none = (site.get(f"/{name}/a.txt") for name in ("inherits", "own", "merge", "none"))
    assert inherits.get("X-Server") == "1"
    assert (own.get("X-Server"), own.get("X-Own"), own.get("X-Always"), own.get("X-Empty")) == (
        None,
        "/own/a.txt",
        "a",
        None,
    )
    assert (merge.get("X-Server"), merge.get("X-Own")) == ("1", "2")
    assert none.get("X-Server") is None


def test_only_some_answers_get_a_header_without_always(site: Site) -> None:
    for code in (200, 201, 204, 301, 302, 307, 400, 403, 404, 500):
        answer = site.get(f"/return{code}")
        safe = code < 400
        assert answer.status == code
        assert (answer.get("X-Own"), answer.get("X-Always")) == ("1" if safe else None, "1"), code
        assert (answer.get("Expires") is not None) == safe, code
    assert site.get("/own/none").get("X-Always") == "a"
    assert site.get("/own/a.txt", "If-None-Match: *").get("X-Own") == "/own/a.txt"


def test_trailers_come_with_chunks_only(site: Site) -> None:
    raw = site.raw(b"GET /merge/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert raw.endswith(b"0\r\nT-Server: 1\r\nT-Own: 2\r\n\r\n")
    assert site.raw(b"GET /none/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").endswith(b"0\r\n\r\n")
    assert b"T-Server" not in site.raw(b"GET /merge/ HTTP/1.0\r\n\r\n")


def test_replacing_what_the_file_says(site: Site) -> None:
    last = site.get("/last/a.txt")
    assert last.all("Last-Modified") == ["Sun, 09 Sep 2001 01:46:39 GMT"]
    assert last.all("ETag") == ['"own"']
    nolast = site.get("/nolast/a.txt")
    assert (nolast.get("Last-Modified"), nolast.get("ETag")) == (None, None)


def expiry(answer: object) -> tuple[int, str | None]:
    """Seconds until it expires, and Cache-Control."""
    date = answer.get("Expires")  # type: ignore[attr-defined]
    return round(parse_date(date.encode()) - time.time()), answer.get("Cache-Control")  # type: ignore[attr-defined]


def test_expires(site: Site) -> None:
    seconds, control = expiry(site.get("/hour/a.txt"))
    assert 3590 <= seconds <= 3600 and control == "max-age=3600"
    assert site.get("/hour/a.txt").all("Cache-Control") == ["max-age=3600", "public"]
    seconds, control = expiry(site.get("/minus/a.txt"))
    assert -3610 <= seconds <= -3600 and control == "no-cache"
    answer = site.get("/modified/a.txt")
    assert (answer.get("Expires"), answer.get("Cache-Control")) == (http_date(1_000_086_400).decode(), "no-cache")
    answer = site.get("/epoch/a.txt")
    assert (answer.get("Expires"), answer.get("Cache-Control")) == ("Thu, 01 Jan 1970 00:00:01 GMT", "no-cache")
    answer = site.get("/max/a.txt")
    assert (answer.get("Expires"), answer.get("Cache-Control")) == (
        "Thu, 31 Dec 2037 23:55:55 GMT",
        "max-age=315360000",
    )
    seconds, control = expiry(site.get("/daily/a.txt"))
    assert 0 <= seconds <= 86400 and (control or "").startswith("max-age=")
    assert (time.localtime(parse_date(str(site.get("/daily/a.txt").get("Expires")).encode())).tm_min) == 59


def test_expires_by_a_variable(site: Site) -> None:
    assert site.get("/inherits/a.txt?e=epoch").get("Cache-Control") == "no-cache"
    assert site.get("/inherits/a.txt?e=1m").get("Cache-Control") == "max-age=60"
    for unusable in ("", "off", "nonsense", "@99h", "-"):
        assert site.get(f"/inherits/a.txt?e={unusable}").get("Expires") is None


def test_expires_replaces_what_an_upstream_said(site: Site) -> None:
    answer = site.get("/proxied/")
    assert answer.body == b"origin"
    assert (len(answer.all("Expires")), answer.all("Cache-Control")) == (1, ["max-age=3600"])


def test_in_an_if(site: Site) -> None:
    assert site.get("/if/a.txt?x=1").get("X-If") == "yes"
    assert site.get("/if/a.txt?x=1").get("X-Server") is None
    assert site.get("/if/a.txt").get("X-Server") == "1"


@pytest.mark.parametrize(
    "word, modified, wanted",
    [
        ("off", False, Expiry("off")),
        ("1h", False, Expiry("access", 3600)),
        ("+1d", False, Expiry("access", 86400)),
        ("-30s", False, Expiry("access", -30)),
        ("@15h30m", False, Expiry("daily", 55800)),
        ("1m", True, Expiry("modified", 60)),
        ("1y2M", False, Expiry("access", 365 * 86400 + 60 * 86400)),
        ("0", False, Expiry("access", 0)),
    ],
)
def test_read(word: str, modified: bool, wanted: Expiry) -> None:
    assert parse_expiry(word, modified=modified) == wanted


CASES = [
    "expires;",
    "expires nonsense;",
    "expires 1x;",
    "expires modified;",
    "expires modified 1h;",
    "expires modified @1h;",
    "expires modified off;",
    "expires @25h;",
    "expires @24h;",
    "expires other 1h;",
    "expires 1h 2h;",
    "expires $arg_x;",
    "expires modified $arg_x;",
    "expires $nobody;",
    "expires max; expires epoch;",
    "expires -1;",
    "expires @;",
    "expires +;",
    "add_header a;",
    "add_header a b always;",
    "add_header a b sometimes;",
    "add_header a b c d;",
    "add_header a $nobody;",
    "add_header a b; add_header a b;",
    "add_trailer a b;",
    "add_trailer a b maybe;",
    "expires 1.5h;",
]


@needs_nginx
@pytest.mark.parametrize("text", CASES)
def test_rows_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{ {text} }}")
