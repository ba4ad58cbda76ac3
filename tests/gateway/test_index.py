"""index: the first file that exists, also by variables and absolute names; missing and forbidden folders."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.livesite import Site, serving
from tests.gateway.nginx import agrees, needs_nginx

SERVER = """
index first.html second.html;
location /named/ { index $arg_name.html third.html; }
location /elsewhere/ { index none.html /d/second.html; }
location /php/ { index a.php; }
location ~ \\.php$ { return 200 "script $uri"; }
"""
FILES = {
    "d/second.html": b"2",
    "both/first.html": b"1",
    "both/second.html": b"2",
    "named/x.html": b"x",
    "named/third.html": b"3",
    "php/a.php": b"",
    "elsewhere/y": b"",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site"), SERVER, files=FILES) as made:
        (made.root / "bare").mkdir()
        yield made


@pytest.mark.parametrize(
    "target, status, body",
    [
        ("/d/", 200, b"2"),
        ("/both/", 200, b"1"),
        ("/named/?name=x", 200, b"x"),
        ("/named/", 200, b"3"),
        ("/elsewhere/", 200, b"2"),
        ("/php/", 200, b"script /php/a.php"),
        ("/bare/", 403, None),
        ("/absent/", 404, None),
    ],
)
def test_choices(site: Site, target: str, status: int, body: bytes | None) -> None:
    for _ in range(3):
        answer = site.get(target)
        assert answer.status == status
        assert body is None or answer.body == body


def test_other_methods(site: Site) -> None:
    assert site.get("/d/", method="HEAD").get("Content-Length") == "1"
    assert site.get("/d/", method="PUT").status == 405
    assert site.get("/php/", method="POST").body == b"script /php/a.php"


def test_the_log_tells_what_was_looked_for(site: Site) -> None:
    site.get("/bare/")
    site.get("/absent/")
    assert f'directory index of "{site.root}/bare/" is forbidden' in site.log()
    assert f'"{site.root}/absent/first.html" is not found (2: No such file or directory)' in site.log()


@needs_nginx
@pytest.mark.parametrize(
    "text", ["index;", "index a b $uri;", "index $nobody;", 'index "";', "index a; index b;", "index /a b;"]
)
def test_rows_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{ {text} }}")
