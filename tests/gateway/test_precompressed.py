"""Files compressed beforehand: gzip_static, brotli_static, zstd_static."""

from pathlib import Path
from typing import Any

import pytest

from gateway import codings
from tests.gateway.nginx import agrees, needs_nginx
from tests.gateway.test_gzip import TYPES, field

PLAIN = b"plain\n" * 100
PACKED = {
    suffix: codings.encode(coding, PLAIN, 9) for suffix, coding in (("gz", "gzip"), ("br", "br"), ("zst", "zstd"))
}
FILES = {"a.js": PLAIN, "only.js.gz": PACKED["gz"]} | {f"a.js.{suffix}": data for suffix, data in PACKED.items()}
ALL = "gzip_static on; brotli_static on; zstd_static on;"


@needs_nginx
@pytest.mark.parametrize("word", ["on", "off", "always", "sometimes"])
def test_rows_as_nginx(tmp_path: Path, word: str) -> None:
    agrees(tmp_path, f"server {{ gzip_static {word}; }}")


@pytest.mark.parametrize(
    ("accept", "suffix"),
    [
        ("gzip", "gz"),
        ("gzip, br, zstd", "br"),
        ("gzip;q=1, br;q=0.5", "gz"),
        ("zstd", "zst"),
        ("identity", ""),
        ("*", ""),
        ("gzip;q=0", ""),
    ],
)
def test_what_the_client_accepts(gateway: Any, accept: str, suffix: str) -> None:
    answer = gateway(ALL, http=TYPES, files=FILES).get("/a.js", f"Accept-Encoding: {accept}")
    assert answer.body == (PACKED[suffix] if suffix else PLAIN)
    assert field(answer, "Content-Encoding") == {"gz": "gzip", "br": "br", "zst": "zstd", "": None}[suffix]
    assert field(answer, "Content-Type") == "application/javascript"
    assert field(answer, "Vary") == "Accept-Encoding"
    assert field(answer, "Accept-Ranges") == (None if suffix else "bytes")
    assert field(answer, "ETag") == f'"3b9aca00-{len(answer.body):x}"'


def test_only_what_is_there(gateway: Any) -> None:
    started = gateway("gzip_static on;", http=TYPES, files=FILES | {"b.js": PLAIN})
    assert started.get("/only.js", "Accept-Encoding: gzip").body == PACKED["gz"]
    assert started.get("/only.js").head.startswith(b"HTTP/1.1 404")
    answer = started.get("/b.js", "Accept-Encoding: gzip")
    assert answer.body == PLAIN and field(answer, "Vary") is None
    assert started.get("/a.js", "Accept-Encoding: br").body == PLAIN
    assert started.get("/a.js", "Accept-Encoding: gzip", method="HEAD").body == b""
    assert started.get("/a.js", "Accept-Encoding: gzip", "Via: x").body == PLAIN
    assert started.get("/a.js", method="POST").head.startswith(b"HTTP/1.1 405")


def test_always(gateway: Any) -> None:
    started = gateway("gzip_static always; gzip on; gzip_types *;", http=TYPES, files=FILES)
    for accept in ("gzip", "identity"):
        answer = started.get("/only.js", f"Accept-Encoding: {accept}")
        assert answer.body == PACKED["gz"] and field(answer, "Content-Encoding") == "gzip"


def test_conditions(gateway: Any) -> None:
    started = gateway(ALL, http=TYPES, files=FILES)
    tag = field(started.get("/a.js", "Accept-Encoding: br"), "ETag")
    answer = started.get("/a.js", "Accept-Encoding: br", f"If-None-Match: {tag}")
    assert answer.head.startswith(b"HTTP/1.1 304") and field(answer, "Content-Encoding") is None
    whole = started.get("/a.js", "Accept-Encoding: gzip", "Range: bytes=0-3")
    assert whole.head.startswith(b"HTTP/1.1 200") and whole.body == PACKED["gz"]


def test_the_order_and_etag_off(gateway: Any) -> None:
    started = gateway(ALL + "compress_order gzip br; etag off;", http=TYPES, files=FILES)
    answer = started.get("/a.js", "Accept-Encoding: br, gzip")
    assert answer.body == PACKED["gz"] and field(answer, "ETag") is None
