"""Digests, base64, and what of time Lua has not itself."""

import binascii
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any

from gateway.http.dates import parse_date

_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_MD5, _MD5_BIN, _SHA1_BIN = 1, 2, 3


def digest(kind: int, data: bytes) -> bytes:
    """By kind: MD5 in hexadecimal, MD5, SHA-1. Not for security, as OpenResty's."""
    if kind == _SHA1_BIN:
        return hashlib.sha1(data, usedforsecurity=False).digest()
    made = hashlib.md5(data, usedforsecurity=False)
    return made.hexdigest().encode() if kind == _MD5 else made.digest()


def hmac_sha1(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha1")


def crc32(data: bytes) -> int:
    return binascii.crc32(data)


def encode_base64(data: bytes, bare: bool) -> bytes:
    encoded = binascii.b2a_base64(data, newline=False)
    return encoded.rstrip(b"=") if bare else encoded


def decode_base64(text: bytes) -> bytes | None:
    """None for what is not base64; missing padding is allowed, as by nginx's ngx_decode_base64."""
    stripped = text.rstrip(b"=")
    if len(stripped) % 4 == 1 or not _ALPHABET.issuperset(stripped):
        return None
    return binascii.a2b_base64(stripped + b"=" * (-len(stripped) % 4))


def decode_base64mime(text: bytes) -> bytes | None:
    """As `decode_base64`, but what is outside of the alphabet is passed over (RFC 2045 section 6.8)."""
    body = text.partition(b"=")[0]
    return decode_base64(bytes(code for code in body if code in _ALPHABET))


def now() -> float:
    """Seconds since the epoch, to the millisecond."""
    return round(time.time(), 3)


def parse_http_time(text: bytes) -> int | None:
    seconds = parse_date(text)
    return seconds if seconds >= 0 else None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "digest": digest,
    "hmac_sha1": hmac_sha1,
    "crc32": crc32,
    "encode_base64": encode_base64,
    "decode_base64": decode_base64,
    "decode_base64mime": decode_base64mime,
    "now": now,
    "parse_http_time": parse_http_time,
}
