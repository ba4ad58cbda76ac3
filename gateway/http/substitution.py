"""The replacement of a `rewrite`: a text whose captures are escaped, and which is split into path and arguments.

Follows ngx_http_rewrite and ngx_http_script_regex_{start,end}_code. Captures come from a decoded path: where they end
up in a query or in a Location header nginx escapes them again, if the request's path had escapes or a plus sign at all.
"""

import re
from collections.abc import Callable

from gateway.config.schema import Place, Text
from gateway.http.message import Getter, Request
from gateway.http.plan import Variable
from gateway.http.text import split
from gateway.http.uri import escape_args

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_QUERY = re.compile(rb"\?|%3[Ff]")


class Substitution:
    """A compiled replacement; `redirects` if it becomes a Location header."""

    __slots__ = ("keeps", "query", "sections")

    def __init__(self, text: Text, redirects: bool, variable: Callable[[str, Place | None], Variable]) -> None:
        raw = text.raw
        self.keeps = not raw.endswith("?")  # a last "?" drops the request's own arguments
        sections: list[list[bytes | Getter]] = [[]]
        for part in split(raw if self.keeps else raw[:-1], text.place):
            if isinstance(part, bytes):
                first, *others = part.split(b"?")
                if redirects:
                    sections[-1].append(part)
                    continue
                sections[-1].append(first)
                sections += [[other] for other in others]
            elif part.isdigit():
                sections[-1].append(_escaped(int(part)) if redirects or len(sections) > 1 else _plain(int(part)))
            else:
                sections[-1].append(variable(part, text.place).get)
        self.sections = [tuple(section) for section in sections]
        self.query = b"&" if "?" in raw else b"?"  # what joins the request's own arguments

    def target(self, request: Request) -> tuple[bytes, bytes]:
        """The new path and arguments. Of several "?" the last is the one that counts; nginx drops the others."""
        *head, tail = [_joined(section, request) for section in self.sections]
        if not head:
            return tail, request.args if self.keeps else b""
        if self.keeps and request.args:
            tail += b"&" + request.args
        return b"".join(head), tail

    def location(self, request: Request) -> bytes:
        """The new Location."""
        value = unescape_redirect(_joined(self.sections[0], request))
        if self.keeps and request.args:
            value += self.query + request.args
        return value


def _joined(section: tuple[bytes | Getter, ...], request: Request) -> bytes:
    return b"".join([part if isinstance(part, bytes) else part(request) or b"" for part in section])


def _plain(index: int) -> Getter:
    return lambda request: request.captures[index] if index < len(request.captures) else None


def _escaped(index: int) -> Getter:
    def get(request: Request) -> bytes | None:
        value = request.captures[index] if index < len(request.captures) else None
        if not value:
            return None
        path = request.main.target.partition(b"?")[0]
        return escape_args(value) if b"%" in path or b"+" in path else value

    return get


def unescape_redirect(value: bytes) -> bytes:
    """Undo needless escapes before the query: ngx_unescape_uri, NGX_UNESCAPE_REDIRECT."""
    if b"%" not in value:
        return value
    query = _QUERY.search(value)
    if query is None:
        return _ESCAPE.sub(_unescaped, value)
    return _ESCAPE.sub(_unescaped, value[: query.start()]) + b"?" + value[query.end() :]


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = int(match[1], 16)
    return bytes((code,)) if 0x25 < code < 0x7F else match[0]
