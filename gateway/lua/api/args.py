"""Query arguments: application/x-www-form-urlencoded text to pairs, as OpenResty splits it."""

from gateway.http.escape import unescape
from gateway.lua import bridge

Flat = tuple[bytes | bool, ...]


def decoded(text: bytes, start: int, number: int) -> Flat:
    """`number` pairs from the `start`-th on, flat. A name without "=" has the value true; empty names are dropped."""
    flat: list[bytes | bool] = []
    seen = 0
    for item in text.split(b"&"):
        name, equals, value = item.partition(b"=")
        if not name:
            continue
        seen += 1
        if seen <= start:
            continue
        if seen > start + number:
            break
        flat += (_plain(name), _plain(value) if equals else True)
    return tuple(flat)


def _plain(text: bytes) -> bytes:
    if b"+" in text:
        text = text.replace(b"+", b" ")
    return unescape(text) if b"%" in text else text


def decode_args(start: int, number: int, text: bytes) -> Flat:
    return decoded(text, start, number)


def uri_args(start: int, number: int) -> Flat:
    return decoded(bridge.current.request.args, start, number)


FUNCTIONS = {"decode_args": decode_args, "uri_args": uri_args}
