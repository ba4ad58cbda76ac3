"""Assets: how a hash is found for a URL, and when a file is looked at again."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.http import assets
from gateway.http.assets import Asset, Assets, Linker, page_uri, without_dots
from gateway.http.markup import Css
from gateway.http.message import FileBody, Request
from tests.gateway.compressing import asking


class Known(Assets):
    """Assets whose every path but "/none" has a hash."""

    def digest(self, request: Request, uri: bytes, depth: int) -> bytes:
        return b"" if uri == b"/none" else b"HASH"


URLS = {
    b"a.js": (b"a.HASH.js", b"/dir/a.js"),
    b"/a.js?b=c.d#e": (b"/a.HASH.js?b=c.d#e", b"/a.js"),
    b"../b/./a.min.js": (b"../b/./a.min.HASH.js", b"/b/a.min.js"),
    b" a.js ": (b" a.HASH.js ", b"/dir/a.js"),
    b"LICENSE": (b"LICENSE.HASH", b"/dir/LICENSE"),
    b".hidden": (b".hidden.HASH", b"/dir/.hidden"),
    b"a%20b%2e.js": (b"a%20b%2e.HASH.js", b"/dir/a b..js"),
    b"//here:80/a.js": (b"//here:80/a.HASH.js", b"/a.js"),
    b"HTTP://HERE:80/a.js": (b"HTTP://HERE:80/a.HASH.js", b"/a.js"),
    b"/none": (b"/none", b"/none"),
    b"//there/a.js": (b"//there/a.js", None),
    b"https://here/a.js": (b"https://here/a.js", None),
    b"data:text/css,a.css": (b"data:text/css,a.css", None),
    b"javascript:a.js": (b"javascript:a.js", None),
    b"a&amp;b.js": (b"a&amp;b.js", None),
    b"#a.js": (b"#a.js", None),
    b"?a.js": (b"?a.js", None),
    b"dir/": (b"dir/", None),
    b"a%00.js": (b"a%00.js", None),
    b"": (b"", None),
}


@pytest.mark.parametrize("url", URLS, ids=repr)
def test_urls(url: bytes) -> None:
    written, uri = URLS[url]
    linker = Linker(Known(), asking(Host="here:80"), b"/dir/page")
    assert linker.link(url) == written
    assert list(linker.uses) == ([uri] if uri is not None else [])


PATHS = {
    b"/a/b": b"/a/b",
    b"/a/../b/./c": b"/b/c",
    b"/../a": b"/a",
    b"/a//b/": b"/a/b/",
    b"/a/..": b"/",
    b"/a/b/..": b"/a/",
    b"/a/.": b"/a/",
    b"/": b"/",
}


@pytest.mark.parametrize("path", PATHS, ids=repr)
def test_paths(path: bytes) -> None:
    assert without_dots(path) == PATHS[path]


@pytest.mark.parametrize("target", [b"/a/%62?c", b"http://x/a/b", b"/x/../a/./b"])
def test_the_page_s_own_path(target: bytes) -> None:
    request = asking()
    request.target = target
    assert page_uri(request) == b"/a/b"


def written(path: Path, data: bytes, when: float = 1e9) -> bytes:
    path.write_bytes(data)
    os.utime(path, (when, when))
    return os.fsencode(path)


def asset(store: Assets, path: bytes) -> Asset:
    found = store.of(asking(), path, b"/a", None)
    assert found is not None
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let time pass without waiting."""
    passed = [0.0]
    now = time.monotonic()
    monkeypatch.setattr(assets.time, "monotonic", lambda: now + passed[0])
    return passed


def test_a_file_is_believed_for_a_second(tmp_path: Path, clock: list[float]) -> None:
    store, name = Assets(), written(tmp_path / "a", b"one")
    first = asset(store, name)
    written(tmp_path / "a", b"two", 1e9 + 1)
    assert asset(store, name) is first
    clock[0] = assets.VALID
    second = asset(store, name)
    assert second.digest != first.digest
    clock[0] = 2 * assets.VALID
    assert asset(store, name) is second, "looked at, not read"
    os.unlink(name)
    clock[0] = 3 * assets.VALID
    assert store.of(asking(), name, b"/a", None) is None


def test_a_file_changed_just_now_is_read_again(tmp_path: Path) -> None:
    store, name = Assets(), written(tmp_path / "a", b"one", time.time())
    first = asset(store, name)
    (tmp_path / "a").write_bytes(b"two")
    assert asset(store, name).digest != first.digest


def test_a_body_is_compared_by_its_bytes(tmp_path: Path) -> None:
    store, name = Assets(), written(tmp_path / "a", b"one")
    found = asset(store, name)
    assert found.is_of(FileBody(-1, 0, 3, name, 1e9, b"one"))
    assert not found.is_of(FileBody(-1, 0, 3, name, 1e9, b"two"))
    fd = os.open(name, os.O_RDONLY)
    assert found.is_of(FileBody(fd, 0, 3, name, 1e9))
    os.rename(name, name + b"2")
    written(tmp_path / "a", b"two")
    other = os.open(name, os.O_RDONLY)
    assert not found.is_of(FileBody(other, 0, 3, name, 1e9)), "same size and time, another file"
    os.close(fd)
    os.close(other)


def test_what_is_too_large_or_no_file_has_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "LARGEST", 10)
    store = Assets()
    assert store.of(asking(), written(tmp_path / "a", b"x" * 11), b"/a", None) is None
    assert store.of(asking(), os.fsencode(tmp_path), b"/a", None) is None
    assert store.of(asking(), b"/no\0name", b"/a", None) is None


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "KEPT_BYTES", 100)
    store = Assets()
    for number in range(20):
        store.of(asking(), written(tmp_path / f"{number}.css", b"x" * 40), b"/a", Css)
        assert len(store.known) <= 4
        assert store.held == sum(each.body.length for each in store.known.values() if each.body is not None)
