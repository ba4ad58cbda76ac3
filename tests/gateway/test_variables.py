"""The core's variables: each one's value on a request made for it, and which of them can be set."""

import os
import re
import socket
from collections.abc import Iterator

import pytest

from gateway import VERSION
from gateway.http.variables import CORE, argument
from tests.gateway.livesite import Site, serving

WANTED = {
    "args": "a=1&B=2",
    "query_string": "a=1&B=2",
    "is_args": "?",
    "uri": "/v/x y",
    "document_uri": "/v/x y",
    "request_uri": "/v/x%20y?a=1&B=2",
    "request_method": "POST",
    "request": "POST /v/x%20y?a=1&B=2 HTTP/1.1",
    "request_filename": "ROOT/v/x y",
    "document_root": "ROOT",
    "realpath_root": "ROOT",
    "scheme": "http",
    "https": "",
    "host": "asked.example",
    "server_name": "named.example",
    "server_addr": "127.0.0.1",
    "server_port": "PORT",
    "server_protocol": "HTTP/1.1",
    "remote_addr": "127.0.0.1",
    "remote_user": "user",
    "content_length": "3",
    "content_type": "text/x",
    "request_body": "",
    "request_body_file": "",
    "limit_rate": "0",
    "hostname": socket.gethostname().lower(),
    "nginx_version": VERSION,
    "pid": str(os.getpid()),
    "request_completion": "",
}
SHAPES = {
    "binary_remote_addr": "\x7f\0\0\x01",
    "remote_port": r"\d+",
    "request_id": r"[0-9a-f]{32}",
    "msec": r"\d+\.\d{3}",
    "connection_time": r"\d+\.\d{3}",
}
FAMILIES = {
    "http_x_one": "1, 2",
    "http_none": "",
    "arg_a": "1",
    "arg_A": "1",
    "arg_b": "2",
    "arg_c": "",
    "cookie_one": "1",
    "cookie_two": "2",
    "cookie_three": "",
}
SERVER = (
    "server_name named.example; location = /completion { return 200 $request_completion; }\n"
    + 'location = /set { set $args z=9; return 200 "$args $arg_z $is_args"; }\n'
    + "location = /rate { set $limit_rate 10k; return 200 $limit_rate; }\n"
    + 'location = /sent { add_header X-Kind "$sent_http_content_type|$sent_http_x|$sent_http_connection"; '
    + "return 200 x; }\n"
    + 'location = /ids { return 200 "$request_id $request_id"; }\n'
    + 'location /v/ { return 200 "'
    + "\\n".join(f"{name}=${name};" for name in (*WANTED, *SHAPES, *FAMILIES))
    + '"; }\n'
)
REQUEST = (
    b"POST /v/x%20y?a=1&B=2 HTTP/1.1\r\nHost: Asked.Example:99\r\nContent-Type: text/x\r\nContent-Length: 3\r\n"
    b"X-One: 1\r\n"
    b"X-One: 2\r\nCookie: one=1; two=2\r\nAuthorization: Basic dXNlcjpwYXNz\r\n\r\nabc"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site"), SERVER) as made:
        yield made


@pytest.fixture(scope="module")
def values(site: Site) -> dict[str, str]:
    text = site.answers(REQUEST, 1)[0].body.decode("latin-1")
    found = {}
    for name in (*WANTED, *SHAPES, *FAMILIES):
        start = text.index(f"{name}=") + len(name) + 1
        found[name] = text[start : text.index(";\n" if ";\n" in text[start:] else ";", start)]
        text = text[start + len(found[name]) :]
    return found


@pytest.mark.parametrize("name", [*WANTED, *FAMILIES])
def test_values(site: Site, values: dict[str, str], name: str) -> None:
    wanted = {**WANTED, **FAMILIES}[name].replace("ROOT", str(site.root)).replace("PORT", str(site.ports[0]))
    assert values[name] == wanted


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(values: dict[str, str], name: str) -> None:
    assert re.fullmatch(SHAPES[name], values[name])


def test_every_variable_is_named_here() -> None:
    assert set(CORE) <= {*WANTED, *SHAPES}


def test_those_that_can_be_set(site: Site) -> None:
    assert {name for name, variable in CORE.items() if variable.set is not None} == {"args"}
    assert site.get("/set?a=1").body == b"z=9 9 ?"
    assert site.get("/rate").body == b"10240"


def test_what_was_sent(site: Site) -> None:
    assert site.get("/sent").get("X-Kind") == "text/plain||keep-alive"


def test_one_request_has_one_id(site: Site) -> None:
    first, second = site.get("/ids").body.split()
    assert first == second != site.get("/ids").body.split()[0]


def test_credentials_that_are_none(site: Site) -> None:
    for value in ("Basic", "Basic !!!", "Basic dXNlcg==", "Bearer x"):
        data = REQUEST.replace(b"Basic dXNlcjpwYXNz", value.encode())
        assert b"remote_user=;" in site.answers(data, 1)[0].body


@pytest.mark.parametrize(
    "args, wanted",
    [
        (b"", None),
        (b"a=1", b"1"),
        (b"A=1", b"1"),
        (b"b=1&a=2", b"2"),
        (b"a", None),
        (b"a=", b""),
        (b"ba=1", None),
        (b"a=1&a=2", b"1"),
        (b"x&a=%20", b"%20"),
    ],
)
def test_arguments(args: bytes, wanted: bytes | None) -> None:
    assert argument(args, b"a") == wanted
