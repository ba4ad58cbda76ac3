"""Upgrades through proxy_pass (WebSocket and its like): tunnels in both directions, and the ones that are none."""

import socket
from collections.abc import Callable
from typing import Any

from tests.gateway.origin import LIMIT, Call, origin

Start = Callable[..., Any]
REQUEST = "GET / HTTP/1.1\r\nHost: me\r\nConnection: upgrade\r\n"


def read_to(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data:
        piece = sock.recv(65536)
        assert piece, data
        data += piece
    return data


def connect(gateway: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), LIMIT)


def test_a_tunnel(gateway: Start) -> None:
    def upgrade(call: Call) -> None:
        call.head()
        call.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: upgrade\r\n\r\nhello ")
        while data := call.body(4):
            call.send(data.upper())

    with origin(upgrade) as server:
        running = gateway(
            "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;\n"
            f"location / {{ proxy_pass http://127.0.0.1:{server.port}; }}"
        )
        with connect(running) as sock:
            sock.sendall(f"{REQUEST}Upgrade: test\r\n\r\n".encode())
            head = read_to(sock, b"hello ")
            assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n") and b"\r\nUpgrade: test\r\n" in head
            assert b"\r\nConnection: upgrade\r\n" in head and b"chunked" not in head
            for word in (b"abcd", b"efgh"):
                sock.sendall(word)
                assert read_to(sock, word.upper()) == word.upper()
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(10) == b""


def test_an_upgrade_that_was_not_asked_for_is_closed_after_its_head(gateway: Start) -> None:
    def upgrade(call: Call) -> None:
        call.head()
        call.send(b"HTTP/1.1 101 Switching\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\nhello")
        call.gone()

    with origin(upgrade) as server:
        running = gateway(f"location / {{ proxy_http_version 1.1; proxy_pass http://127.0.0.1:{server.port}; }}")
        with connect(running) as sock:
            sock.sendall(f"{REQUEST}\r\n".encode())
            data = b""
            while piece := sock.recv(65536):
                data += piece
        assert data.startswith(b"HTTP/1.1 101 Switching\r\n") and data.endswith(b"Upgrade: test\r\n\r\n")
