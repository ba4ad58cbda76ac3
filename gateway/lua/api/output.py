"""Status, output and the ends of a script: ngx.status, say, flush, eof, exit."""

from collections.abc import Callable
from typing import Any

from gateway.lua import bridge, messages, schedule
from gateway.lua.bridge import BODY_FILTER, CONTENT, LOG, Run

SEEN_EOF, HEADER_ONLY = b"seen eof", b"header only"


def get_status() -> int:
    run = bridge.current
    status = run.response.status
    if status:
        return status
    return run.request.error_status or (9 if run.request.http == 9 else 0)  # as ngx_http_lua_ffi_get_resp_status


def set_status(status: int) -> None:
    run = bridge.current
    if run.sent and run.phase <= CONTENT:
        messages.late_ngx_status(run.request)
        return
    run.response.status = int(status)
    run.response.reason = b"101 Switching Protocols" if status == 101 else None


def headers_sent() -> bool:
    run = bridge.current
    return run.sent if run.phase <= CONTENT else run.phase in (BODY_FILTER, LOG)


def _buffers(run: Run) -> bool:
    """HTTP/1.0 without a length: output is gathered, so that the answer has one and the connection may be kept."""
    request = run.request
    return request.http < 11 and run.local.http10_buffering and run.draft.length < 0 and request.method != b"HEAD"


def out(data: bytes) -> bytes | None:
    """Append output. Returns why it cannot be sent."""
    run = bridge.current
    if run.eof:
        return SEEN_EOF
    if not run.sent:
        if run.buffered or _buffers(run):
            run.buffered = True
        else:
            schedule.decide(run)
            if run.request.method == b"HEAD":
                return None
    if run.request.method == b"HEAD":
        return HEADER_ONLY
    run.pieces.append(data)
    return None


def send_headers() -> bytes | None:
    run = bridge.current
    if not run.sent and not run.buffered:
        if _buffers(run):
            run.buffered = True
        else:
            schedule.decide(run)
    return None


def flush() -> bytes | None:
    run = bridge.current
    if run.eof:
        return SEEN_EOF
    if run.request.method == b"HEAD":
        return HEADER_ONLY
    if run.buffered or (not run.sent and _buffers(run)):
        return b"buffering"
    if not run.sent:
        return b"nothing to flush"
    if run.pieces:
        run.pieces.append(b"")  # the body filter is called with an empty piece, as by OpenResty
    return None


def eof() -> bytes | None:
    run = bridge.current
    if run.eof:
        return SEEN_EOF
    if not run.sent:
        if run.buffered and run.draft.length < 0:
            run.draft.length = sum(map(len, run.pieces))
        schedule.decide(run)
        run.buffered = False
    run.eof = True
    return None


def exit_filter(status: int) -> None:
    """ngx.exit in header_filter_by_lua, which returns to the script."""
    bridge.current.exit_code = int(status)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "get_status": get_status,
    "set_status": set_status,
    "headers_sent": headers_sent,
    "out": out,
    "send_headers": send_headers,
    "flush": flush,
    "eof": eof,
    "exit_filter": exit_filter,
}
