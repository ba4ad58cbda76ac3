"""The request's body: ngx.req.read_body's other half, get_body_data, set_body_data."""

import os
from collections.abc import Callable
from typing import Any

from gateway.http.body import RequestBody
from gateway.lua import bridge
from gateway.lua.bridge import Run

IN_FILE = b"request body in temp file not supported"
UNREAD = b"no request body found; maybe you should turn on lua_need_request_body?"
READ = "lua body read"  # note: the script, or the directive, has asked for the body


def body_ready() -> bool:
    """Whether the body is in and need not be put into a file."""
    run = bridge.current
    run.request.keep(READ, True)
    body = run.request.body
    if body is None:
        return True
    ready = body.complete and body.received <= body.buffer_size
    if ready:
        body.asked = True
    return ready


def _whole(run: Run) -> bytes | Any | None:
    body = run.request.body
    if body is None or not body.complete or not run.request.note(READ):
        return None
    return body.data()


def body_data(most: int) -> bytes | None:
    data = _whole(bridge.current)
    if not data or not isinstance(data, bytes):
        return None
    return data[:most] if most else data


def body_file() -> bytes | None:
    data = _whole(bridge.current)
    if data is None or isinstance(data, bytes):
        return None
    return b"/proc/self/fd/%d" % data.fileno()  # the file has no name of its own


def post_data() -> tuple[bytes | None, bytes | None]:
    run = bridge.current
    if not run.request.note(READ):
        return None, UNREAD
    data = _whole(run)
    if data is None:
        return b"", None
    return (data, None) if isinstance(data, bytes) else (None, IN_FILE)


def discard_body() -> None:
    body = bridge.current.request.body
    if body is not None:
        body.discard()


def can_set_body() -> bytes | None:
    """A message for Lua's error() if the body cannot be replaced yet."""
    run = bridge.current
    body = run.request.body
    if body is not None and not body.complete:
        return b"request body not read yet"
    if not run.request.note(READ):
        return b"request body not read yet" if body is not None else None
    return None


def set_body(data: bytes) -> bytes | None:
    reason = can_set_body()
    if reason is not None:
        return reason
    request = bridge.current.request
    body = RequestBody(len(data))
    body.asked = True
    if data:
        body.feed(data)
    request.body = body
    request.keep(READ, True)
    request.headers = request.headers.replaced(b"Content-Length", [b"%d" % len(data)])
    return None


def set_body_file(name: bytes, remove: bool) -> bytes | None:
    try:
        with open(name, "rb") as file:
            data = file.read()
        if remove:
            os.unlink(name)
    except OSError as error:
        return b'%b "%b" failed' % (os.fsencode(error.strerror or ""), name)
    return set_body(data)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "body_ready": body_ready,
    "body_data": body_data,
    "body_file": body_file,
    "post_data": post_data,
    "discard_body": discard_body,
    "can_set_body": can_set_body,
    "set_body": set_body,
    "set_body_file": set_body_file,
}
