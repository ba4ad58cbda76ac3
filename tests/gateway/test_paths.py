"""root and alias: the file that a URI means, at every kind of level, with and without variables."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.livesite import Site, serving
from tests.gateway.nginx import agrees, needs_nginx

SERVER = """
location /plain/ { }
location /root/ { root %ROOT%/other/; }
location /relative/ { root root/other; }
location /alias/ { alias %ROOT%/other/; }
location /aliased { alias %ROOT%/other/a.txt; }
location /glued { alias %ROOT%/other/; }
location ~ ^/regex/(.*)$ { alias %ROOT%/other/$1; }
location /variable/ { root %ROOT%/$arg_folder; }
location /outer/ { alias %ROOT%/other/;
    location /outer/inner/ { } location ~ \\.md$ { } location /outer/own/ { root %ROOT%; } }
location = /exact { alias %ROOT%/other/a.txt; }
location /if/ { root %ROOT%; if ($arg_other) { root %ROOT%/other; } }
location /types/ { alias %ROOT%/kinds/; types { text/own x y; } default_type own/other; }
location /names { return 200 "$document_root $request_filename"; }
location /names/alias/ { alias %ROOT%/other/; return 200 "$document_root $request_filename"; }
location /secret/ { alias %ROOT%/other/; }
"""
FILES = {
    "plain/a.txt": b"plain",
    "other/root/a.txt": b"root",
    "other/relative/a.txt": b"relative",
    "other/a.txt": b"alias",
    "other/b/a.txt": b"deep",
    "one/variable/a.txt": b"one",
    "two/variable/a.txt": b"two",
    "other/inner/a.txt": b"inner",
    "other/a.md": b"md",
    "outer/own/a.txt": b"own",
    "if/a.txt": b"if",
    "other/if/a.txt": b"if other",
    "kinds/a.x": b"",
    "kinds/a.Y": b"",
    "kinds/a.html": b"",
    "kinds/a": b"",
    "kinds/a.tar.x": b"",
    "kinds.x/a": b"",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site"), SERVER, files=FILES) as made:
        yield made


@pytest.mark.parametrize(
    "target, body",
    [
        ("/plain/a.txt", b"plain"),
        ("/root/a.txt", b"root"),
        ("/relative/a.txt", b"relative"),
        ("/alias/a.txt", b"alias"),
        ("/alias/b/a.txt", b"deep"),
        ("/aliased", b"alias"),
        ("/gluedb/a.txt", b"deep"),
        ("/regex/b/a.txt", b"deep"),
        ("/variable/a.txt?folder=one", b"one"),
        ("/variable/a.txt?folder=two", b"two"),
        ("/outer/inner/a.txt", b"inner"),
        ("/outer/a.md", b"md"),
        ("/outer/own/a.txt", b"own"),
        ("/exact", b"alias"),
        ("/if/a.txt", b"if"),
        ("/if/a.txt?other=1", b"if other"),
    ],
)
def test_files(site: Site, target: str, body: bytes) -> None:
    for _ in range(3):
        assert site.get(target).body == body


def test_variables(site: Site) -> None:
    assert site.get("/names?x").body.decode() == f"{site.root} {site.root}/names"
    assert site.get("/names/alias/x").body.decode() == f"{site.root}/other/ {site.root}/other/x"


@pytest.mark.parametrize(
    "target",
    [
        "/secret/../a.txt",
        "/secret/%2e%2e/a.txt",
        "/secret/..%2fa.txt",
        "/secret../a.txt",
        "/alias/../../../../etc/passwd",
    ],
)
def test_nothing_above_the_folder(site: Site, target: str) -> None:
    assert site.get(target).status in (400, 404)


@pytest.mark.parametrize(
    "name, kind",
    [("a.x", "text/own"), ("a.Y", "text/own"), ("a.html", "own/other"), ("a", "own/other"), ("a.tar.x", "text/own")],
)
def test_types(site: Site, name: str, kind: str) -> None:
    for _ in range(2):
        assert site.get(f"/types/{name}").get("Content-Type") == kind


CASES = {
    "alias_twice": "location /a { alias /x; alias /y; }",
    "alias_and_root": "location /a { alias /x; root /y; }",
    "root_and_alias": "location /a { root /y; alias /x; }",
    "root_twice": "root a; root b;",
    "alias_outside": "alias /x;",
    "alias_named": "location @a { alias /x; }",
    "document_root": "root $document_root;",
    "realpath_root": "root $realpath_root;",
    "unknown": "root $nobody;",
}


@needs_nginx
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{ {text} }}")
