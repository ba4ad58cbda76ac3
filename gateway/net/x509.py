"""What a peer's certificate says, in the forms that nginx gives its variables.

Source: ngx_ssl_get_subject_dn and its neighbours; https://nginx.org/en/docs/http/ngx_http_ssl_module.html#variables
"""

import time
from base64 import encodebytes
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_ulong, c_void_p
from datetime import UTC, datetime
from hashlib import sha1

from gateway.net import openssl

_DAY = 86400
_RFC2253 = 0x1110317  # XN_FLAG_RFC2253

_subject = openssl.function("X509_get_subject_name", c_void_p, c_void_p)
_issuer = openssl.function("X509_get_issuer_name", c_void_p, c_void_p)
_serial = openssl.function("X509_get_serialNumber", c_void_p, c_void_p)
_not_before = openssl.function("X509_get0_notBefore", c_void_p, c_void_p)
_not_after = openssl.function("X509_get0_notAfter", c_void_p, c_void_p)
_print_name = openssl.function("X509_NAME_print_ex", c_int, c_void_p, c_void_p, c_int, c_ulong)
_print_integer = openssl.function("i2a_ASN1_INTEGER", c_int, c_void_p, c_void_p)
_print_time = openssl.function("ASN1_TIME_print", c_int, c_void_p, c_void_p)
_short_name = openssl.function("OBJ_nid2sn", c_char_p, c_int)

Fact = Callable[[int], bytes]  # of an X509


def pem(der: bytes) -> bytes:
    """A certificate as text, without the last line's end."""
    lines = encodebytes(der).replace(b"\n", b"")
    body = b"\n".join(lines[at : at + 64] for at in range(0, len(lines), 64))
    return b"-----BEGIN CERTIFICATE-----\n" + body + b"\n-----END CERTIFICATE-----"


def fingerprint(der: bytes) -> bytes:
    """SHA-1 of the whole, as hexadecimal digits."""
    return sha1(der, usedforsecurity=False).hexdigest().encode()


def subject(certificate: int) -> bytes:
    """Whose it is (RFC 2253)."""
    return openssl.printed(lambda bio: _print_name(bio, _subject(certificate), 0, _RFC2253))


def issuer(certificate: int) -> bytes:
    """Who signed it (RFC 2253)."""
    return openssl.printed(lambda bio: _print_name(bio, _issuer(certificate), 0, _RFC2253))


def subject_legacy(certificate: int) -> bytes:
    """Whose it is, in OpenSSL's old form."""
    return openssl.printed_name(_subject(certificate))


def issuer_legacy(certificate: int) -> bytes:
    """Who signed it, in OpenSSL's old form."""
    return openssl.printed_name(_issuer(certificate))


def serial(certificate: int) -> bytes:
    """Its number, as hexadecimal digits."""
    return openssl.printed(lambda bio: _print_integer(bio, _serial(certificate)))


def start(certificate: int) -> bytes:
    """From when it counts: `Nov 30 19:06:59 2026 GMT`."""
    return openssl.printed(lambda bio: _print_time(bio, _not_before(certificate)))


def end(certificate: int) -> bytes:
    """Until when."""
    return openssl.printed(lambda bio: _print_time(bio, _not_after(certificate)))


def remain(certificate: int) -> bytes:
    """Whole days until then; 0 when it is over."""
    text = end(certificate).decode("latin-1").removesuffix(" GMT")
    ends = datetime.strptime(text, "%b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
    return b"%d" % max(0, int(ends - time.time()) // _DAY)


def group_name(number: int) -> bytes:
    """A curve by OpenSSL's number; what it has no name for is shown in hexadecimal, as nginx does."""
    if number & 0x1000000:
        return b"0x%04x" % (number & 0xFFFF)
    return bytes(_short_name(number) or b"")
