"""Mark clients with a cookie (ngx_http_userid_module).

A mark is four 32-bit numbers: the service (by default our address), the time, the process, a count. In the cookie they
are 16 bytes in base64; `userid v1` writes them as the machine has them, `on` in network order. Logs show each in hex.

Source: https://nginx.org/en/docs/http/ngx_http_userid_module.html
"""

import os
import socket
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass
from struct import Struct
from typing import Any

from gateway import log
from gateway.config.args import choice, encode, integer, seconds_of, string
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Statement, block, directive
from gateway.http.declared import declare, kept
from gateway.http.message import Filter, Request, Response
from gateway.http.report import report
from gateway.module import Build, Module, Variable

RESET = "uid_reset"

_NATIVE, _NETWORK = Struct("=4I"), Struct(">4I")
_FIRST_V1, _FIRST_V2 = 1, 0x03030302
_CODE = 22  # letters of 16 bytes in base64, without padding
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MAX = -1  # `userid_expires max`
_FLAGS = ("secure", "httponly", "samesite=strict", "samesite=lax", "samesite=none")


def _expires(statement: Statement) -> int:
    word = statement.args[0]
    if word in ("max", "off"):
        return _MAX if word == "max" else 0
    try:
        return int(seconds_of(word, whole=True))
    except ValueError:
        raise ConfigError(f'"{statement.name}" directive invalid value', statement.place) from None


def _mark(statement: Statement) -> bytes:
    word = statement.args[0]
    if word == "off":
        return b""
    if len(word) != 1 or not word.isascii() or not (word.isalnum() or word == "="):
        said = f'"{statement.name}" directive value must be "off" or a single letter, digit or "="'
        raise ConfigError(said, statement.place)
    return encode(word)


def _flags(statement: Statement) -> frozenset[str]:
    for word in statement.args:
        if word.lower() not in (*_FLAGS, "off"):
            raise ConfigError(f'invalid value "{word}"', statement.place)
    return frozenset(word.lower() for word in statement.args) - {"off"}


@block
class UserId:
    """Cookies that tell clients apart."""

    userid: str = directive(
        ANYWHERE, choice("off", "log", "v1", "on"), "off", "Set the cookie (on, v1), or only log it."
    )
    userid_name: str = directive(ANYWHERE, string("name"), "uid", "The cookie's name.")
    userid_domain: str = directive(ANYWHERE, string("name | none"), "none", "The cookie's domain.")
    userid_path: str = directive(ANYWHERE, string("path"), "/", "The cookie's path.")
    userid_expires: int = directive(
        ANYWHERE, Arg("time | max | off", 1, 1, _expires), 0, "How long clients keep the cookie.", default_text="off"
    )
    userid_flags: frozenset[str] = directive(
        ANYWHERE,
        Arg("off | flag ...", 1, 3, _flags),
        frozenset(),
        "Attributes of the cookie (secure, httponly, samesite=…).",
        default_text="off",
    )
    userid_mark: bytes = directive(
        ANYWHERE,
        Arg("letter | digit | = | off", 1, 1, _mark),
        b"",
        "A letter in the cookie; one without it is sent anew.",
        default_text="off",
    )
    userid_p3p: str = directive(ANYWHERE, string("string | none"), "none", "A P3P header to go with the cookie.")
    userid_service: int = directive(
        ANYWHERE,
        integer(),
        -1,
        "The first number of a mark, where servers share a site.",
        default_text="address of the server",
    )


@dataclass(slots=True)
class Mark:
    """What a request brought and what it is given; None: nothing. Native byte order."""

    cookie: bytes = b""
    got: tuple[int, ...] | None = None
    given: tuple[int, ...] | None = None


class Numbers:
    """What tells the marks of this process apart: made on first use, so never by the master."""

    __slots__ = ("process", "v1", "v2")

    def __init__(self) -> None:
        microseconds = time.time_ns() // 1000 % 1_000_000
        self.process = (microseconds // 20 << 16 | os.getpid()) & 0xFFFFFFFF
        self.v1, self.v2 = _FIRST_V1, _FIRST_V2

    def next_v1(self, service: int) -> tuple[int, ...]:
        """A mark in the byte order of the machine."""
        number, self.v1 = self.v1, (self.v1 + 0x100) & 0xFFFFFFFF
        return service, int(time.time()), self.process, number

    def next_v2(self, service: int) -> tuple[int, ...]:
        """A mark in network order, as the machine would read it."""
        number, self.v2 = self.v2, (self.v2 + 0x100) & 0xFFFFFFFF
        if self.v2 < _FIRST_V2:
            self.v2 = _FIRST_V2
        return _NATIVE.unpack(_NETWORK.pack(service, int(time.time()), self.process, number))


@dataclass(slots=True)
class Marking:
    """The rules of one level."""

    conf: UserId
    name: bytes
    reset: Variable
    shared: dict[Any, Any]

    def of(self, request: Request) -> Mark:
        """The mark that the request brought."""
        mark: Mark | None = request.note(UserId)
        if mark is None:
            mark = _got(request, self.name)
            request.keep(UserId, mark)
        return mark

    def made(self, request: Request) -> Mark:
        """The same, with a new one where it needs one."""
        mark = self.of(request)
        if mark.given is not None:
            return mark
        if mark.got is not None:
            reset = self.reset.get(request) or b""
            if reset in (b"", b"0"):
                wanted = self.conf.userid_mark
                if wanted and mark.cookie[_CODE : _CODE + 2] != wanted + b"=":
                    mark.given = mark.got
                return mark
            if reset == b"log":
                report(request, log.NOTICE, f'userid cookie "{self.text(mark.got).decode("latin-1")}" was reset')
        mark.given = self.new(request)
        return mark

    def new(self, request: Request) -> tuple[int, ...]:
        """A mark that nobody else has."""
        numbers = self.shared.get(Numbers)
        if numbers is None:
            numbers = self.shared[Numbers] = Numbers()
        service = self.conf.userid_service
        if self.conf.userid == "v1":
            return numbers.next_v1(max(service, 0))
        return numbers.next_v2(_address(request) if service < 0 else service)

    def text(self, numbers: tuple[int, ...]) -> bytes:
        """`name=` and the numbers in hex."""
        return self.name + b"=" + b"".join(b"%08X" % number for number in numbers)


def _got(request: Request, name: bytes) -> Mark:
    cookie = find_cookie(request.headers.all(b"cookie"), name)
    if cookie is None:
        return Mark()
    shown = cookie.decode("utf-8", "surrogateescape")
    if len(cookie) < _CODE:
        report(request, log.ERROR, f'client sent too short userid cookie "{name.decode()}={shown}"')
        return Mark(cookie)
    try:
        got = _NATIVE.unpack(b64decode(cookie[:_CODE] + b"==", validate=True))
    except ValueError:
        report(request, log.ERROR, f'client sent invalid userid cookie "{name.decode()}={shown}"')
        return Mark(cookie)
    return Mark(cookie, got if got[3] else None)


def find_cookie(lines: list[bytes], name: bytes) -> bytes | None:
    """The first value under this name, in any case, as nginx reads cookies."""
    lower = name.lower()
    for line in lines:
        for pair in line.split(b";"):
            pair = pair.lstrip(b" ")
            after = pair[len(name) :].lstrip(b" ")
            if pair[: len(name)].lower() == lower and after.startswith(b"="):
                return after[1:].lstrip(b" ")
    return None


def _address(request: Request) -> int:
    """Our address as a number: that of IPv4, the end of that of IPv6, 0 of a unix socket."""
    text = request.main.peer.local.decode()
    if text.startswith("unix:"):
        return 0
    packed = socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    return int.from_bytes(packed[-4:], "big")


def declaring(conf: UserId, build: Build) -> None:
    """$uid_reset: whatever the configuration makes of it (a map has been here before), else what is assigned to it."""
    if build.level.context is In.HTTP:
        declare(build, RESET, kept(RESET))


def marking(conf: UserId, build: Build) -> Filter | None:
    """Set the cookie where there is none, or not the right one."""
    if conf.userid == "off":
        return None
    rules = build.notes[UserId] = Marking(conf, encode(conf.userid_name), build.variable(RESET), build.shared)
    if conf.userid == "log":
        return None
    tail = _tail(conf)
    policy = encode(conf.userid_p3p) if conf.userid_p3p != "none" else b""

    def userid(request: Request, response: Response) -> None:
        if request.main is not request:
            return
        mark = rules.made(request)
        if mark.given is None:
            return
        code = bytearray(b64encode(_NATIVE.pack(*mark.given)))
        if conf.userid_mark:
            code[_CODE] = conf.userid_mark[0]
        cookie = rules.name + b"=" + code + _until(conf.userid_expires) + tail
        response.fields.append((b"Set-Cookie", cookie))
        if policy:
            response.fields.append((b"P3P", policy))

    return userid


def _tail(conf: UserId) -> bytes:
    domain = f"; domain={conf.userid_domain}" if conf.userid_domain != "none" else ""
    flags = "".join(f"; {flag}" for flag in _FLAGS if flag in conf.userid_flags)
    return encode(f"{domain}; path={conf.userid_path}{flags}")


def _until(seconds: int) -> bytes:
    """The cookie's end, with a year of two digits up to 2037."""
    if not seconds:
        return b""
    if seconds == _MAX:
        return b"; expires=Thu, 31-Dec-37 23:55:55 GMT"
    at = time.gmtime(time.time() + seconds)
    year = f"{at.tm_year % 100:02d}" if at.tm_year <= 2037 else str(at.tm_year)
    day = f"{_DAYS[at.tm_wday]}, {at.tm_mday:02d}-{_MONTHS[at.tm_mon - 1]}-{year}"
    return f"; expires={day} {at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d} GMT".encode()


def _uid_got(request: Request) -> bytes | None:
    rules: Marking | None = request.location.notes.get(UserId)
    got = rules.of(request.main).got if rules is not None else None
    return rules.text(got) if rules is not None and got is not None else None


def _uid_set(request: Request) -> bytes | None:
    rules: Marking | None = request.location.notes.get(UserId)
    if rules is None or rules.conf.userid == "log":
        return None
    given = rules.made(request.main).given
    return rules.text(given) if given is not None else None


module = Module(
    name="userid",
    conf=UserId,
    define=declaring,
    filter=marking,
    variables={
        "uid_got": Variable(_uid_got),
        "uid_set": Variable(_uid_set),
    },
)
