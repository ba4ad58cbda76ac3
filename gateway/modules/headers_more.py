"""Set and clear any header of answers and requests (the headers-more module).

Source: https://github.com/openresty/headers-more-nginx-module.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gateway import log
from gateway.config.args import encode
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Item, Merge, Statement, Text, block, many
from gateway.http.headers import RequestHeaders
from gateway.http.message import ClientGone, Filter, Handler, Request, Response
from gateway.http.report import report
from gateway.http.uri import host_of
from gateway.module import Build, Compiled, Module, Phase

IN_IF = ANYWHERE | In.IF_LOCATION
_SPACES = " \t\n\v\f\r"


@dataclass(frozen=True, slots=True)
class Line:
    """One header: its name as given, lower case without the `*` of a pattern, and the new value ("" clears)."""

    name: bytes
    lower: bytes
    wildcard: bool
    value: Text


@dataclass(frozen=True, slots=True)
class Change:
    """One directive. No types or statuses: all. `append` is -a, `replace` is -r."""

    lines: tuple[Line, ...]
    types: frozenset[bytes]
    statuses: frozenset[int]
    append: bool
    replace: bool


def _change(options: str, clears: bool) -> Callable[[Statement], Change]:
    def parse(statement: Statement) -> Change:
        lines: list[Line] = []
        types: set[bytes] = set()
        statuses: set[int] = set()
        flags: set[str] = set()
        words = iter(statement.args)
        for word in words:
            if not word.startswith("-"):
                if word:
                    lines.append(_line(word, statement, clears))
                continue
            letter = word[1:]
            if len(letter) != 1 or letter not in options:
                raise ConfigError(f'{statement.name}: invalid option name: "{word}"', statement.place)
            if letter in "ar":
                flags.add(letter)
                continue
            value = next(words, None)
            if value is None:
                raise ConfigError(f"{statement.name}: option {word} takes an argument.", statement.place)
            if letter == "t":
                types |= {encode(item) for item in value.replace(";", " ").split()}
            else:
                statuses |= _statuses(value, statement)
        return Change(tuple(lines), frozenset(types), frozenset(statuses), "a" in flags, "r" in flags)

    return parse


def _statuses(value: str, statement: Statement) -> set[int]:
    for char in value:
        if char not in _SPACES and not ("0" <= char <= "9"):
            message = f'{statement.name}: invalid digit "{char}" found in the status code list "{value}"'
            raise ConfigError(message, statement.place)
    return {int(item) for item in value.split()}


def _line(word: str, statement: Statement, clears: bool) -> Line:
    """`Name: value`, `Name:` or `Name`."""
    text = word.lstrip(_SPACES)
    end = next((at for at, char in enumerate(text) if at and char in ":" + _SPACES), len(text))
    name, value = text[:end], text[end:].lstrip(":" + _SPACES)
    if not name:
        raise ConfigError(f"{statement.name}: no key found in the header argument: {word}", statement.place)
    wildcard = name.endswith("*")
    if wildcard and len(name) < 2:
        raise ConfigError(f"{statement.name}: wildcard key too short: {word}", statement.place)
    lower = encode(name.lower())
    return Line(
        encode(name), lower[:-1] if wildcard else lower, wildcard, Text("" if clears else value, statement.place)
    )


_SET = Arg("[-t types] [-s statuses] [-a] header ...", 1, None, _change("tsa", False))
_CLEAR = Arg("[-t types] [-s statuses] header ...", 1, None, _change("ts", True))
_SET_INPUT = Arg("[-r] [-t types] header ...", 1, None, _change("tr", False))
_CLEAR_INPUT = Arg("[-t types] header ...", 1, None, _change("tr", True))


@block
class HeadersMore:
    """Changes of headers; those of outer levels come first."""

    output: tuple[Item[Change], ...] = many(
        IN_IF,
        {"more_set_headers": _SET, "more_clear_headers": _CLEAR},
        {
            "more_set_headers": "Set headers of answers, of all statuses or those named.",
            "more_clear_headers": "Drop headers of answers; a `*` at the end stands for anything.",
        },
        merge=Merge.APPEND,
    )
    input: tuple[Item[Change], ...] = many(
        IN_IF,
        {"more_set_input_headers": _SET_INPUT, "more_clear_input_headers": _CLEAR_INPUT},
        {
            "more_set_input_headers": "Set headers of requests, after the rewrite module.",
            "more_clear_input_headers": "Drop headers of requests; a `*` at the end stands for anything.",
        },
        merge=Merge.APPEND,
    )


# --- answers

Put = Callable[[Response, Line, bytes], None]


def changing_answers(conf: HeadersMore, build: Build) -> Filter | None:
    """Make the changes, one after the other, where type and status are those wanted."""
    if not conf.output:
        return None
    changes = [(item.value, _compiled(item.value, build)) for item in conf.output]

    def headers_more(request: Request, response: Response) -> None:
        for change, lines in changes:
            if change.types and (response.content_type or b"") not in change.types:
                continue
            if change.statuses and response.status not in change.statuses:
                continue
            for line, value in lines:
                text = value(request)
                if change.append and text and line.lower not in _OWN:
                    response.fields.append((line.name, text))
                else:
                    _OWN.get(line.lower, _in_fields)(response, line, text)

    return headers_more


def _compiled(change: Change, build: Build) -> list[tuple[Line, Compiled]]:
    return [(line, build.text(line.value)) for line in change.lines]


def _in_fields(response: Response, line: Line, value: bytes) -> None:
    """The first header of this name gets the value, the others go; without one it is added."""
    fields = []
    found = False
    for item in response.fields:
        lower = item[0].lower()
        if not (lower.startswith(line.lower) if line.wildcard else lower == line.lower):
            fields.append(item)
            continue
        if value and not found:
            fields.append((item[0], value))
        found = True
    if value and not found:
        fields.append((line.name, value))
    response.fields = fields


def _server(response: Response, line: Line, value: bytes) -> None:
    response.server = b""  # it stands among the fields, or nowhere
    _in_fields(response, line, value)


def _date(response: Response, line: Line, value: bytes) -> None:
    response.date = b""
    _in_fields(response, line, value)


def _location(response: Response, line: Line, value: bytes) -> None:
    response.location = value or None


def _content_type(response: Response, line: Line, value: bytes) -> None:
    """A charset in it is kept apart, as nginx does."""
    at = value.find(b";")
    while at >= 0:
        rest = value[at + 1 :].lstrip(b" ")
        if rest[:8].lower() == b"charset=":
            response.charset = rest[8:].strip(b'"')
            value = value[:at]
            break
        at = value.find(b";", at + 1)
    response.content_type, response.type_text = value, None
    _in_fields(response, line, b"")


def _content_length(response: Response, line: Line, value: bytes) -> None:
    response.length = int(value) if value.isdigit() else -1


def _last_modified(response: Response, line: Line, value: bytes) -> None:
    response.last_modified_text = value  # b"": it is not sent
    _in_fields(response, line, value)


def _accept_ranges(response: Response, line: Line, value: bytes) -> None:
    response.ranges = response.ranges and bool(value)
    _in_fields(response, line, value)


_OWN: dict[bytes, Put] = {
    b"server": _server,
    b"date": _date,
    b"location": _location,
    b"content-type": _content_type,
    b"content-length": _content_length,
    b"last-modified": _last_modified,
    b"accept-ranges": _accept_ranges,
}


# --- requests


def changing_requests(conf: HeadersMore, build: Build) -> Handler | None:
    """Make the changes at the end of the rewrite phase."""
    if not conf.input:
        return None
    changes = [(item.value, _compiled(item.value, build)) for item in conf.input]

    def headers_more(request: Request) -> None:
        if request.http < 10:
            return
        for change, lines in changes:
            if change.types and (request.headers.get(b"content-type") or b"") not in change.types:
                continue
            for line, value in lines:
                _alter(request, line, value(request), change.replace)

    return headers_more


def _alter(request: Request, line: Line, value: bytes, replace: bool) -> None:
    headers = request.headers
    if line.wildcard:
        if not value:
            for name in {name for name, _ in headers.pairs if name.startswith(line.lower)}:
                request.headers = request.headers.replaced(name, ())
        return
    present = headers.get(line.lower) is not None
    if not present and (replace or not value):
        return
    if line.lower == b"host":
        request.host = _checked(request, value)
    elif line.lower == b"connection" and b"close" in value.lower():
        request.keepalive = False
    request.headers = headers.replaced(_spelled(headers, line), (value,) if value else ())


def _spelled(headers: RequestHeaders, line: Line) -> bytes:
    """The name as the client wrote it, else as it is configured."""
    return next((name for name, _ in headers.items if name.lower() == line.lower), line.name)


def _checked(request: Request, value: bytes) -> bytes:
    """The host name in a new Host header. Raises ClientGone for what is none: nginx gives the request up."""
    host = host_of(value) if value else b""
    if host is None:
        report(request, log.ERROR, f"more_set_input_headers: invalid host {value!r}")
        raise ClientGone(500)
    return host


module = Module(
    name="headers_more",
    conf=HeadersMore,
    handlers={Phase.LATE_REWRITE: changing_requests},
    filter=changing_answers,
)
