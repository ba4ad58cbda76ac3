"""Fingerprints, end to end: names in requests, names in pages, and that nothing stale is ever pinned."""

import os
import re
import zlib
from hashlib import blake2b
from typing import Any

import pytest

from tests.gateway.test_gzip import field

TYPES = "types { text/html html; text/css css; application/javascript js; image/png png; }\n"
FOREVER = "public, max-age=31536000, immutable"
HERE = """location /static/ {
    fingerprint on; fingerprint_rewrite on; expires 1h; add_header Cache-Control no-transform;
}
"""
OTHER = "0123456789abcdef"


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def named(name: str, data: bytes) -> str:
    stem, dot, extension = name.rpartition(".")
    return f"{stem}.{digest(data)}.{extension}" if dot else f"{name}.{digest(data)}"


FILES = {
    "static/app.js": b"alert(1)\n" * 50,
    "static/app.min.js": b"alert(2)\n",
    "static/LICENSE": b"free",
    "static/a b.png": b"\x89PNG a b",
    "static/bg.png": b"\x89PNG bg",
    "static/style.css": b"body{background:url(bg.png)} a{b:url(/other/x.png)}",
    f"static/real.{OTHER}.js": b"really called so",
    "static/real.js": b"real",
    "other/x.png": b"\x89PNG x",
}
STYLE = FILES["static/style.css"].replace(b"bg.png", named("bg.png", FILES["static/bg.png"]).encode())


@pytest.mark.parametrize("name", ["app.js", "app.min.js", "LICENSE"])
def test_the_present_content_may_be_kept_for_ever(gateway: Any, name: str) -> None:
    started, data = gateway(HERE, http=TYPES, files=FILES), FILES[f"static/{name}"]
    answer = started.get(f"/static/{named(name, data)}")
    assert (answer.body, field(answer, "Cache-Control"), field(answer, "Expires")) == (data, FOREVER, None)
    plain = started.get(f"/static/{name}")
    assert plain.body == data and "max-age=3600" in (field(plain, "Cache-Control") or "")
    assert field(plain, "Content-Type") == field(answer, "Content-Type")


def test_an_outdated_hash_gets_the_present_content_and_may_not_be_kept(gateway: Any) -> None:
    started = gateway(HERE, http=TYPES, files=FILES)
    answer = started.get(f"/static/app.{OTHER}.js")
    assert answer.body == FILES["static/app.js"]
    assert (field(answer, "Cache-Control"), field(answer, "Expires")) == ("no-cache", None)


def test_a_file_that_has_the_name_wins(gateway: Any) -> None:
    started = gateway(HERE, http=TYPES, files=FILES)
    answer = started.get(f"/static/real.{OTHER}.js")
    assert answer.body == b"really called so" and "max-age=3600" in (field(answer, "Cache-Control") or "")


@pytest.mark.parametrize(
    "name",
    ["app.0123456789ABCDEF.js", "app.0123456789abcde.js", f"none.{OTHER}.js", f".{OTHER}.js", f"app.{OTHER}.x.js"],
)
def test_other_names_are_names(gateway: Any, name: str) -> None:
    assert gateway(HERE, http=TYPES, files=FILES).get(f"/static/{name}").head.startswith(b"HTTP/1.1 404")


def test_elsewhere_it_is_off(gateway: Any) -> None:
    started = gateway(HERE, http=TYPES, files=FILES)
    assert started.get(f"/other/{named('x.png', FILES['other/x.png'])}").head.startswith(b"HTTP/1.1 404")


def test_conditions_ranges_and_head(gateway: Any) -> None:
    started, data = gateway(HERE, http=TYPES, files=FILES), FILES["static/app.js"]
    name = f"/static/{named('app.js', data)}"
    tag = field(started.get(name), "ETag")
    for headers, method, status in (
        ([f"If-None-Match: {tag}"], "GET", b"304"),
        (["Range: bytes=0-4"], "GET", b"206"),
        ([], "HEAD", b"200"),
    ):
        answer = started.get(name, *headers, method=method)
        assert answer.head[9:12] == status and field(answer, "Cache-Control") == FOREVER
        outdated = started.get(f"/static/app.{OTHER}.js", *headers, method=method)
        assert outdated.head[9:12] == status and field(outdated, "Cache-Control") == "no-cache"


def test_a_changed_file_is_never_pinned_under_its_old_name(gateway: Any) -> None:
    started = gateway(HERE, http=TYPES, files=FILES)
    before = f"/static/{named('app.js', FILES['static/app.js'])}"
    for number in range(5):
        data = b"alert(%d)\n" % number * 50
        (started.root / "static/app.js").write_bytes(data)
        os.utime(started.root / "static/app.js", (1e9, 1e9 + number))
        old, new = started.get(before), started.get(f"/static/{named('app.js', data)}")
        assert old.body == new.body == data
        assert field(old, "Cache-Control") == (FOREVER if before.endswith(named("app.js", data)) else "no-cache")
        assert field(new, "Cache-Control") in (FOREVER, "no-cache")
        before = f"/static/{named('app.js', data)}"


PAGE = (
    "<!doctype html><link rel=stylesheet href='{style}'><script src=/static/{app}?v=1#x></script>"
    "<img src='static/{spaced}' srcset='/static/{bg} 1x, none.png 2x'><img src=/other/x.png>"
    "<img src=//elsewhere/static/bg.png><img src=http://localhost/static/{bg}><a href=/static/app.js>"
)
PLAIN = PAGE.format(style="/static/./style.css", app="app.js", spaced="a%20b.png", bg="bg.png").encode()
WRITTEN = PAGE.format(
    style="/static/./" + named("style.css", STYLE),
    app=named("app.js", FILES["static/app.js"]),
    spaced=named("a%20b.png", FILES["static/a b.png"]),
    bg=named("bg.png", FILES["static/bg.png"]),
).encode()
REWRITE = HERE + "location / { fingerprint_rewrite on; }\n"


def test_pages_get_the_names(gateway: Any) -> None:
    started = gateway(REWRITE, http=TYPES, files=FILES | {"index.html": PLAIN})
    for target in ("/", "/index.html"):
        answer = started.get(target)
        assert answer.body == WRITTEN
        assert field(answer, "ETag") == f'"{digest(WRITTEN)}"'
        assert field(answer, "Last-Modified") is None and field(answer, "Accept-Ranges") is None
        assert field(answer, "Content-Length") == str(len(WRITTEN))
    again = started.get("/", f'If-None-Match: "{digest(WRITTEN)}"')
    assert again.head.startswith(b"HTTP/1.1 304")
    assert started.get("/", "Range: bytes=0-4").body == WRITTEN


def test_every_name_written_is_answered_for_ever(gateway: Any) -> None:
    started = gateway(REWRITE, http=TYPES, files=FILES | {"index.html": PLAIN})
    names = set(re.findall(rb"static/[^ '?>]*?\.[0-9a-f]{16}[^ '?>]*", started.get("/").body))
    assert len(names) == 4
    for name in names:
        assert field(started.get("/" + name.decode()), "Cache-Control") == FOREVER


def test_style_sheets_are_named_by_what_is_sent(gateway: Any) -> None:
    started = gateway(HERE, http=TYPES, files=FILES)
    answer = started.get(f"/static/{named('style.css', STYLE)}")
    assert (answer.body, field(answer, "Cache-Control")) == (STYLE, FOREVER)
    source = started.get(f"/static/{named('style.css', FILES['static/style.css'])}")
    assert (source.body, field(source, "Cache-Control")) == (STYLE, "no-cache")


def test_a_page_changes_with_what_it_refers_to(gateway: Any) -> None:
    started = gateway(REWRITE, http=TYPES, files=FILES | {"index.html": PLAIN})
    before = started.get("/")
    (started.root / "static/bg.png").write_bytes(b"\x89PNG new")
    wanted = re.sub(rb"bg\.[0-9a-f]{16}", b"bg." + digest(b"\x89PNG new").encode(), before.body)
    for _ in range(400):  # a name is believed for a second
        after = started.get("/")
        if after.body != before.body and after.body != wanted:
            break
    assert field(after, "ETag") != field(before, "ETag")
    assert named("bg.png", b"\x89PNG new").encode() in after.body
    assert named("style.css", STYLE).encode() not in after.body, "the style sheet refers to it too"


def test_proxied_pages_are_rewritten_as_they_stream(gateway: Any) -> None:
    started = gateway(
        HERE
        + "location / { fingerprint_rewrite on; proxy_pass http://127.0.0.1:%PORT2%; }\n"
        + "location /plain/ { proxy_pass http://127.0.0.1:%PORT2%/; }\n",
        http=TYPES + "server { listen 127.0.0.1:%PORT2%; root %ROOT%/pages; }\n",
        files=FILES | {"pages/page.html": PLAIN, "pages/script.js": b"'<img src=/static/bg.png>'"},
    )
    answer = started.get("/page.html")
    assert answer.body == WRITTEN and answer.framing == "chunked"
    assert field(answer, "ETag") is None and field(answer, "Last-Modified") is None
    assert started.get("/plain/page.html").body == PLAIN
    assert started.get("/script.js").body == b"'<img src=/static/bg.png>'"


def test_rewriting_comes_before_compression(gateway: Any) -> None:
    started = gateway("gzip on; gzip_min_length 1;" + REWRITE, http=TYPES, files=FILES | {"index.html": PLAIN})
    for _ in range(2):
        answer = started.get("/", "Accept-Encoding: gzip")
        assert zlib.decompress(answer.body, 31) == WRITTEN
        assert field(answer, "ETag") == f'W/"{digest(WRITTEN)}"'


def test_a_base_counts(gateway: Any) -> None:
    files = FILES | {
        "index.html": b"<base href=/static/><img src=bg.png>",
        "away.html": b"<base href=//x/><img src=/static/bg.png>",
    }
    started = gateway(REWRITE, http=TYPES, files=files)
    assert started.get("/").body.endswith(named("bg.png", FILES["static/bg.png"]).encode() + b">")
    assert started.get("/away.html").body == files["away.html"]


def test_relative_urls_are_relative_to_what_was_asked_for(gateway: Any) -> None:
    started = gateway(
        HERE + "location / { fingerprint_rewrite on; try_files /page.html =404; }",
        http=TYPES,
        files=FILES | {"page.html": b"<img src=static/bg.png>"},
    )
    assert b"bg.png" in started.get("/deep/route").body
    assert b"bg.png" not in started.get("/route").body


def test_style_sheets_in_a_circle(gateway: Any) -> None:
    files = FILES | {"static/a.css": b"@import 'b.css';", "static/b.css": b"@import 'a.css';"}
    started = gateway(HERE, http=TYPES, files=files)
    for name in ("a", "b"):
        assert started.get(f"/static/{name}.css").body.startswith(b"@import '")
