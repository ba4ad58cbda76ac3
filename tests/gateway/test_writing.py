"""Framing of answers: length, chunks, the end of the connection; by version and by `chunked_transfer_encoding`."""

from collections.abc import Iterator

import pytest

from tests.gateway.livesite import Site, serving

BODY = b"<p>two</p>" * 20_000
SERVER = """
location /chunked { sub_filter two 2; sub_filter_once off; }
location /unchunked { sub_filter two 2; chunked_transfer_encoding off; }
location /proxied/ { proxy_pass http://127.0.0.1:%PORT2%/; }
location /trailed { add_trailer X-Uri $uri; add_trailer X-Empty ""; }
location = /short { return 200 aaa; default_type text/html; }
"""
ORIGIN = (
    """server { listen 127.0.0.1:%PORT2%; root %ROOT%; location /chunked { sub_filter two 2; sub_filter_once off; } }"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    names = ("chunked.html", "unchunked.html", "plain.html", "trailed.html")
    with serving(tmp_path_factory.mktemp("site"), SERVER, http=ORIGIN, files=dict.fromkeys(names, BODY)) as made:
        yield made


def test_chunks(site: Site) -> None:
    with site.connect() as client:
        for target in ("/chunked.html", "/proxied/chunked.html"):
            answer = client.get(target)
            assert (answer.get("Transfer-Encoding"), answer.get("Content-Length")) == ("chunked", None)
            assert answer.whole and answer.body == BODY.replace(b"two", b"2")


def test_a_known_length(site: Site) -> None:
    with site.connect() as client:
        for target in ("/plain.html", "/proxied/plain.html"):
            answer = client.get(target)
            assert (answer.get("Transfer-Encoding"), answer.get("Content-Length")) == (None, str(len(BODY)))
            assert answer.body == BODY


def test_neither_is_ended_by_closing(site: Site) -> None:
    with site.connect() as client:
        answer = client.get("/unchunked.html")
        assert (answer.get("Transfer-Encoding"), answer.get("Content-Length"), answer.get("Connection")) == (
            None,
            None,
            "close",
        )
        assert len(answer.body) == len(BODY) - 2
    for target in (b"/chunked.html", b"/proxied/chunked.html"):
        raw = site.raw(b"GET " + target + b" HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        head, _, body = raw.partition(b"\r\n\r\n")
        assert b"Connection: close" in head and body == BODY.replace(b"two", b"2")


def test_head_has_no_framing_of_a_body_it_does_not_have(site: Site) -> None:
    with site.connect() as client:
        for target in ("/chunked.html", "/unchunked.html", "/proxied/chunked.html", "/plain.html"):
            assert client.get(target, method="HEAD").status == 200
        assert client.get("/plain.html").body == BODY


def test_trailers(site: Site) -> None:
    raw = site.raw(b"GET /trailed.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert raw.endswith(b"\r\n0\r\nX-Uri: /trailed.html\r\n\r\n")
    old = site.raw(b"GET /trailed.html HTTP/1.0\r\n\r\n")
    assert old.endswith(BODY)


def test_no_chunk_of_nothing_in_the_middle(site: Site) -> None:
    raw = site.raw(b"GET /chunked.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert raw.count(b"\r\n0\r\n") == 1 and raw.endswith(b"\r\n0\r\n\r\n")


def test_a_short_body_comes_with_its_head(site: Site) -> None:
    """A head alone would cost the client a wake-up."""
    with site.connect() as client:
        client.send(b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n").more()
        assert client.buffer.endswith(b"\r\n\r\naaa")
