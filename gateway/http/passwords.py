"""Check passwords against what a password file holds: crypt(3), $apr1$, {SHA}, {SSHA}, {PLAIN}.

crypt(3) is the system's own libcrypt, called directly: Python's module of that name is gone from 3.13 on, and what the
library knows (MD5, SHA-2, bcrypt, yescrypt …) is what nginx knows on that system.
Source: https://nginx.org/en/docs/http/ngx_http_auth_basic_module.html#auth_basic_user_file
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", "libcrypt.so")
_ROOM = 1 << 18  # bytes for crypt_r's work: more than any libcrypt's struct crypt_data
_ALPHABET = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_QUICK = (b"{PLAIN}", b"{SHA}", b"{SSHA}", b"$apr1$", b"$1$")  # at most a millisecond
_APR1_ORDER = ((0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5))


class CryptError(Exception):
    """The system has no crypt(3)."""


def slow(stored: bytes) -> bool:
    """Whether a thread should check against this: it was made to be slow, or is not known to be quick."""
    return stored.startswith(b"$") and not stored.startswith(_QUICK)


def matches(password: bytes, stored: bytes) -> bool:
    """Whether the password is the one. Raises CryptError."""
    for prefix, check in _SCHEMES.items():
        if stored.startswith(prefix):
            return check(password, stored[len(prefix) :])
    return _same(_crypt(password, stored), stored)


def _same(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)


def _plain(password: bytes, rest: bytes) -> bool:
    return _same(password, rest)


def _sha(password: bytes, rest: bytes) -> bool:
    # nginx compares the text: what decodes to the same but is written otherwise does not match
    return _same(b64encode(hashlib.sha1(password).digest()), rest)


def _ssha(password: bytes, rest: bytes) -> bool:
    try:
        raw = b64decode(rest, validate=True)
    except ValueError:
        return False
    return len(raw) >= 20 and _same(hashlib.sha1(password + raw[20:]).digest(), raw[:20])


def _apr1(password: bytes, rest: bytes) -> bool:
    salt = rest[:8].partition(b"$")[0]
    return _same(apr1(password, salt), b"$apr1$" + rest)


def apr1(password: bytes, salt: bytes) -> bytes:
    """Apache's variant of the MD5-based crypt: `$apr1$salt$hash`; about a millisecond."""
    md5 = hashlib.md5
    inner = md5(password + salt + password).digest()
    size = len(password)
    text = password + b"$apr1$" + salt + (inner * (size // 16 + 1))[:size]
    bits = size
    while bits:
        text += b"\0" if bits & 1 else password[:1]
        bits >>= 1
    digest = md5(text).digest()
    for turn in range(1000):
        parts = [password if turn & 1 else digest]
        if turn % 3:
            parts.append(salt)
        if turn % 7:
            parts.append(password)
        parts.append(digest if turn & 1 else password)
        digest = md5(b"".join(parts)).digest()
    out = b""
    for high, middle, low in _APR1_ORDER:
        out += _letters(digest[high] << 16 | digest[middle] << 8 | digest[low], 4)
    return b"$apr1$" + salt + b"$" + out + _letters(digest[11], 2)


def _letters(value: int, count: int) -> bytes:
    """`count` letters of six bits each, the lowest first."""
    return bytes(_ALPHABET[value >> 6 * place & 63] for place in range(count))


@cache
def _crypt_r() -> Callable[..., Any]:
    from ctypes import CDLL, c_char_p, c_void_p

    for name in _LIBRARIES:
        try:
            function = CDLL(name, use_errno=True).crypt_r
        except (OSError, AttributeError):
            continue
        function.restype, function.argtypes = c_char_p, (c_char_p, c_char_p, c_void_p)
        return function
    raise CryptError("the system has no crypt(3): install its libcrypt, or use {SSHA} or $apr1$")


def _crypt(password: bytes, salt: bytes) -> bytes:
    """crypt(3); b"" where it fails. The interpreter's lock is free meanwhile."""
    from ctypes import create_string_buffer

    return _crypt_r()(password, salt, create_string_buffer(_ROOM)) or b""


_SCHEMES: dict[bytes, Callable[[bytes, bytes], bool]] = {
    b"$apr1$": _apr1,
    b"{PLAIN}": _plain,
    b"{SSHA}": _ssha,
    b"{SHA}": _sha,
}
