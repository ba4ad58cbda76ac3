"""Server-side includes: the reading of commands however the page is cut, and what nginx's answers alone cannot show."""

import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.ssi import Command, ExpansionError, Parser, expanded
from tests.gateway.livesite import serving
from tests.gateway.origin import Call, answer, origin

PAGE = st.lists(
    st.sampled_from(
        [
            b"text",
            b"<",
            b"<!-",
            b"<!--",
            b"<!--#",
            b"echo",
            b" var",
            b"=",
            b'"',
            b"'",
            b"\\",
            b"-",
            b"--",
            b"-->",
            b">",
            b" ",
        ]
    ),
    max_size=30,
).map(b"".join)


def parsed(pieces: list[bytes]) -> list[object]:
    """Text joined, commands as they are."""
    complaints: list[str] = []
    parser = Parser(8, complaints.append)
    items: list[object] = []
    for piece in pieces:
        for item in parser.feed(piece):
            if isinstance(item, bytes) and items and isinstance(items[-1], bytes):
                items[-1] += item
            else:
                items.append(item)
    return [*items, parser.state is None, bytes(parser.held), complaints]


@given(PAGE, st.data())
def test_any_cut_reads_the_same(page: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(page)), max_size=6)))
    pieces = [page[start:end] for start, end in zip([0, *cuts], [*cuts, len(page)], strict=True)]
    assert parsed(pieces) == parsed([page])


def test_commands_and_their_parameters() -> None:
    items = parsed([b'a<!--#set var="x" value=\'a "b" c\' -->b<!--#else-->'])
    assert items[:4] == [b"a", Command(b"set", [(b"var", b"x"), (b"value", b'a "b" c')]), b"b", Command(b"else")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"plain", b"plain"),
        (rb"\$a \\ \' \" \q", b"$a \\ ' \" \\q"),
        (b"$a-${b}c$A", b"1-2c1"),
        (rb"x\$a$a\\", b"x$a1\\"),
        (b"$none.", b"."),
    ],
)
def test_texts_with_variables(text: bytes, wanted: bytes) -> None:
    assert expanded(text, {b"a": b"1", b"b": b"2"}.get) == wanted


@pytest.mark.parametrize("text", [b"$", b"x$", b"${", b"${a", b"$-"])
def test_texts_that_are_no_texts(text: bytes) -> None:
    with pytest.raises(ExpansionError):
        expanded(text, {b"a": b"1"}.get)


def test_includes_run_beside_one_another_and_come_in_order(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def serve(call: Call) -> None:
        head = call.head()
        both.wait(10)  # neither answer comes before both have been asked for
        call.send(answer(head.split(b" ")[1], "Connection: close"))

    with origin(serve) as up:
        page = b'<!--#include virtual="/up/1" -->-<!--#include virtual="/up/2" -->'
        conf = f"ssi on; location / {{ }} location /up {{ proxy_pass http://127.0.0.1:{up.port}; }}"
        with serving(tmp_path, conf, files={"p.html": page}) as site:
            assert site.get("/p.html").body == b"/up/1-/up/2"


def test_a_client_that_leaves_ends_its_includes(tmp_path: Path) -> None:
    asked, left = threading.Event(), threading.Event()

    def serve(call: Call) -> None:
        call.head()
        asked.set()
        if call.gone():
            left.set()

    with origin(serve) as up:
        conf = f"ssi on; location / {{ }} location /up {{ proxy_pass http://127.0.0.1:{up.port}; }}"
        with serving(tmp_path, conf, files={"p.html": b'a<!--#include virtual="/up" -->b'}) as site:
            client = site.connect()
            client.send(b"GET /p.html HTTP/1.1\r\nHost: x\r\n\r\n")
            assert asked.wait(10)
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            assert left.wait(10)


def test_fifty_levels_of_includes_and_no_more(tmp_path: Path) -> None:
    conf = 'ssi on; default_type text/html; location / { return 200 "x<!--#include virtual=\\"/\\" -->"; }'
    with serving(tmp_path, conf) as site:
        assert site.get("/").body == b"x" * 51 + b"[an error occurred while processing the directive]"
        assert "subrequests cycle while processing" in site.log()


def test_an_answer_too_large_for_a_variable_ends_the_connection(tmp_path: Path) -> None:
    conf = (
        "ssi on; location / { } location /small { subrequest_output_buffer_size 5; return 200 12345; }"
        "location /big { subrequest_output_buffer_size 5; return 200 123456; }"
    )
    page = b'<!--#include virtual="/NAME" set="x" -->[<!--#echo var="x" -->]'
    files = {"s.html": page.replace(b"NAME", b"small"), "b.html": page.replace(b"NAME", b"big")}
    with serving(tmp_path, conf, files=files) as site:
        assert site.get("/s.html").body == b"[12345]"
        assert site.get("/b.html").head == b""
        assert "too big subrequest response" in site.log()
