"""A page with server-side includes, as the stream of what it becomes (ngx_http_ssi_filter_module).

Pages that a request includes share its variables, blocks and captures; time format, error message and encoding are a
page's own.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from gateway import log
from gateway.http.engine import INSTEAD
from gateway.http.escape import escape_html
from gateway.http.message import Getter, HttpError, Request, Response, Stream
from gateway.http.report import report
from gateway.http.ssi import ELSE, IF, KINDS, Command, ExpansionError, Item, Kind, Parser, expanded
from gateway.http.streams import Joined, collected
from gateway.http.subrequest import Child, made, target_of
from gateway.pattern import MatchError, Pattern, PatternError

TIMEFMT = "%A, %d-%b-%Y %H:%M:%S %Z"
_ERROR = b"[an error occurred while processing the directive]"
_NONE = b"(none)"
_SHARED = "ssi shared"
_MOST_PARAMS = 16
_LEFT = re.compile(rb"[A-Za-z0-9${}_\"']*")
# ngx_escape_uri, NGX_ESCAPE_HTML
_URL_FREE = bytes(code for code in range(0x21, 0x7F) if code not in b"\"#%'<>\\^`{|}")
_URL = [bytes((code,)) if code in _URL_FREE else b"%%%02X" % code for code in range(256)]


class CommandError(Exception):
    """A command that cannot be carried out; the text is what nginx logs, "" if that was logged already."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a location gives its pages."""

    find: Callable[[bytes], Getter | None]  # a variable by its name
    silent: bool
    value_limit: int


@dataclass(slots=True)
class Shared:
    """What all pages of one request share."""

    variables: dict[bytes, bytes] = field(default_factory=dict)
    blocks: list[tuple[bytes, list[bytes]]] = field(default_factory=list)
    captures: tuple[bytes, ...] = ()


Params = dict[bytes, bytes]


class Page:
    """See the module. A `Splice`, and the `Stream` that it puts in the body's place."""

    def __init__(self, request: Request, response: Response, around: Surroundings) -> None:
        self.request, self.around, self.response = request, around, response
        self.body: Stream = None  # type: ignore[assignment]  # set by `splice`
        self.parser = Parser(around.value_limit, lambda message: report(request, log.ERROR, message))
        self.items: Iterator[Item] | None = None  # what is left to do of the piece that was read last
        self.queue = Joined()  # what is to be given out
        self.ended = self.waiting = False
        self.timefmt, self.errmsg, self.encoding = TIMEFMT, _ERROR, b"entity"
        # conditions and blocks
        self.output, self.chosen, self.branch, self.in_block = True, False, 0, False
        shared = request.main.note(_SHARED)
        if shared is None:
            shared = Shared()
            request.main.keep(_SHARED, shared)
        self.shared: Shared = shared

    # --- the stream

    def splice(self, body: Stream) -> Stream:
        """Take the page as it is written."""
        self.body = body
        return self

    async def read(self) -> bytes:
        """The next bytes of the page as it becomes."""
        while True:
            data = await self.queue.read()
            if data or self.ended:
                return data
            await self._advance()

    async def prepare(self) -> None:
        """Read up to the first output: what fails before it leaves the client without a head, as in nginx."""
        data = await self.read()
        if data:
            self.queue.items.appendleft(data)

    async def _advance(self) -> None:
        """Work through a piece of the page, or up to an include that is waited for."""
        if self.items is None:
            data = await self.body.read()
            if not data:
                self.ended = True
                return
            self.items = self.parser.feed(data)
        for item in self.items:
            if isinstance(item, bytes):
                self._text(item)
            else:
                self._command(item)
                if self.waiting:
                    self.waiting = False
                    return
        self.items = None

    def close(self) -> None:
        """The reader has left."""
        self.ended = True
        self.queue.close()
        self.body.close()

    # --- text and commands

    def _text(self, text: bytes) -> None:
        if self.output:
            self.queue.add(text)
        elif self.in_block:
            self.shared.blocks[-1][1].append(text)

    def _command(self, command: Command) -> None:
        try:
            if command.wrong:
                raise CommandError
            kind = self._wanted(command)
            if kind is not None:
                params = self._params(command, kind)
                getattr(self, "_do_" + command.name.decode())(params)
        except (CommandError, ExpansionError) as error:
            if str(error):
                report(self.request, log.ERROR, str(error))
            if not self.around.silent:
                self.queue.add(self.errmsg)

    def _wanted(self, command: Command) -> Kind | None:
        """The command's grammar, if it is to be carried out here. Raises CommandError."""
        kind = KINDS.get(command.name)
        if kind is None:
            if self.output:
                raise CommandError(f'invalid SSI command: "{_shown(command.name)}"')
            return None
        if not self.output and not kind.ends_block:
            if self.in_block:
                self.shared.blocks[-1][1].append(command.text())
                return None
            if not kind.after:
                return None
        if kind.after and (not self.branch or self.branch > kind.after):
            raise CommandError(f'invalid context of SSI command: "{_shown(command.name)}"')
        return kind

    def _params(self, command: Command, kind: Kind) -> Params:
        name = _shown(command.name)
        if len(command.params) > _MOST_PARAMS:
            raise CommandError(f'too many SSI command parameters: "{name}"')
        found: Params = {}
        for key, value in command.params:
            if key not in kind.params:
                raise CommandError(f'invalid parameter name: "{_shown(key)}" in "{name}" SSI command')
            if key in found:
                raise CommandError(f'duplicate "{_shown(key)}" parameter in "{name}" SSI command')
            found[key] = value
        for key in kind.needed:
            if key not in found:
                raise CommandError(f'mandatory "{_shown(key)}" parameter is absent in "{name}" SSI command')
        return found

    def _value(self, name: bytes) -> bytes | None:
        """A variable: a capture, one that a page set, or one of the request."""
        captures = self.shared.captures
        if len(name) == 1 and name.isdigit() and int(name) < len(captures):
            return captures[int(name)]
        if name in self.shared.variables:
            return self.shared.variables[name]
        get = self.around.find(name)
        return None if get is None else get(self.request)

    def _do_echo(self, params: Params) -> None:
        value = self._value(params[b"var"].lower())
        if value is None:
            value = params.get(b"default", _NONE)
        if not value:
            return
        encoding = params.get(b"encoding")
        if encoding in (b"none", b"url", b"entity"):
            self.encoding = encoding
        elif encoding is not None:
            report(self.request, log.ERROR, f'unknown encoding "{_shown(encoding)}" in the "echo" command')
        if self.encoding == b"url":
            value = b"".join([_URL[code] for code in value])
        elif self.encoding == b"entity":
            value = escape_html(value)
        self.queue.add(value)

    def _do_config(self, params: Params) -> None:
        if b"timefmt" in params:
            self.timefmt = _shown(params[b"timefmt"])
        self.errmsg = params.get(b"errmsg", self.errmsg)

    def _do_set(self, params: Params) -> None:
        self.shared.variables[params[b"var"].lower()] = expanded(params[b"value"], self._value)

    def _do_block(self, params: Params) -> None:
        self.shared.blocks.append((params[b"name"], []))
        self.output, self.in_block = False, True

    def _do_endblock(self, _params: Params) -> None:
        self.output, self.in_block = True, False

    # --- conditions

    def _do_if(self, params: Params) -> None:
        if self.branch:
            raise CommandError('the "if" command inside the "if" command')
        self._do_elif(params)

    def _do_elif(self, params: Params) -> None:
        if self.chosen:
            self.output = False
            return
        self.output = self.chosen = self._holds(params[b"expr"])
        self.branch = IF

    def _do_else(self, _params: Params) -> None:
        self.output = not self.chosen
        self.branch = ELSE

    def _do_endif(self, _params: Params) -> None:
        self.output, self.chosen, self.branch = True, False, 0

    def _holds(self, expr: bytes) -> bool:
        """`$name`, `text = text`, `text != text`, `text = /pattern/`. Raises CommandError."""
        match = _LEFT.match(expr)
        assert match is not None
        left, rest = expanded(match[0].lower(), self._value), expr[match.end() :].lstrip(b" ")
        if not rest:
            return bool(left)
        negative = rest.startswith(b"!=")
        if not negative and not rest.startswith(b"="):
            raise CommandError(f'invalid expression in "{_shown(expr)}"')
        right = rest[1 + negative :].lstrip(b" ")
        if len(right) > 1 and right.startswith(b"/"):
            if not right.endswith(b"/"):
                raise CommandError(f'invalid expression in "{_shown(expr)}"')
            return self._matches(expanded(right[1:-1], self._value), left) is not negative
        if len(right) > 2 and right.startswith(b"\\/"):
            right = right[1:]
        return (expanded(right, self._value) == left) is not negative

    def _matches(self, source: bytes, subject: bytes) -> bool:
        try:
            pattern = _pattern(source)
            groups = pattern.search(subject)
        except (PatternError, MatchError) as error:
            raise CommandError(str(error)) from None
        if groups is None:
            return False
        last = max(index for index, group in enumerate(groups) if group is not None)
        self.shared.captures = tuple(group or b"" for group in groups[: last + 1])
        for name, index in pattern.names.items():
            self.shared.variables[name.lower().encode()] = groups[index] or b""
        return True

    # --- includes

    def _do_include(self, params: Params) -> None:
        text, wait = self._included(params)
        stub, into = params.get(b"stub"), params.get(b"set")
        uri = expanded(text, self._value)
        if not uri.startswith(b"/"):
            uri = self.request.uri[: self.request.uri.rfind(b"/") + 1] + uri
        target = target_of(uri)
        if target is None:
            raise CommandError(f'unsafe URI "{_shown(uri)}" was detected')
        try:
            sub = made(self.request, *target)
        except HttpError:
            raise CommandError from None
        if stub is not None:
            self.queue.add(Stubbed(sub, self._stub(stub), self.response.content_type))
        elif into is not None:
            self.queue.add(Kept(Child(sub), into.lower(), self.shared))
        else:
            self.queue.add(Child(sub))
        self.waiting = wait or into is not None

    def _included(self, params: Params) -> tuple[bytes, bool]:
        """What is included, and whether it is waited for. Raises CommandError."""
        uri, file, wait = params.get(b"virtual"), params.get(b"file"), params.get(b"wait")
        if uri is not None and file is not None:
            raise CommandError(f'inclusion may be either virtual="{_shown(uri)}" or file="{_shown(file)}"')
        if b"set" in params and b"stub" in params:
            raise CommandError('"set" and "stub" cannot be used together in "include" SSI command')
        if uri is None:
            if file is None:
                raise CommandError('no parameter in "include" SSI command')
            if wait is not None:
                raise CommandError(f'"wait" cannot be used with file="{_shown(file)}"')
            return file, True
        if wait is not None and wait.lower() not in (b"yes", b"no"):
            raise CommandError(f'invalid value "{_shown(wait)}" in the "wait" parameter')
        return uri, wait is not None and wait.lower() == b"yes"

    def _stub(self, name: bytes) -> bytes:
        for known, parts in self.shared.blocks:
            if known == name:
                return b"".join(parts)
        raise CommandError(f'"stub"="{_shown(name)}" for "include" not found')


class Stubbed:
    """An include with a block that stands in for an error or an empty answer."""

    __slots__ = ("block", "child", "content_type")

    def __init__(self, sub: Request, block: bytes, content_type: bytes | None) -> None:
        self.block: bytes = block
        self.content_type = content_type
        sub.keep(INSTEAD, self._instead)  # then the block is itself a page of that location
        self.child = Child(sub)

    def _instead(self) -> Response:
        block, self.block = self.block, b""
        return Response(200, block, self.content_type)

    async def read(self) -> bytes:
        """The next bytes of the answer, or of the block."""
        data = await self.child.read()
        if data:
            self.block = b""
            return data
        block, self.block = self.block, b""
        return block

    def close(self) -> None:
        """The reader has left."""
        self.child.close()


class Kept:
    """An include whose answer becomes a variable; it gives out nothing."""

    __slots__ = ("child", "name", "shared")

    def __init__(self, child: Child, name: bytes, shared: Shared) -> None:
        self.child, self.name, self.shared = child, name, shared
        shared.variables.setdefault(name, b"")

    async def read(self) -> bytes:
        """Wait for it. Raises OSError for an answer beyond the limit: nginx gives the request up then."""
        response = await self.child.head()
        limit = self.child.request.location.settings.subrequest_output_buffer_size
        try:
            value = await collected(response, limit)
        except OverflowError:
            report(self.child.request, log.ERROR, f"too big subrequest response: more than {limit} bytes")
            raise OSError("an included answer is larger than subrequest_output_buffer_size") from None
        if response.status < 300 and value:
            self.shared.variables[self.name] = value
        return b""

    def close(self) -> None:
        """The reader has left."""
        self.child.close()


@lru_cache(maxsize=256)
def _pattern(source: bytes) -> Pattern:
    return Pattern(source, False)


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
