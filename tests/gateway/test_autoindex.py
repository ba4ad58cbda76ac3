"""autoindex: each form of the listing, its order, its columns, names that need escaping. Beside nginx: tests/parity."""

import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.gateway.livesite import Site, serving
from tests.gateway.nginx import agrees, needs_nginx

NAMES = [
    "a",
    "b&<c>.txt",
    'q"uote',
    "sp ace",
    "é.txt",
    "with:colon",
    "n" * 60,
    "é" * 60,
    "n" * 50,
    "hash#?",
    "percent%41",
]
SERVER = """
autoindex on;
location /sizes/ { autoindex_exact_size off; autoindex_localtime on; }
location /json/ { alias %ROOT%/d/; autoindex_format json; }
location /jsonp/ { alias %ROOT%/d/; autoindex_format jsonp; }
location /xml/ { alias %ROOT%/d/; autoindex_format xml; }
location /utf8/ { alias %ROOT%/d/; charset utf-8; }
location /off/ { alias %ROOT%/d/; autoindex off; }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    files = {f"d/{name}": name.encode() for name in NAMES} | {"d/.hidden": b"", "d/z/x": b"", "d/Z/x": b""}
    sizes = {"k": 9999, "kk": 10_000, "m": 2 << 20, "zero": 0}
    with serving(tmp_path_factory.mktemp("site"), SERVER, files=files) as made:
        (made.root / "sizes").mkdir()
        for name, size in sizes.items():
            (made.root / "sizes" / name).touch()
            os.truncate(made.root / "sizes" / name, size)
        (made.root / "d" / "dangling").symlink_to("nowhere")
        yield made


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name == "href"]


def test_html_links_lead_to_their_files(site: Site) -> None:
    answer = site.get("/d/")
    assert (answer.get("Content-Type"), answer.get("Transfer-Encoding")) == ("text/html", "chunked")
    page = Links()
    page.feed(answer.body.decode(errors="replace"))  # long names are cut by bytes
    assert page.links[:3] == ["../", "Z/", "z/"]  # folders first, by bytes
    names = [unquote(link).removeprefix("./") for link in page.links[3:]]
    assert names == sorted([*NAMES, "dangling"], key=str.encode)
    for link in page.links[1:]:
        if link != "dangling":
            assert site.get("/d/" + link).status == 200, link


@pytest.mark.parametrize("target", ["/d/", "/utf8/"])
def test_columns_stand_below_each_other(site: Site, target: str) -> None:
    lines = [line for line in site.get(target).body.split(b"\r\n") if line.startswith(b"<a") and b"-Sep-2001" in line]
    assert len(lines) >= len(NAMES)
    coding = "utf-8" if target == "/utf8/" else "latin-1"
    plain = [line.partition(b">")[2].replace(b"</a>", b"") for line in lines]
    shown = [
        line.replace(b"&amp;", b"&").replace(b"&lt;", b"<").replace(b"&gt;", b">").replace(b"&quot;", b'"')
        for line in plain
    ]
    assert len({line.decode(coding, "surrogateescape").index("09-Sep") for line in shown}) == 1


def test_rounded_sizes(site: Site) -> None:
    page = site.get("/sizes/").body.decode()
    found = {
        line.partition(">")[2].partition("<")[0]: line.split()[-1] for line in page.split("\r\n") if "href" in line
    }
    assert (found["k"], found["kk"], found["m"], found["zero"]) == ("9999", "10K", "2M", "0")


def test_json(site: Site) -> None:
    answer = site.get("/json/")
    assert answer.get("Content-Type") == "application/json"
    listed = json.loads(answer.body)
    assert {item["name"] for item in listed} == {*NAMES, "z", "Z", "dangling"}
    entry = next(item for item in listed if item["name"] == "é.txt")
    assert entry == {"name": "é.txt", "type": "file", "mtime": "Sun, 09 Sep 2001 01:46:40 GMT", "size": 6}
    assert "size" not in next(item for item in listed if item["type"] == "directory")


def test_jsonp(site: Site) -> None:
    answer = site.get("/jsonp/?callback=app.show")
    assert answer.get("Content-Type") == "application/javascript"
    head, call = answer.body.split(b"\r\n", 1)
    assert head == b"/* callback */" and call.startswith(b"app.show(") and call.endswith(b");")
    for bad in ("", "alert(1)", "a%20b", "a;b"):
        assert json.loads(site.get(f"/jsonp/?callback={bad}").body)


def test_xml(site: Site) -> None:
    answer = site.get("/xml/")
    assert answer.get("Content-Type") == "text/xml; charset=utf-8"
    listed = ElementTree.fromstring(answer.body)
    assert {item.text for item in listed} == {*NAMES, "z", "Z", "dangling"}
    assert {item.tag for item in listed} == {"directory", "file", "other"}


def test_what_is_not_listed(site: Site) -> None:
    assert site.get("/off/").status == 403
    assert site.get("/absent/").status == 404
    assert site.get("/d/", method="POST").status in (403, 405)
    head = site.get("/d/", method="HEAD")
    assert (head.status, head.get("Content-Type")) == (200, "text/html")


def test_a_changed_folder_is_listed_anew(site: Site) -> None:
    with site.connect() as client:
        for number in range(5):
            (site.root / "d" / "z" / f"new{number}").touch()
            assert b"new%d" % number in client.get("/d/z/").body


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "autoindex maybe;",
        "autoindex_format yaml;",
        "autoindex_format json; autoindex_exact_size off; autoindex_localtime on;",
    ],
)
def test_rows_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{ {text} }}")
