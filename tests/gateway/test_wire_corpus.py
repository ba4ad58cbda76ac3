"""The corpus of request heads: our parser says what the case says, and is nowhere laxer than nginx."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.http.body import RequestBody
from gateway.http.wire import Head, Policy, RequestError, RequestParser
from tests.gateway.nginxserver import ask
from tests.gateway.nginxserver import nginx as running_nginx
from tests.gateway.tengine import free_port
from tests.parity.server import find_nginx

CORPUS = Path(__file__).parent / "wire"
_REPEAT = re.compile(rb"\{(.*?)\*(\d+)\}", re.DOTALL)


@dataclass(frozen=True)
class Case:
    name: str
    expected: str
    data: bytes


def _plain(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


def _cases(folder: str) -> list[Case]:
    cases = []
    for path in sorted((CORPUS / folder).glob("*.http")):
        for part in path.read_text().split("=== ")[1:]:
            head, _, body = part.partition("\n")
            name, _, expected = head.rpartition(": ")
            data = _REPEAT.sub(lambda match: match[1] * int(match[2]), _plain(body.replace("\n", "")))
            cases.append(Case(f"{path.stem}: {name}", expected, data))
    return cases


INVALID, VALID = _cases("invalid"), _cases("valid")


def _parse(data: bytes) -> Head | None:
    return RequestParser(Policy()).parse(data, 0)


def _field(head: Head, key: str) -> object:
    if key.startswith("h:"):
        return head.headers.joined(key[2:].encode())
    names = {"length": "content_length", "expect": "expect_continue"}
    owner = head if hasattr(head, key) else head.headers
    return getattr(owner, names.get(key, key))


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.name)
def test_valid(case: Case) -> None:
    head = _parse(case.data)
    assert head is not None
    for pair in case.expected.split():
        key, _, text = pair.partition("=")
        found = _field(head, key)
        assert str(found) == text if not isinstance(found, bytes) else found == _plain(text), key


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.name)
def test_invalid(case: Case) -> None:
    with pytest.raises(RequestError) as caught:
        _parse(case.data)
    assert caught.value.status == int(case.expected.split()[0])
    assert caught.value.reason.startswith("client sent ")


@pytest.mark.parametrize("case", [*VALID, *INVALID], ids=lambda case: case.name)
def test_memos_change_nothing(case: Case) -> None:
    """A parser that has seen the head before, whole or in two pieces, gives the same answer."""
    parser = RequestParser(Policy())

    def answer(data: bytes, start: int) -> object:
        try:
            head = parser.parse(data, start)
        except RequestError as error:
            return error.status, error.reason
        return head and (head.method, head.uri, head.args, head.host, head.http, head.headers.items, head.end - start)

    first = answer(case.data, 0)
    for _ in range(4):
        assert answer(case.data, 0) == first
        assert answer(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + case.data, 27) == first


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if find_nginx() is None:
        pytest.skip("nginx is not installed")
    port = free_port()
    server = (
        f"server {{ listen 127.0.0.1:{port}; error_page 494 =494 /494; location = /494 {{ internal; return 494; }}\n"
        "location / { add_header X-URI $uri; add_header X-Args $args; add_header X-Host $host; return 204; } }"
    )
    with running_nginx(tmp_path_factory.mktemp("nginx"), server, port):
        yield port


def _status(answer: bytes) -> int:
    answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.name)
def test_nginx_refuses_too(case: Case, nginx: int) -> None:
    wanted = re.search(r"nginx (\d+)", case.expected)
    expected = int(wanted[1] if wanted else case.expected)
    found = _status(ask(nginx, case.data))
    # a head without an end is closed without an answer; 494 is sent as 400
    assert found in {
        expected,
        0 if not case.data.endswith(b"\r\n\r\n") else expected,
        400 if expected == 494 else expected,
    }


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.name)
def test_nginx_accepts_too(case: Case, nginx: int) -> None:
    answer = ask(nginx, case.data)
    head = _parse(case.data)
    assert head is not None
    if head.http == 9:
        assert b" 400 " not in answer
        return
    assert _status(answer) == 204
    assert f"X-URI: {head.uri.decode('latin-1')}\r\n".encode("latin-1") in answer
    if head.args:
        assert b"X-Args: " + head.args + b"\r\n" in answer
    if head.host:
        assert b"X-Host: " + head.host + b"\r\n" in answer


def test_body_is_part_of_the_contract() -> None:
    """`Head.end` is where the body starts."""
    data = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET"
    head = _parse(data)
    assert head is not None
    body = RequestBody(head.headers.content_length)
    assert body.feed(data[head.end :]) == b"GET" and body.complete and body.data() == b"hello"
