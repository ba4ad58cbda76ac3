"""From a response to the wire: filters see the head in order, transforms the body, whatever the body is."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.http.message import FileBody, HttpError, Request, Response
from gateway.http.output import filtered
from tests.gateway.livesite import Site, serving

LARGE = os.urandom(100_000)
TEXT = b"one two three " * 20_000
SERVER = """
location /changed/ { alias %ROOT%/; sub_filter two 2; sub_filter_types *; sub_filter_once off; }
location /twice/ { alias %ROOT%/; sub_filter two 2; sub_filter_types *; sub_filter_once off;
    gzip on; gzip_types *; gzip_min_length 1; }
location = /made { default_type text/html; sub_filter two 2; sub_filter_once off; return 200 "one two three"; }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    files = {"large.bin": LARGE, "text.txt": TEXT, "small.txt": b"two", "empty.txt": b""}
    with serving(tmp_path_factory.mktemp("site"), SERVER, files=files) as made:
        yield made


def test_every_kind_of_body_through_a_transform(site: Site) -> None:
    with site.connect() as client:
        assert client.get("/changed/text.txt").body == TEXT.replace(b"two", b"2")
        assert client.get("/changed/small.txt").body == b"2"
        assert client.get("/changed/empty.txt").body == b""
        assert client.get("/made").body == b"one 2 three"
        assert client.get("/changed/large.bin").whole
        assert client.get("/changed/text.txt", method="HEAD").status == 200
        assert client.get("/made", method="HEAD").status == 200
        assert client.get("/small.txt").body == b"two"


def test_transforms_follow_each_other(site: Site) -> None:
    import gzip

    answer = site.get("/twice/text.txt", "Accept-Encoding: gzip")
    assert gzip.decompress(answer.body) == TEXT.replace(b"two", b"2")


def test_a_changed_body_has_no_ranges(site: Site) -> None:
    answer = site.get("/changed/text.txt", "Range: bytes=0-1")
    assert (answer.status, answer.get("Accept-Ranges")) == (200, None)


def test_old_clients_get_it_without_chunks(site: Site) -> None:
    raw = site.raw(b"GET /changed/text.txt HTTP/1.0\r\n\r\n")
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"chunked" not in head and body == TEXT.replace(b"two", b"2")


def test_a_file_cut_short_under_a_transform_ends_the_connection(site: Site) -> None:
    file = site.root / "cut.txt"
    file.write_bytes(TEXT * 40)
    with site.connect(window=4096) as client:
        client.send(b"GET /changed/cut.txt HTTP/1.1\r\nHost: a\r\n\r\n").exactly(100)
        os.truncate(file, 100)
        assert not client.rest().endswith(b"0\r\n\r\n")
    assert "file was truncated" in site.log()


class Plan:
    """As much of a location as the filters need."""

    def __init__(self, *filters: Any) -> None:
        self.filters = filters


def asked(*filters: Any) -> Request:
    request = Request(None, b"GET", b"/", b"/", b"", 11, None, 0.0)  # type: ignore[arg-type]
    request.location = Plan(*filters)  # type: ignore[assignment]
    return request


class Upper:
    def feed(self, chunk: bytes) -> bytes:
        return chunk.upper()

    def flush(self) -> bytes:
        return b""

    def finish(self) -> bytes:
        return b""


def test_filters_see_what_those_before_did() -> None:
    seen: list[tuple[int, bool]] = []

    def changing(_request: Request, response: Response) -> Upper:
        response.status = 206
        seen.append((response.status, response.changed))
        return Upper()

    def looking(_request: Request, response: Response) -> None:
        seen.append((response.status, response.changed))

    response = Response(200, b"x")
    transforms = filtered(asked(looking, changing, looking), response)
    assert len(transforms) == 1
    assert seen == [(200, False), (206, False), (206, True)]


def test_a_filter_may_refuse() -> None:
    def refusing(_request: Request, _response: Response) -> None:
        raise HttpError(412)

    with pytest.raises(HttpError):
        filtered(asked(refusing), Response(200))


def test_the_status_of_an_error_goes_before_its_page_s() -> None:
    request = asked()
    request.error_status, request.error_fields = 404, [(b"X-Error", b"1"), (b"x-own", b"no")]
    response = Response(200, b"page")
    response.fields.append((b"X-Own", b"yes"))
    filtered(request, response)
    assert response.status == 404
    assert response.fields == [(b"X-Own", b"yes"), (b"X-Error", b"1")]


def test_a_file_s_descriptor_is_closed_once() -> None:
    reading, writing = os.pipe()
    body = FileBody(reading, 0, 1)
    body.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(reading)
    body.close()
    shared = FileBody(writing, 0, 1, shared=True)
    shared.close()
    os.fstat(writing)
    os.close(writing)
