"""Files: what is served and what is refused, what the memory of small files may never hide, the log."""

import os
from collections.abc import Iterator

import pytest

from gateway.http.message import FileBody
from gateway.modules import static
from gateway.modules.static import Kept, Store
from tests.gateway.livesite import Site, serving

SIZES = (0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 200_000)
SERVER = "location /untagged/ { alias %ROOT%/; etag off; } location /quiet/ { log_not_found off; }"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    files = {f"{size}.bin": os.urandom(size) for size in SIZES} | {"d/a.txt": b"a", "sp ace/é.txt": b"named"}
    with serving(tmp_path_factory.mktemp("site"), SERVER, files=files) as made:
        yield made


@pytest.mark.parametrize("size", SIZES)
def test_every_size_whole(site: Site, size: int) -> None:
    body = (site.root / f"{size}.bin").read_bytes()
    with site.connect() as client:
        for _ in range(4):
            answer = client.get(f"/{size}.bin")
            assert answer.body == body
            assert (answer.get("Content-Length"), answer.get("ETag")) == (str(size), f'"3b9aca00-{size:x}"')
            assert answer.get("Last-Modified") == "Sun, 09 Sep 2001 01:46:40 GMT"


@pytest.mark.parametrize(
    "method, status", [("GET", 200), ("HEAD", 200), ("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405)]
)
def test_methods(site: Site, method: str, status: int) -> None:
    assert site.get("/1.bin", method=method).status == status
    assert site.get("/d", method=method).status == (405 if method in ("PUT", "DELETE", "OPTIONS") else 301)


def test_names(site: Site) -> None:
    assert site.get("/sp%20ace/%C3%A9.txt").body == b"named"
    assert (
        site.get("/sp%20ace").get(
            "Location",
        )
        == f"http://localhost:{site.ports[0]}/sp%20ace/"
    )
    assert site.get("/d?a=1").get("Location") == f"http://localhost:{site.ports[0]}/d/?a=1"
    assert site.get("/1.bin/").status == 404
    assert site.get("/1.bin/x").status == 404
    assert site.get("/" + "n" * 300).status == 404
    assert site.get("/..%2f..%2fetc/passwd").status == 400
    assert site.get("/d/../1.bin").status == 200


def test_without_a_tag(site: Site) -> None:
    assert site.get("/untagged/1.bin").get("ETag") is None


def test_what_is_no_regular_file(site: Site) -> None:
    os.mkfifo(site.root / "pipe")
    assert site.get("/pipe").status == 404
    assert "is not a regular file" in site.log()


def test_links_are_followed_and_changes_of_them_seen(site: Site) -> None:
    link = site.root / "link"
    with site.connect() as client:
        for size in (1, 4096, 1, 65535):
            fresh = site.root / "fresh"
            fresh.symlink_to(f"{size}.bin")
            os.replace(fresh, link)
            assert client.get("/link").get("Content-Length") == str(size)
    (site.root / "loop").symlink_to("loop")
    assert site.get("/loop").status == 403
    (site.root / "dangling").symlink_to("nowhere")
    assert site.get("/dangling").status == 404


def test_permission_is_asked_of_the_system(site: Site) -> None:
    file = site.root / "private"
    file.write_bytes(b"secret")
    assert site.get("/private").status == 200
    if os.geteuid() == 0:
        return  # root may read everything
    file.chmod(0)
    assert site.get("/private").status == 403


def test_missing_files_are_logged_unless_told_otherwise(site: Site) -> None:
    site.get("/quiet/absent")
    site.get("/absent")
    assert f'open() "{site.root}/absent" failed (2: No such file or directory)' in site.log()
    assert "quiet/absent" not in site.log()


def test_a_file_that_comes_and_goes(site: Site) -> None:
    file = site.root / "comes"
    with site.connect() as client:
        for turn in range(20):
            assert client.get("/comes").status == 404
            file.write_bytes(b"%d" % turn)
            assert client.get("/comes").body == b"%d" % turn
            file.unlink()


def test_the_memory_is_bounded() -> None:
    store = Store()
    for number in range(3 * static.KEPT_TOTAL // static.KEPT_FILE):
        path = b"/%d" % number
        body = FileBody(-1, 0, static.KEPT_FILE, path, 0.0, b"", True)
        store.put(path, Kept(0, static.KEPT_FILE, number, 0, (b"", b""), body, path))
        assert store.held <= static.KEPT_TOTAL
        assert store.held == sum(entry.size for entry in store.kept.values())
    for _ in range(3):  # the same again takes no more room
        store.put(path, Kept(0, 10, number, 0, (b"", b""), body, path))
    assert store.held == sum(entry.size for entry in store.kept.values())
