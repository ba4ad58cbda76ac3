"""Lines of an access log: formats compiled to one template and a getter per variable, and the values only logs ask for.

Each getter answers what stands in the line, escaped; a line costs those calls and one `%`.
Source: https://nginx.org/en/docs/http/ngx_http_log_module.html#log_format
"""

import time
from collections.abc import Callable, Mapping, Sequence

from gateway.config.schema import Text
from gateway.http.message import Getter, Request
from gateway.http.text import split

Piece = Callable[[Request], bytes]
Escape = Callable[[bytes], bytes]
Lookup = Callable[[str], Getter]  # raises ConfigError for an unknown variable

KEPT = 2048  # escaped values remembered
LONGEST = 512  # bytes of a value that is worth remembering

# --- escaping

_UNSAFE = {code: b"\\x%02X" % code for code in (*range(32), 0x22, 0x5C, *range(127, 256))}
_UNSAFE_JSON = {code: b"\\u00%02X" % code for code in range(32)} | {
    0x22: b'\\"',
    0x5C: b"\\\\",
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    12: b"\\f",
    13: b"\\r",
}


class Escaped(dict[bytes, bytes]):
    """Escaped values by raw ones. Agents, referrers and paths come again and again: most are found here."""

    __slots__ = ("table", "unsafe")

    def __init__(self, table: Mapping[int, bytes]) -> None:
        super().__init__()
        self.table = table
        self.unsafe = bytes(table)

    def __missing__(self, value: bytes) -> bytes:
        made = value
        if value.translate(None, self.unsafe) != value:
            table = self.table
            made = b"".join([table.get(code) or b"%c" % code for code in value])
        if len(value) <= LONGEST:
            if len(self) >= KEPT:
                self.clear()
            self[value] = made
        return made


def _unescaped(value: bytes) -> bytes:
    return value


ESCAPES: Mapping[str, tuple[Escape, bytes]] = {  # and what stands for a value that is not found
    "default": (Escaped(_UNSAFE).__getitem__, b"-"),
    "json": (Escaped(_UNSAFE_JSON).__getitem__, b""),
    "none": (_unescaped, b""),
}

# --- the values that only logs ask for


class _Clock:
    """The two forms of the present second's time, from `start` to before `end`."""

    __slots__ = ("end", "iso", "local", "start")

    def __init__(self) -> None:
        self.start = self.end = 0.0
        self.local = self.iso = b""

    def tick(self) -> bytes:
        """Begin a second; returns the local form."""
        second = int(time.time())
        moment = time.localtime(second)
        zone = time.strftime("%z", moment)
        month = "JanFebMarAprMayJunJulAugSepOctNovDec"[3 * moment.tm_mon - 3 : 3 * moment.tm_mon]
        self.local = time.strftime(f"%d/{month}/%Y:%H:%M:%S {zone}", moment).encode()
        self.iso = time.strftime(f"%Y-%m-%dT%H:%M:%S{zone[:3]}:{zone[3:]}", moment).encode()
        self.start, self.end = float(second), second + 1.0
        return self.local


_clock = _Clock()


def _time_local(_request: Request) -> bytes:
    return _clock.local if _clock.start <= time.time() < _clock.end else _clock.tick()


def _time_iso8601(_request: Request) -> bytes:
    if not _clock.start <= time.time() < _clock.end:
        _clock.tick()
    return _clock.iso


class _Statuses(dict[int, bytes]):
    """Statuses in three digits: there are not many."""

    def __missing__(self, status: int) -> bytes:
        made = self[status] = b"%03d" % status
        return made


_statuses = _Statuses()


def _code(request: Request) -> int:
    response = request.response
    return response.status if response is not None else 9 if request.http == 9 else 0


def _status(request: Request) -> bytes:
    return _statuses[request.error_status or _code(request)]  # what an error page's answer will be sent with


def _bytes_sent(request: Request) -> bytes:
    return b"%d" % request.main.peer.sent


def _body_bytes_sent(request: Request) -> bytes:
    return b"%d" % request.main.body_sent


def _request_time(request: Request) -> bytes:
    return b"%.3f" % max(time.time() - request.started, 0.0)


def _request_length(request: Request) -> bytes:
    """Head and body as received. A head that was refused and a body that was thrown away count nothing."""
    main, body = request.main, request.main.body
    return b"%d" % (main.head_length + (body.received if body is not None and body.read_by_us() else 0))


def _connection(request: Request) -> bytes:
    return b"%d" % request.main.peer.number


def _connection_requests(request: Request) -> bytes:
    return b"%d" % request.main.peer.served


def _remote_addr(request: Request) -> bytes:
    return request.main.peer.client


def _pipe(request: Request) -> bytes:
    return b"p" if request.main.peer.pipelined else b"."


# how some of these stand in a format's expression, and what formats them
_INLINE: Mapping[str, str] = dict(
    time_local="(clock.local if clock.start <= time() < clock.end else clock.tick())",
    status="(request.error_status or code(request))",
    remote_addr="request.main.peer.client",
    request="escape(request.main.line)",
    body_bytes_sent="request.main.body_sent",
    bytes_sent="request.main.peer.sent",
    connection="request.main.peer.number",
    connection_requests="request.main.peer.served",
)
_CODES: Mapping[str, bytes] = dict(
    status=b"%03d", body_bytes_sent=b"%d", bytes_sent=b"%d", connection=b"%d", connection_requests=b"%d"
)

# values that need no escaping; all but $remote_addr, which is the core's, are variables of this module too
PLAIN: Mapping[str, Piece] = dict(
    time_local=_time_local,
    time_iso8601=_time_iso8601,
    status=_status,
    bytes_sent=_bytes_sent,
    body_bytes_sent=_body_bytes_sent,
    request_time=_request_time,
    request_length=_request_length,
    connection=_connection,
    connection_requests=_connection_requests,
    remote_addr=_remote_addr,
    pipe=_pipe,
)


def _piece(name: str, escape: Escape, missing: bytes, lookup: Lookup) -> Piece:
    if name in PLAIN:
        return PLAIN[name]
    if name.startswith("http_"):
        return _header(name[5:].replace("_", "-").encode(), escape, missing)
    get = lookup(name)
    if name == "remote_user":

        def user(request: Request) -> bytes:
            if request.headers.get(b"authorization") is None:
                return missing
            return escape(get(request) or b"") or missing

        return user
    if name in ("args", "query_string"):
        # nginx has no value where the request had none; the core's getters answer b""
        return lambda request: escape(get(request) or b"") or missing

    def piece(request: Request) -> bytes:
        value = get(request)
        return missing if value is None else escape(value)

    return piece


def _header(lower: bytes, escape: Escape, missing: bytes) -> Piece:
    """`$http_NAME` of a header that is seldom sent twice: a look-up, as long as no header of the block is repeated."""

    def piece(request: Request) -> bytes:
        headers = request.headers
        value = headers.joined(lower) if headers.repeated else headers.get(lower)
        return missing if value is None else escape(value)

    return piece


def formatting(texts: Sequence[Text], escaping: str, lookup: Lookup, end: bytes) -> Piece:
    """Compile a format to a function that makes a log line and `end`. Raises ConfigError for an unknown variable.

    Its texts follow each other without a space; a variable's name ends with its text.
    """
    escape, missing = ESCAPES[escaping]
    parts = [part for text in texts for part in split(text.raw, text.place)]
    names = [part for part in parts if isinstance(part, str)]
    template = b"".join(
        [_CODES.get(part, b"%b") if isinstance(part, str) else part.replace(b"%", b"%%") for part in parts]
    )
    pieces = {f"piece{at}": _piece(name, escape, missing, lookup) for at, name in enumerate(names)}
    # one expression in place of a call for each piece: a line is made for every request
    values = "".join([_expression(name, f"piece{at}(request)") + ", " for at, name in enumerate(names)])
    known = {**pieces, "template": template + end, "escape": escape, "missing": missing}
    known |= {"clock": _clock, "time": time.time, "code": _code}
    made: Piece = eval(f"lambda request: template % ({values})", known)
    return made


def _expression(name: str, piece: str) -> str:
    """What stands for a variable in a format's expression; `piece` is the call that makes it."""
    if name.startswith("http_"):
        lower = name[5:].replace("_", "-").encode()
        value = f"request.headers.get({lower!r})"
        found = f"missing if (value := {value}) is None else escape(value)"
        return f"({piece} if request.headers.repeated else {found})"
    return _INLINE.get(name, piece)
