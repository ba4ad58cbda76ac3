"""Looks at the connection behind a request: is the client still there, and how long may it dawdle with its body."""

import select
import socket
from collections.abc import Callable, Mapping
from typing import Any


def connection(environ: Mapping[str, Any]) -> socket.socket | None:
    """Return the socket of a request, which gunicorn hands over; None under other servers and in tests."""
    found = environ.get("gunicorn.socket")
    return found if isinstance(found, socket.socket) else None


def watch(environ: Mapping[str, Any]) -> Callable[[], bool]:
    """Return a function that tells whether the client has closed its end; without a socket it never has.

    A client that sends the next request early (pipelining) leaves bytes, not an end, and so is still there.
    """
    sock = connection(environ)
    if sock is None:
        return lambda: False

    def gone() -> bool:
        try:
            readable, _, _ = select.select([sock], [], [], 0)
            return bool(readable) and sock.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    return gone


def limit_dawdling(environ: Mapping[str, Any], seconds: float) -> None:
    """Let no single read or write of this request wait longer than ``seconds``; TimeoutError is what then comes."""
    sock = connection(environ)
    if sock is not None:
        sock.settimeout(seconds)
