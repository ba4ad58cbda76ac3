"""gunzip: decoded for those who cannot, passed to those who can."""

import asyncio
import zlib
from pathlib import Path
from typing import Any

import pytest

from gateway import codings
from gateway.modules.gunzip import Decoding
from tests.gateway.nginx import agrees, needs_nginx
from tests.gateway.test_gzip import TYPES, field

PLAIN = b"plain\n" * 5000
PACKED = codings.encode("gzip", PLAIN, 9)
FILES = {"a.js.gz": PACKED, "broken.js.gz": PACKED[:-20], "two.js.gz": PACKED + PACKED}
ON = "gzip_static always; gunzip on;"


@needs_nginx
@pytest.mark.parametrize("text", ["gunzip yes;", "gunzip on; gunzip_buffers 32 4k;", "gunzip_buffers 4;"])
def test_rows_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{ {text} }}")


def test_who_gets_what(gateway: Any) -> None:
    started = gateway(ON, http=TYPES, files=FILES)
    packed = started.get("/a.js", "Accept-Encoding: gzip")
    assert (packed.body, field(packed, "Content-Encoding")) == (PACKED, "gzip")
    for headers in ([], ["Accept-Encoding: gzip;q=0"], ["Accept-Encoding: gzip", "Via: x"]):
        plain = started.get("/a.js", *headers)
        assert plain.body == PLAIN
        assert field(plain, "Content-Encoding") is None and field(plain, "Vary") == "Accept-Encoding"
        assert (field(plain, "ETag") or "").startswith('W/"')
    assert started.get("/two.js").body == PLAIN * 2, "several members in a row"


def test_before_brotli(gateway: Any) -> None:
    started = gateway(ON + "brotli on; brotli_types *;", http=TYPES, files=FILES)
    answer = started.get("/a.js", "Accept-Encoding: br")
    assert field(answer, "Content-Encoding") == "br" and codings.decode("br", answer.body) == PLAIN


def test_a_broken_file_is_no_whole_answer(gateway: Any) -> None:
    started = gateway(ON, http=TYPES, files=FILES)
    answers = started.send(b"GET /broken.js HTTP/1.1\r\nHost: x\r\n\r\n", expect=1)
    assert all(answer.body != PLAIN or answer.framing != "chunked" for answer in answers)
    assert zlib.decompress(started.get("/broken.js", "Accept-Encoding: gzip").body[:10] + PACKED[10:], 31) == PLAIN
    assert "inflate() failed" in started.log("error.log")


class Packed:
    """A body that is there at once."""

    def __init__(self, body: bytes) -> None:
        self.body, self.closed = body, False

    async def read(self) -> bytes:
        body, self.body = self.body, b""
        return body

    def close(self) -> None:
        self.closed = True


def test_no_more_is_decoded_than_is_read() -> None:
    size = 64 << 20
    body = Packed(codings.encode("gzip", bytes(size), 9))
    stream = Decoding().splice(body)
    sizes: list[int] = []

    async def whole() -> None:
        while piece := await stream.read():
            sizes.append(len(piece))

    asyncio.run(whole())
    assert sum(sizes) == size and max(sizes) <= codings.STEP
    stream.close()
    assert body.closed
