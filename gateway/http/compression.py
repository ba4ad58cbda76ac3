"""What all compressing modules share: nginx's rules for what may be compressed, and the change of a response's head.

gzip, brotli and zstd each *offer* their coding for a level (`offer`); the compress module then makes one filter of all
offers, so that the client's weights are honoured whatever is on. A Lua script may ask for a coding instead (`Wish`).
Sources: nginx's ngx_http_gzip_filter_module and ngx_http_gzip_ok, RFC 9110 sections 8.4, 8.8.1 and 12.5.3.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from gateway.config.args import bits, choice, encode, flag, size
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Level, Statement, block, directive
from gateway.http.dates import parse_date
from gateway.http.message import Fields, Getter, Request, Response
from gateway.pattern import Pattern, PatternError

OFFERS, WISHES, POLICY = "compression offers", "compression wishes", "compression policy"  # keys of `Build.shared`
WISH, MADE = "compression wish", "compression made"  # keys of `Request.notes`
COMPRESSED_STATUSES = (200, 403, 404)  # ngx_http_gzip_header_filter
BODILESS = (204, 206, 304)
EVENT_STREAM = b"text/event-stream"
HTML = frozenset((b"text/html",))  # the default of every list of types
NO_CACHE = {"off": 0}

_MSIE6 = re.compile(rb"MSIE [4-6]\.(?!.*SV1)")  # nginx's own test: SP2 of Windows XP, "SV1", had it mended
_TOKENS = re.compile(rb"[,;]")


def _patterns(statement: Statement) -> tuple[Pattern | None, ...]:
    """User agents; `msie6` stands for a test of nginx's own, here None."""
    found = []
    for word in statement.args:
        try:
            found.append(None if word == "msie6" else Pattern(encode(word), caseless=True))
        except PatternError as error:
            raise ConfigError(str(error)) from None
    return tuple(found)


def _order(statement: Statement) -> tuple[str, ...]:
    if len(set(statement.args)) != len(statement.args):
        raise ValueError(statement.args)
    return statement.args


@block
class Compression:
    """Conditions that the compressing modules have in common."""

    gzip_vary: bool = directive(
        ANYWHERE,
        flag(),
        True,
        'Send "Vary: Accept-Encoding" with what may be compressed. On unless turned off, where nginx has it off: '
        "without it a cache in between serves compressed bytes to clients that cannot read them.",
    )
    gzip_http_version: str = directive(
        ANYWHERE, choice("1.0", "1.1"), "1.1", "The least HTTP version of a request for gzip."
    )
    gzip_proxied: frozenset[str] = directive(
        ANYWHERE,
        bits("off", "expired", "no-cache", "no-store", "private", "no_last_modified", "no_etag", "auth", "any"),
        frozenset({"off"}),
        "Which answers gzip may compress for requests that came through a proxy (Via).",
        default_text="off",
    )
    gzip_disable: tuple[Pattern | None, ...] = directive(
        ANYWHERE,
        Arg("regex ... | msie6", 1, None, _patterns),
        (),
        "User agents that get nothing gzipped.",
        default_text="-",
    )
    compress_order: tuple[str, ...] = directive(
        ANYWHERE,
        Arg("coding ...", 1, None, _order),
        (),
        "Which coding is taken when the client accepts several equally; unnamed ones come last. Unless set: br zstd "
        "gzip for files, which are compressed once, so that only size counts; zstd br gzip for all else, where each "
        "answer costs CPU (measured: zstd 3 needs a quarter of the time of br 4 for 4 % more bytes).",
        default_text="br zstd gzip for files, zstd br gzip for streams",
    )
    compress_cache_size: int = directive(
        In.HTTP,
        size(NO_CACHE),
        64 << 20,
        "Memory of each worker for compressed variants of files; off: each answer is compressed anew.",
        default_text="64m",
    )


Condition = Callable[[Request, Response], bool]


@dataclass(frozen=True, slots=True)
class Offer:
    """A coding that a level may use. `admits` judges what only this coding asks for (None: nothing)."""

    coding: str
    types: frozenset[bytes]
    min_length: int
    level: int
    window: int = 0  # binary logarithm; 0: the coding's own
    admits: Condition | None = None
    token: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "token", self.coding.encode())

    def takes(self, content_type: bytes) -> bool:
        """Whether the type, in lower case, is one of ours."""
        return content_type in self.types or b"*" in self.types


@dataclass(frozen=True, slots=True)
class Wish:
    """What a script wants for one response; no codings: leave it as it is."""

    codings: tuple[str, ...]
    level: int = 0  # 0: the coding's usual one
    min_length: int = 0
    flush: bool = False  # give out each piece at once


class Building(Protocol):
    """What is needed of the level being compiled."""

    level: Level
    shared: dict[Any, Any]


def offer(build: Building, made: Offer) -> None:
    """Offer a coding for the level being compiled."""
    build.shared.setdefault((OFFERS, id(build.level)), []).append(made)


def offered(build: Building) -> tuple[Offer, ...]:
    """What was offered for the level being compiled; asking takes it away."""
    return tuple(build.shared.pop((OFFERS, id(build.level)), ()))


def expect_wishes(build: Building, policy: Callable[[Request, Response], Wish | None] | None = None) -> None:
    """Scripts at this level may leave a `Wish` on the request (`wish`), or `policy` is asked for one per response."""
    build.shared[WISHES, id(build.level)] = True
    if policy is not None:
        build.shared[POLICY, id(build.level)] = policy


Policy = Callable[[Request, Response], Wish | None]


def wishes(build: Building) -> Policy | None:
    """How the level's wishes are learnt, None if it has no scripts; asking takes it away."""
    expected = build.shared.pop((WISHES, id(build.level)), False)
    policy = cast("Policy | None", build.shared.pop((POLICY, id(build.level)), None))
    if not expected:
        return None

    def learn(request: Request, response: Response) -> Wish | None:
        found = policy(request, response) if policy is not None else None
        return found if found is not None else cast("Wish | None", request.note(WISH))

    return learn


def wish(request: Request, wanted: Wish) -> None:
    """Ask for a coding, or for none, in place of what is configured; a later wish replaces an earlier one."""
    request.keep(WISH, wanted)


ENCODED, NO_ETAG = -2, -1
_LENGTHS = (len(b"ETag"), len(b"Content-Encoding"))


def look(fields: Fields) -> int:
    """One look through the headers: ENCODED if the body has a content coding, else where ETag is, or NO_ETAG."""
    at = NO_ETAG
    for index, (name, value) in enumerate(fields):
        if name == b"ETag":
            at = index
        elif len(name) in _LENGTHS:
            lower = name.lower()
            if lower == b"etag":
                at = index
            elif value and lower == b"content-encoding":
                return ENCODED
    return at


def announce(response: Response, coding: bytes, at: int) -> None:
    """Say in the head that the body is compressed; `at` is where ETag is.

    The length is no longer known; ranges would be of bytes that nobody else makes, so none are served; and a strong
    ETag must name one sequence of bytes (RFC 9110 section 8.8.1), so it becomes a weak one, as in nginx.
    """
    fields = response.fields
    if at >= 0:
        name, value = fields[at]
        if value.startswith(b'"'):
            fields[at] = (name, b"W/" + value)
        elif not value.startswith(b"W/"):
            del fields[at]
    fields.append((b"Content-Encoding", coding))
    response.length, response.ranges = -1, False


def gzip_conditions(conf: Compression) -> Condition:
    """What ngx_http_gzip_ok asks beside Accept-Encoding: HTTP version, proxies, user agents."""
    version = 10 if conf.gzip_http_version == "1.0" else 11
    words, disabled = conf.gzip_proxied, conf.gzip_disable

    def admits(request: Request, response: Response) -> bool:
        if request.http < version:
            return False
        if request.headers.get(b"via") is not None and not _proxied(words, request, response):
            return False
        return not disabled or not _disabled(disabled, request.headers.get(b"user-agent"))

    return admits


def _disabled(disabled: tuple[Pattern | None, ...], agent: bytes | None) -> bool:
    if agent is None:
        return False
    for pattern in disabled:
        if pattern is not None:
            if pattern.matches(agent):
                return True
        elif _MSIE6.search(agent) is not None and b"Opera" not in agent:
            return True
    return False


def _proxied(words: frozenset[str], request: Request, response: Response) -> bool:
    if "off" in words:
        return False
    if "any" in words or ("auth" in words and request.headers.get(b"authorization") is not None):
        return True
    expires = response.find(b"expires")
    if expires is not None:
        return "expired" in words and _expired(expires, response.date or response.find(b"date"))
    if response.find(b"cache-control") is not None:
        return any(word in words and _says(response, word) for word in ("no-cache", "no-store", "private"))
    modified = response.last_modified >= 0 or response.last_modified_text is not None
    if "no_last_modified" in words and modified:
        return False
    return not ("no_etag" in words and response.find(b"etag") is not None)


def _expired(expires: bytes, date: bytes | None) -> bool:
    seconds = parse_date(expires)
    now = int(time.time()) if date is None else parse_date(date)
    return seconds >= 0 and now >= 0 and seconds < now


def _says(response: Response, word: str) -> bool:
    """Whether a Cache-Control header has the word as a directive of its own."""
    wanted = word.encode()
    return any(
        part.strip(b" ").lower() == wanted
        for name, value in response.fields
        if name.lower() == b"cache-control"
        for part in _TOKENS.split(value)
    )


def ratio(coding: str) -> Getter:
    """A getter of the ratio of original to compressed length with two digits after the point, as $gzip_ratio has it."""

    def read(request: Request) -> bytes | None:
        made = request.note(MADE)
        if made is None or made.coding != coding or not made.given:
            return None
        thousandths = made.taken * 1000 // made.given
        hundredths = thousandths // 10 + (1 if thousandths % 10 > 4 else 0)
        return b"%d.%02d" % divmod(hundredths, 100)

    return read
