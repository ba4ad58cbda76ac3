"""What may be kept for ever is what is really sent. More is in test_fingerprint."""

import os
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gateway.http.assets import WANTED, Assets, Fingerprint, assets_of
from gateway.http.message import FileBody, Response
from gateway.modules import immutable
from tests.gateway.compressing import answering, asking


def marked(path: Path, response: Response, wanted: bytes | None) -> list[bytes]:
    """The Cache-Control and Expires headers of an answer to a URI with this hash."""
    settings = SimpleNamespace(types={b"js": "application/javascript"}, default_type="text/plain")
    conf = Fingerprint(fingerprint=True)
    build: Any = SimpleNamespace(shared={}, conf=lambda table: conf, settings=settings)
    mark = immutable.marking(immutable.Immutable(), build)
    assert mark is not None and isinstance(assets_of(build.shared), Assets)
    request: Any = asking()
    request.uri, request.location = b"/a.js", SimpleNamespace(mapping=lambda request: os.fsencode(path))
    if wanted is not None:
        request.keep(WANTED, wanted)
    mark(request, response)
    return [value for name, value in response.fields if name.lower() in immutable.REPLACED]


def body_of(path: Path, data: bytes) -> FileBody:
    path.write_bytes(data)
    os.utime(path, (1e9, 1e9))
    return FileBody(-1, 0, len(data), os.fsencode(path), 1e9, data, True)


HASH = blake2b(b"abc", digest_size=8).hexdigest().encode()


def test_the_hash_of_what_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    sent = answering(body_of(path, b"abc"), expires="x", CACHE_CONTROL="y")
    found = marked(path, sent, HASH)
    assert found == [immutable.IMMUTABLE], "what was there before is replaced"


def test_another_hash(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    assert marked(path, answering(body_of(path, b"abd")), HASH) == [immutable.PRESENT]


def test_no_hash_in_the_request(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    assert marked(path, answering(body_of(path, b"abc"), expires="x"), None) == [b"x"]


def test_other_answers_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    body_of(path, b"abc")
    assert marked(path, answering(b"", status=404, expires="x"), HASH) == [b"x"]


def test_bytes_that_are_not_the_file_s(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    stale = body_of(path, b"abd")
    body_of(path, b"abc")
    assert marked(path, answering(stale), HASH) == [immutable.PRESENT], "a cache has the file as it was"
    changed = answering(body_of(path, b"abc"))
    changed.changed = True
    assert marked(path, changed, HASH) == [immutable.PRESENT], "a filter changes the body"
    assert marked(path, answering(b"abc"), HASH) == [immutable.PRESENT], "not from a file"


def test_not_modified(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    body_of(path, b"abc")
    assert marked(path, answering(b"", status=304, ETag='"3b9aca00-3"'), HASH) == [immutable.IMMUTABLE]
    assert marked(path, answering(b"", status=304, ETag='"3b9aca01-3"'), HASH) == [immutable.PRESENT]
    assert marked(path, answering(b"", status=304), HASH) == [immutable.PRESENT]
