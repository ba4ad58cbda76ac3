"""The one filter: whom it serves, with which coding, from what."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import codings
from gateway.http.compression import Wish, expect_wishes, wish
from gateway.http.message import FileBody, Request, Response
from gateway.modules import compress
from tests.gateway.compressing import JSON, answering, asking, filtering, level

DATA = b'{"answer": 42}' * 100


def body_of(request: Request, response: Response, transform: Any, data: bytes = DATA) -> bytes:
    """What the client decodes."""
    sent = transform.feed(data) + transform.finish() if transform is not None else response.body
    coding = response.find(b"content-encoding")
    return codings.decode(coding.decode(), sent) if coding is not None else sent


@pytest.mark.parametrize("status", [200, 403, 404])
def test_what_is_compressed(status: int) -> None:
    request, response = asking(), answering(DATA, status=status)
    transform = filtering("gzip")(request, response)
    assert response.find(b"content-encoding") == b"gzip"
    assert response.vary
    assert body_of(request, response, transform) == DATA


LEFT = {
    "another status": answering(DATA, status=500),
    "a part": answering(DATA, status=206),
    "not modified": answering(b"", status=304),
    "another type": answering(DATA, kind=b"image/png"),
    "no type": answering(DATA, kind=b""),
    "too short": answering(b"x" * 19),
    "encoded": answering(DATA, Content_Encoding="br"),
}


@pytest.mark.parametrize("response", LEFT.values(), ids=LEFT)
def test_what_is_left_alone(response: Response) -> None:
    before = (response.fields[:], response.ranges, response.length)
    assert filtering("gzip")(asking(), response) is None
    assert not response.vary
    assert (response.fields, response.ranges, response.length) == before


def test_vary_also_where_the_client_does_not_accept() -> None:
    for accept in (None, "identity", "gzip;q=0"):
        response = answering(DATA)
        assert filtering("gzip")(asking(accept), response) is None
        assert response.vary and response.find(b"content-encoding") is None


def test_vary_can_be_turned_off() -> None:
    response = answering(DATA)
    filtering("gzip", gzip_vary=False)(asking(), response)
    assert not response.vary and response.find(b"content-encoding") == b"gzip"


def test_types_are_compared_without_case_and_kept() -> None:
    made = filtering("gzip")
    for kind in (b"APPLICATION/json", JSON, JSON):
        assert made(asking(), answering(DATA, kind=kind)) is not None


def test_subrequests_are_left_alone() -> None:
    request = asking()
    request.main = asking()
    assert filtering("gzip")(request, answering(DATA)) is None


@pytest.mark.parametrize(
    ("accept", "order", "streamed"),
    [
        ("gzip, br, zstd", (), "zstd"),
        ("gzip, br", (), "br"),
        ("gzip, br, zstd", ("gzip",), "gzip"),
        ("gzip;q=0.5, br, zstd;q=0.9", ("gzip",), "br"),
    ],
)
def test_which_coding(accept: str, order: tuple[str, ...], streamed: str) -> None:
    response = answering(DATA)
    filtering("zstd", "br", "gzip", compress_order=order)(asking(accept), response)
    assert response.find(b"content-encoding") == streamed.encode()


class Chunks:
    """A body that arrives piece by piece."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = iter(pieces)

    async def read(self) -> bytes:
        return next(self.pieces, b"")

    def close(self) -> None:
        pass

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise NotImplementedError


def test_streams_of_unknown_length_are_flushed() -> None:
    response = answering(Chunks(b"a", b"b"))
    transform = filtering("gzip")(asking(), response)
    assert transform is not None and transform.feed(b"abc") is not None and transform.flush()
    response = answering(Chunks(b"a"))
    response.length = 1000
    transform = filtering("gzip")(asking(), response)
    assert transform is not None and transform.feed(b"abc") is not None and not transform.flush()
    response = answering(Chunks(b"a"), kind=b"text/event-stream")
    response.length = 1000
    transform = filtering("gzip")(asking(), response)
    assert transform is not None and transform.feed(b"abc") is not None and transform.flush()


def test_head_has_the_same_head_and_no_work() -> None:
    request, response = asking(method=b"HEAD"), answering(DATA, ETag='"x"')
    assert filtering("gzip")(request, response) is None
    assert response.find(b"content-encoding") == b"gzip"
    assert response.find(b"etag") == b'W/"x"'
    assert response.known_length() == -1


def file_body(path: Path, data: bytes, *, memory: bool = True) -> FileBody:
    path.write_bytes(data)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    name = os.fsencode(path)
    if memory:
        return FileBody(-1, 0, len(data), name, 1e9, data, True)
    return FileBody(os.open(path, os.O_RDONLY), 0, len(data), name, 1e9)


def test_a_file_is_compressed_once(tmp_path: Path) -> None:
    async def check() -> None:
        made, body = filtering("br", "gzip"), file_body(tmp_path / "a", DATA)
        sent = []
        for _ in range(2):
            response = answering(body)
            assert made(asking("gzip, br"), response) is None
            assert response.find(b"content-encoding") == b"br"
            assert response.known_length() == len(response.body)  # type: ignore[arg-type]
            sent.append(response.body)
        assert sent[0] is sent[1]
        assert codings.decode("br", sent[0]) == DATA
        head = answering(body)
        made(asking("gzip, br", method=b"HEAD"), head)
        assert head.known_length() == len(sent[0])

    asyncio.run(check())


def test_a_file_that_a_filter_changes_is_streamed(tmp_path: Path) -> None:
    response = answering(file_body(tmp_path / "a", DATA))
    response.changed = True
    transform = filtering("gzip")(asking(), response)
    assert transform is not None
    assert body_of(asking(), response, transform, b"changed" * 9) == b"changed" * 9


def test_a_part_of_a_file_is_streamed(tmp_path: Path) -> None:
    body = file_body(tmp_path / "a", DATA)
    body.offset, body.length = 14, 1000
    assert filtering("gzip")(asking(), answering(body)) is not None


def test_no_memory_no_variants(tmp_path: Path) -> None:
    body = file_body(tmp_path / "a", DATA, memory=False)
    assert filtering("gzip", compress_cache_size=0)(asking(), answering(body)) is not None
    body.close()


def test_the_descriptor_is_given_back(tmp_path: Path) -> None:
    async def check() -> None:
        body = file_body(tmp_path / "a", DATA, memory=False)
        filtering("gzip")(asking(), answering(body))
        assert body.fd == -1

    asyncio.run(check())


tokens = st.sampled_from(["gzip", "br", "zstd", "identity", "*", "x", ""])
weights = st.sampled_from(["", ";q=0", ";q=0.5", ";q=1"])
accepts = st.lists(st.tuples(tokens, weights), max_size=5).map(lambda items: ", ".join(map("".join, items)))
printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)


@settings(max_examples=200, deadline=None)
@given(accept=st.one_of(accepts, printable), data=st.binary(max_size=300))
def test_whatever_is_accepted_the_decoded_body_is_the_file(accept: str, data: bytes) -> None:
    async def check() -> None:
        body = FileBody(-1, 0, len(data), b"/nowhere", 1e9, data, True)
        for sent in (body, data):
            request, response = asking(accept), answering(sent)
            transform = filtering("br", "zstd", "gzip")(request, response)
            if response.body is body:
                response.body = data
            coding = response.find(b"content-encoding")
            assert coding is None or codings.accepts(accept.encode()).quality(coding.decode())
            assert body_of(request, response, transform, data) == data

    asyncio.run(check())


def test_plans_do_not_grow_without_end() -> None:
    choice = compress.Choice((), ())
    for number in range(compress.PLANS_KEPT * 2):
        choice.plan(JSON, b"%d" % number)
    assert len(choice.plans) <= compress.PLANS_KEPT


def wished(wanted: Wish | None, response: Response, *configured: str, accept: str = "gzip, br") -> Any:
    build = level()
    expect_wishes(build)
    request = asking(accept)
    if wanted is not None:
        wish(request, wanted)
    return filtering(*configured, build=build)(request, response)


def test_a_script_may_wish_for_a_coding() -> None:
    response = answering(DATA, kind=b"image/x-raw", status=201)
    transform = wished(Wish(("zstd", "br"), level=3), response)
    assert response.find(b"content-encoding") == b"br" and response.vary
    assert body_of(asking(), response, transform) == DATA


def test_a_wish_may_forbid() -> None:
    response = answering(DATA)
    assert wished(Wish(()), response, "gzip") is None
    assert response.find(b"content-encoding") is None


def test_without_a_wish_all_goes_as_configured() -> None:
    response = answering(DATA)
    assert wished(None, response, "gzip") is not None
    assert wished(None, answering(DATA)) is None


def test_a_wish_has_its_limits() -> None:
    assert wished(Wish(("gzip",), min_length=10_000), answering(DATA)) is None
    assert wished(Wish(("gzip",)), answering(DATA), accept="br") is None
    assert wished(Wish(("gzip",)), answering(b"", status=304)) is None
    assert wished(Wish(("x-rle",)), answering(DATA), accept="x-rle") is None
    assert wished(Wish(("gzip",)), answering(DATA, Content_Encoding="x")) is None


def test_a_wish_for_a_file(tmp_path: Path) -> None:
    async def check() -> None:
        response = answering(file_body(tmp_path / "a", DATA))
        assert wished(Wish(("deflate",)), response, accept="deflate") is None
        assert body_of(asking(), response, None) == DATA

    asyncio.run(check())


def test_a_wish_may_flush() -> None:
    transform = wished(Wish(("gzip",), flush=True), answering(DATA))
    assert transform.feed(b"a") + transform.flush()
