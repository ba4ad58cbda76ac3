"""Expires, Cache-Control, and headers and trailers of one's own (ngx_http_headers_filter_module)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from gateway.config.args import choice, seconds_of
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Place, Statement, Text, block, directive, many
from gateway.http.dates import http_date, parse_date
from gateway.http.message import Fields, Filter, Request, Response, Transform
from gateway.module import Build, Compiled, Module, Variable

_SAFE = frozenset({200, 201, 204, 206, 301, 302, 303, 304, 307, 308})  # other answers get a header only with `always`
_SENT = "sent trailers"  # the note of the trailers made so far
_EPOCH = b"Thu, 01 Jan 1970 00:00:01 GMT"
_MAX = b"Thu, 31 Dec 2037 23:55:55 GMT"
_DAY = 86400
_NAMES = {b"expires": b"Expires", b"cache-control": b"Cache-Control"}
IN_IF = ANYWHERE | In.IF_LOCATION


@dataclass(frozen=True, slots=True)
class Added:
    """One add_header or add_trailer."""

    name: str
    value: Text
    always: bool


@dataclass(frozen=True, slots=True)
class Expiry:
    """A parsed `expires`: kind is off, epoch, max, access, modified or daily; seconds its offset."""

    kind: str
    seconds: int = 0


def _added(statement: Statement) -> Added:
    words = statement.args
    if len(words) == 3 and words[2] != "always":
        raise ConfigError(f'invalid parameter "{words[2]}"', statement.place)
    return Added(words[0], Text(words[1], statement.place), len(words) == 3)


def _expires(statement: Statement) -> tuple[bool, str, Place]:
    words = statement.args
    if len(words) == 2 and words[0] != "modified":
        raise ConfigError(f'"{statement.name}" directive invalid value', statement.place)
    if "$" not in words[-1]:
        try:
            parse_expiry(words[-1], modified=len(words) == 2)
        except ValueError as error:
            raise ConfigError(f'"{statement.name}" directive {error}', statement.place) from None
    return len(words) == 2, words[-1], statement.place


def parse_expiry(word: str, *, modified: bool) -> Expiry:
    """`off`, `epoch`, `max`, `[+-]time` or `@time of day`. Raises ValueError in nginx's words."""
    if not modified and word in ("off", "epoch", "max"):
        return Expiry(word)
    daily, sign = word.startswith("@"), 1
    digits = word[1:] if word[:1] in ("@", "+", "-") else word
    if word.startswith("-"):
        sign = -1
    if daily and modified:
        raise ValueError('daily time cannot be used with "modified" parameter')
    try:
        seconds = int(seconds_of(digits, whole=True))
    except ValueError:
        raise ValueError("invalid value") from None
    if daily and seconds > _DAY:
        raise ValueError("daily time value must be less than 24 hours")
    return Expiry("daily" if daily else "modified" if modified else "access", sign * seconds)


_ADDED = Arg("name value [always]", 2, 3, _added)


@block
class Headers:
    """What is added to answers."""

    expires: tuple[bool, str, Place] | None = directive(
        IN_IF,
        Arg("[modified] time | epoch | max | off", 1, 2, _expires),
        None,
        "Set Expires and Cache-Control.",
        default_text="off",
    )
    add_header: tuple[Added, ...] = many(
        IN_IF, _ADDED, "Add a header to answers 200, 201, 204, 206, 301-304, 307, 308, or to all."
    )
    add_trailer: tuple[Added, ...] = many(IN_IF, _ADDED, "Add a field after a chunked body.")
    add_header_inherit: str = directive(
        ANYWHERE,
        choice("on", "off", "merge"),
        "on",
        "Whether headers of outer levels are inherited, dropped, or added to.",
    )
    add_trailer_inherit: str = directive(
        ANYWHERE,
        choice("on", "off", "merge"),
        "on",
        "Whether trailers of outer levels are inherited, dropped, or added to.",
    )


Setter = Callable[[Request, Response, bytes], None]


def adding(conf: Headers, build: Build) -> Filter | None:
    """Add what this location asks for; nothing if it asks for nothing."""
    own = _inherited(build, "add_header", conf.add_header_inherit)
    trailing = _inherited(build, "add_trailer", conf.add_trailer_inherit)
    lines = [(_setter(item.name), build.text(item.value), item.always) for item in own]
    trailers = [(item.name.encode(), build.text(item.value), item.always) for item in trailing]
    expiry = _expiring(conf, build)
    if not lines and not trailers and expiry is None:
        return None

    def headers(request: Request, response: Response) -> Transform | None:
        if request.main is not request:
            return None
        safe = response.status in _SAFE
        if expiry is not None and safe:
            expiry(request, response)
        for put, value, always in lines:
            if safe or always:
                put(request, response, value(request))
        kept = [(name, value) for name, value, always in trailers if safe or always]
        if kept:
            response.trailers = lambda: _trailing(request, kept)
        return None

    return headers


def _trailing(request: Request, wanted: list[tuple[bytes, Compiled]]) -> Fields:
    """The trailers, made at the end of the body: each may name those before it."""
    made: Fields = []
    request.keep(_SENT, made)
    for name, value in wanted:
        text = value(request)
        if text:
            made.append((name, text))
    return made


def _sent_trailer(name: str) -> Variable:
    lower = name.lower().replace("_", "-").encode()

    def get(request: Request) -> bytes | None:
        values = [value for field, value in request.main.note(_SENT, ()) if field.lower() == lower]
        return b", ".join(values) if values else None

    return Variable(get)


def _inherited(build: Build, field: str, rule: str) -> tuple[Added, ...]:
    """`add_header_inherit`: off keeps only this level's own, merge adds them to the outer levels'."""
    found: tuple[Added, ...] = ()
    level = build.level
    while level is not None:
        own = tuple(level.values.get((Headers, field), ()))
        found = own + found
        if (own and rule != "merge") or rule == "off":
            break
        if level.parent is None:
            break
        level = level.parent
    return found


def _setter(name: str) -> Setter:
    key, lower = name.encode(), name.lower()
    if lower == "last-modified":
        return _set_last_modified
    if lower == "etag":
        return _set_etag

    def add(_request: Request, response: Response, value: bytes) -> None:
        if value:
            response.fields.append((key, value))

    return add


def _set_last_modified(_request: Request, response: Response, value: bytes) -> None:
    response.last_modified = parse_date(value) if value else -1
    response.last_modified_text = value or None
    response.remove(b"last-modified")
    if value:
        response.fields.append((b"Last-Modified", value))


def _set_etag(_request: Request, response: Response, value: bytes) -> None:
    response.remove(b"etag")
    if value:
        response.fields.append((b"ETag", value))


def _expiring(conf: Headers, build: Build) -> Callable[[Request, Response], None] | None:
    if conf.expires is None:
        return None
    modified, word, place = conf.expires
    text = build.text(Text(word, place))
    if text.constant is not None:
        fixed = parse_expiry(word, modified=modified)
        return None if fixed.kind == "off" else lambda _request, response: _set_expires(response, fixed)

    def expires(request: Request, response: Response) -> None:
        try:
            expiry = parse_expiry(text(request).decode("latin-1"), modified=modified)
        except ValueError:
            return  # nginx: an unusable value is as none
        if expiry.kind != "off":
            _set_expires(response, expiry)

    return expires


def _set_expires(response: Response, expiry: Expiry) -> None:
    new = dict(zip((b"expires", b"cache-control"), _lines(response, expiry), strict=True))
    fields: Fields = []
    for name, value in response.fields:
        lower = name.lower()
        if lower in new:  # the first of the name is changed where it is
            fields.append((_NAMES[lower], new.pop(lower)))
        elif lower not in _NAMES:
            fields.append((name, value))
    response.fields = fields + [(_NAMES[lower], value) for lower, value in new.items()]


def _lines(response: Response, expiry: Expiry) -> tuple[bytes, bytes]:
    """Values of Expires and Cache-Control (ngx_http_set_expires)."""
    if expiry.kind == "epoch":
        return _EPOCH, b"no-cache"
    if expiry.kind == "max":
        return _MAX, b"max-age=315360000"
    now = int(time.time())
    if expiry.kind == "daily":
        when = _next_daily(now, expiry.seconds)
    elif expiry.kind == "modified" and response.last_modified >= 0:
        when = response.last_modified + expiry.seconds
    else:
        when = now + expiry.seconds
    age = when - now
    control = b"no-cache" if (expiry.seconds < 0 and expiry.kind != "daily") or age < 0 else b"max-age=%d" % age
    return http_date(when), control


def _next_daily(now: int, seconds: int) -> int:
    local = time.localtime(now)
    midnight = now - (local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec)
    when = midnight + seconds
    return when if when > now else when + _DAY


def constant(conf: Headers, build: Build) -> bool:
    """Whether nothing that is added holds a variable."""
    own = _inherited(build, "add_header", conf.add_header_inherit)
    texts = [item.value for item in (*own, *_inherited(build, "add_trailer", conf.add_trailer_inherit))]
    if conf.expires is not None:
        texts.append(Text(conf.expires[1]))
    return all(build.text(text).constant is not None for text in texts)


module = Module(
    name="headers",
    conf=Headers,
    filter=adding,
    steady=constant,
    prefixes={"sent_trailer_": _sent_trailer},
)
