"""Request heads of HTTP/1: request line, header block, the limits on both, and memos that make repeated heads cheap.

Source: RFC 9112 sections 2-3 and 5; statuses and log texts are those of nginx (ngx_http_parse.c's states, mainline
where it is stricter than older releases).
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from gateway.http.headers import (
    NO_HEADERS,
    HeaderError,
    LineMemo,
    RequestHeaders,
    UnusualBlockError,
    end_of_block,
    indexed,
    read_lines,
    shown,
)
from gateway.http.memo import Memo
from gateway.http.message import HttpError
from gateway.http.replay import Replay
from gateway.http.uri import UriError, host_of, parse_path, split_target

_METHOD = re.compile(rb"[A-Z_\-]+")
_VERSION = re.compile(rb"HTTP/([1-9][0-9]*)\.([0-9]{1,3})")
_AUTHORITY = re.compile(rb"(?:\[[0-9A-Za-z:.\-_~]+\]|[A-Za-z0-9.\-_~]+):[0-9]{1,5}")
_READING_LINE = "while reading client request line"
_LINES_KEPT, _LINES_ROOM = 4096, 1024 * 1024  # entries and bytes, per generation of a memo
_BLOCKS_KEPT, _BLOCKS_ROOM = 1024, 1024 * 1024
_HEADS_KEPT, _HEADS_ROOM = 1024, 512 * 1024
_WHOLE = (
    256  # bytes of a head looked up as a whole before its parts: longer ones (browsers') repeat less than they cost
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a server's settings say about heads; sizes in bytes."""

    ignore_invalid_headers: bool = True
    underscores_in_headers: bool = False
    header_buffer: int = 1024  # client_header_buffer_size
    large_number: int = 4  # large_client_header_buffers
    large_size: int = 8192
    merge_slashes: bool = True


class RequestError(HttpError):
    """A head that is refused.

    `reason` is what nginx logs, `head` what was understood of the request (None: not even its line).
    """

    def __init__(self, status: int, reason: str, line: bytes = b"", head: "Head | None" = None) -> None:
        super().__init__(status)
        self.reason, self.line, self.head = reason, line, head


class RequestLine:
    """A parsed request line, shared by all requests that sent the same one."""

    __slots__ = ("args", "host", "http", "line", "method", "steady", "target", "uri")

    def __init__(self, line: bytes, method: bytes, target: bytes, http: int) -> None:
        self.line, self.method, self.target, self.http = line, method, target, http
        self.uri = b"/"
        self.args = self.host = b""
        self.steady: bool | None = None  # what asks for it may be answered alike (http/replay); None: not known yet


class Head:
    """A request's head: `end` is the offset after it, `uri` decoded and normalised, `host` lower case without port."""

    __slots__ = (
        "args",
        "end",
        "headers",
        "host",
        "http",
        "keepalive",
        "line",
        "method",
        "origin",
        "replay",
        "target",
        "uri",
    )

    def __init__(self, line: RequestLine, headers: RequestHeaders, end: int) -> None:
        self.origin = line
        self.method = line.method
        self.target = line.target
        self.uri = line.uri
        self.args = line.args
        self.http = http = line.http
        self.line = line.line
        self.headers = headers
        self.host = line.host or headers.host
        self.end = end
        # RFC 9112 section 9.3
        self.keepalive = not headers.close if http > 10 else headers.keep_alive
        self.replay: Replay | None = None


class RequestParser:
    """Parses heads under one policy. It keeps nothing but its memos between calls: one serves all connections."""

    __slots__ = ("_blocks", "_fits", "_heads", "_lines", "_pairs", "policy")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._heads: Memo[Head] = Memo(_HEADS_KEPT, _HEADS_ROOM)
        self._lines: Memo[RequestLine] = Memo(_LINES_KEPT, _LINES_ROOM)
        self._blocks: Memo[RequestHeaders] = Memo(_BLOCKS_KEPT, _BLOCKS_ROOM)
        self._pairs = LineMemo(underscores=policy.underscores_in_headers, ignore_invalid=policy.ignore_invalid_headers)
        # a head of this size fits the buffers, however its lines fall
        self._fits = max(policy.header_buffer, policy.large_size if policy.large_number else 0)

    def parse(self, data: bytes, start: int) -> Head | None:
        """Parse the head that begins at `start`; None if it is not complete. Raises RequestError."""
        if not start and len(data) < _WHOLE:
            head = self._heads.get(data)
            if head is not None:
                return head
        eol = data.find(b"\n", start)
        line = self._lines.get(data[start:eol])
        if line is None:
            return self._parse_slowly(data, start)
        end = data.find(b"\n\r\n", eol)
        if end < 0 or end + 3 - start > self._fits:
            return self._parse_slowly(data, start)
        block = data[eol + 1 : end]
        headers = self._blocks.get(block)
        known = headers is not None
        if headers is None:
            headers = self._usual_headers(block)
            if headers is None:
                return self._parse_slowly(data, start)
        if line.http != 11 or not headers.host:
            _agree(line, headers)
        head = Head(line, headers, end + 3)
        if known and not start and end + 3 == len(data) < _WHOLE:
            self._heads.offer(data, head)
        return head

    def _usual_headers(self, block: bytes) -> RequestHeaders | None:
        """A block that the memo does not hold, if there is nothing unusual in it."""
        blocks = self._blocks
        if block in blocks.old:
            return blocks.recall(block)
        if not block.endswith(b"\r"):
            return None
        lines = block[:-1].split(b"\r\n")
        try:
            headers = RequestHeaders(*indexed(lines, list(map(self._pairs.__getitem__, lines))))
        except (HeaderError, UnusualBlockError):
            return None
        blocks.offer(block, headers)
        return headers

    def _headers(self, block: bytes, line: RequestLine) -> RequestHeaders:
        try:
            return RequestHeaders(*read_lines(block, self._pairs))
        except HeaderError as error:
            known = self._readable(block)
            # nginx refuses any transfer coding in HTTP/1.0 before it asks which
            status = error.status if line.http > 10 else 400
            raise RequestError(status, str(error), line.line, Head(line, known, 0)) from None

    def _readable(self, block: bytes) -> RequestHeaders:
        """The headers before the one at fault: they choose the server whose error page is sent, and are logged."""
        lines, pairs = [part.rstrip(b"\r") for part in block.split(b"\n")], []
        with suppress(HeaderError, UnusualBlockError):
            for line in lines:
                pairs.append(self._pairs[line])
        known, good, bad = NO_HEADERS, 0, len(pairs) + 1
        while bad - good > 1:  # a fault stays one whatever follows it: halving keeps a flood of lines cheap
            count = (good + bad) // 2
            try:
                known, good = RequestHeaders(*indexed(lines[:count], pairs[:count])), count
            except HeaderError:
                bad = count
        return known

    def _parse_slowly(self, data: bytes, start: int) -> Head | None:
        size = len(data)
        while start < size and data[start] in b"\r\n":  # RFC 9112 section 2.2: empty lines before a request line
            start += 1
        eol = data.find(b"\n", start)
        if eol < 0:
            self._check_beginning(data, start)
            return None
        line = self._line(data[start:eol])
        if line.http == 9:
            return Head(line, NO_HEADERS, eol + 1)
        end, after = end_of_block(data, eol)
        self._check_room(data, start, eol, after, line)
        if end < 0:
            if b"\n\r\r" in data[eol:]:
                raise RequestError(
                    400, 'client sent invalid header line: "\\x0D"', line.line, Head(line, NO_HEADERS, 0)
                )
            return None
        block = data[eol + 1 : end]
        headers = self._blocks.get(block) or self._usual_headers(block) or self._headers(block, line)
        _agree(line, headers)
        return Head(line, headers, after)

    def _line(self, raw: bytes) -> RequestLine:
        line = self._lines.get(raw) or self._lines.recall(raw)
        if line is None:
            line = _request_line(raw, self.policy.merge_slashes)
            if line.http != 9 and line.method not in (b"TRACE", b"CONNECT"):
                self._lines.offer(raw, line)
        return line

    def _check_beginning(self, data: bytes, start: int) -> None:
        """Refuse what cannot become a request line, before its end has come."""
        if start >= len(data):
            return
        method, space, _ = data[start:].partition(b" ")
        if not _METHOD.fullmatch(method) or (not space and len(method) > 64):
            raise RequestError(400, f"client sent invalid method {_READING_LINE}", data[start:].rstrip(b"\r"))
        if len(data) - start >= max(self.policy.header_buffer, self.policy.large_size):
            raise RequestError(414, "client sent too long URI", data[start : start + self._fits])

    def _check_room(self, data: bytes, start: int, eol: int, after: int, line: RequestLine) -> None:
        """Pack the lines into buffers as nginx does: one small, then large ones; no line is split.

        Raises RequestError 414, 494.
        """
        stop = after if after >= 0 else len(data)
        if stop - start <= self._fits:
            return
        policy = self.policy
        room, used, at = policy.header_buffer - (eol + 1 - start), 0, eol + 1
        if room < 0:
            if eol + 1 - start > policy.large_size or not policy.large_number:
                raise RequestError(414, "client sent too long URI", data[start : start + self._fits])
            room, used = policy.large_size - (eol + 1 - start), 1
        while at < stop:
            end = data.find(b"\n", at, stop)
            length = (stop if end < 0 else end + 1) - at
            if length > room:
                used, room = used + 1, policy.large_size
                if length > room or used > policy.large_number:
                    text = f'client sent too long header line: "{shown(data[at : at + 200])}"'
                    raise RequestError(494, text, line.line, Head(line, self._readable(data[eol + 1 : at]), 0))
            room, at = room - length, at + length


class ParserByHost:
    """Parses by the policy of the server that a request's host names, where servers of one address differ in it.

    nginx begins with the default server's settings and goes on with the named one's; here the head is read again.
    """

    __slots__ = ("_choose", "_first", "_others")

    def __init__(self, first: Policy, choose: Callable[[bytes], Policy]) -> None:
        self._first = RequestParser(first)
        self._choose = choose
        self._others = {first: self._first}

    def parse(self, data: bytes, start: int) -> Head | None:
        """As `RequestParser.parse`."""
        try:
            head = self._first.parse(data, start)
        except RequestError as error:
            if error.head is None or self._of(error.head.host) is self._first:
                raise
            return self._of(error.head.host).parse(data, start)
        if head is None:
            return None
        parser = self._of(head.host)
        return head if parser is self._first else parser.parse(data, start)

    def _of(self, host: bytes) -> RequestParser:
        # the request line, and the buffer it came in, were there before the host was known
        first = self._first.policy
        policy = replace(self._choose(host), header_buffer=first.header_buffer, merge_slashes=first.merge_slashes)
        parser = self._others.get(policy)
        if parser is None:
            parser = self._others[policy] = RequestParser(policy)
        return parser


def _request_line(raw: bytes, merge_slashes: bool) -> RequestLine:
    """Parse a request line without its LF. Raises RequestError."""
    text = raw[:-1] if raw.endswith(b"\r") else raw
    method, _, rest = text.partition(b" ")
    if not _METHOD.fullmatch(method):
        raise RequestError(400, f"client sent invalid method {_READING_LINE}", text)
    target, _, version = rest.strip(b" ").partition(b" ")
    version = version.strip(b" ")
    # the order of nginx's checks: characters of the target, version, normal form
    try:
        if method == b"CONNECT":
            path, authority = _authority_form(target), None
        else:
            path, authority = split_target(target)
        http = _http(version, text) if version else 9
        line = RequestLine(text, method, path, http)
        if method != b"CONNECT":
            _read_path(line, path, merge_slashes)
    except UriError:
        raise RequestError(400, f"client sent invalid request {_READING_LINE}", text) from None
    if http == 9 and method != b"GET":
        raise RequestError(400, f"client sent invalid method in HTTP/0.9 request {_READING_LINE}", text)
    if authority is not None:
        line.host = host_of(authority) or b""
        if not line.host:
            raise RequestError(400, "client sent invalid host in request line", text)
    return line


def _read_path(line: RequestLine, path: bytes, merge_slashes: bool) -> None:
    """Raises RequestError; to nginx method and version are known by then, and the URI is empty."""
    try:
        line.uri, line.args = parse_path(path, merge_slashes)
    except UriError:
        line.uri = line.target = b""
        reason = f"client sent invalid request {_READING_LINE}"
        raise RequestError(400, reason, line.line, Head(line, NO_HEADERS, 0)) from None


def _authority_form(target: bytes) -> bytes:
    if not _AUTHORITY.fullmatch(target):
        raise UriError("not host:port")
    return target


def _http(version: bytes, text: bytes) -> int:
    match = _VERSION.fullmatch(version)
    if match is None:
        # nginx refuses a major version above 1 as soon as it has read it
        status = 505 if re.match(rb"HTTP/(?:[2-9]|1[0-9])", version) else 400
    elif int(match[1]) > 1:
        status = 505
    else:
        return 11 if int(match[2]) else 10
    what = "version" if status == 505 else "request"
    raise RequestError(status, f"client sent invalid {what} {_READING_LINE}", text)


def _agree(line: RequestLine, headers: RequestHeaders) -> None:
    """Judge line and block together (ngx_http_process_request_header). Raises RequestError."""
    status = 400
    if line.http > 10 and not headers.host:
        reason = 'client sent HTTP/1.1 request without "Host" header'
    elif line.http < 11 and headers.chunked:
        reason = 'client sent HTTP/1.0 request with "Transfer-Encoding" header'
    elif line.method in (b"CONNECT", b"TRACE"):
        status, reason = 405, f"client sent {line.method.decode()} method"
    else:
        return
    raise RequestError(status, reason, line.line, Head(line, headers, 0))
