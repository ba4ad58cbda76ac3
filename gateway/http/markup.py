"""Rewrite the URLs of HTML and CSS while they stream by.

Both scanners are `Transform`s that give the same output however their input is cut: they decide on whole tokens only,
and hold back what may still become one. All bytes but the URLs pass unchanged. For encodings that contain ASCII.
Sources: the tokenizers of the HTML standard (section 13.2.5) and of CSS Syntax Level 3 (section 4).
"""

import re
from collections.abc import Callable

Link = Callable[[bytes], bytes]  # a URL as written, to the one to be written in its place

LONGEST = 1 << 20  # bytes; a longer tag, string or url() is passed on as it is
_RAW = frozenset(b"script style textarea title xmp iframe noembed noframes".split())  # elements that hold no tags
_LOADED = frozenset(  # kinds of <link> that fetch a file for this page; a canonical one names another page
    b"stylesheet icon preload prefetch manifest apple-touch-icon apple-touch-icon-precomposed mask-icon".split()
)
_DRAWN = frozenset(b"image use feimage".split())  # of SVG: their href fetches, that of <a> and <area> leads elsewhere
_FRAMES = frozenset(b"iframe frame".split())  # their src is a page of its own

_SPACE = re.compile(rb"[\t\n\f\r ]*")
_GAP = re.compile(rb"[\t\n\f\r /]*")
_TAG = re.compile(rb"</?([a-zA-Z][^\t\n\f\r />]*)")
_NAME = re.compile(rb"[^\t\n\f\r />][^\t\n\f\r />=]*")
_EQUALS = re.compile(rb"[\t\n\f\r ]*=[\t\n\f\r ]*")
_UNQUOTED = re.compile(rb"[^\t\n\f\r >]*")
_COMMENT_END = re.compile(rb"--!?>")
_CANDIDATE = re.compile(rb"[\t\n\f\r ,]*([^\t\n\f\r ,][^\t\n\f\r ]*)")

# Each branch begins with a literal, which lets the engine skip ahead: five times as fast as ignoring case.
_CSS = re.compile(
    rb"/\*|\\|\"|'|(?:u[rR][lL]\(|U[rR][lL]\()(?<![\w\-\\\x80-\xff]....)"
    rb"|@[iI][mM][pP][oO][rR][tT](?=[\t\n\f\r \"'/])",
    re.DOTALL,
)
_CSS_TAIL = len(b"@import")  # bytes at the end of a piece that may be the beginning of one of these
_BARE = re.compile(rb"[^\t\n\f\r \"'()\\]*")
_STRINGS = {quote: re.compile(rb"(?:[^%b\\\n]|\\.)*[%b\n]" % (quote, quote), re.DOTALL) for quote in (b'"', b"'")}

_Found = tuple[int, int, int] | None  # start and end of a URL, end of the token; None: more input must decide
_NO_URL = -1

Attribute = tuple[bytes, int, int]  # lower-case name, start and end of its value


def _tag_at(data: bytes, start: int) -> tuple[int, bytes, list[Attribute]] | None:
    """The tag that begins at `start`: where it ends, its name, its attributes. None if its end is not there yet."""
    opening, size = _TAG.match(data, start), len(data)
    if opening is None:
        return None
    at = opening.end()
    attributes: list[Attribute] = []
    while True:
        at = _GAP.match(data, at).end()  # type: ignore[union-attr]
        if at >= size:
            return None
        if data[at] == 0x3E:  # ">"
            return at + 1, opening[1].lower(), attributes
        name = _NAME.match(data, at)
        equals = _EQUALS.match(data, name.end())  # type: ignore[union-attr]
        if equals is None:
            at = name.end()  # type: ignore[union-attr]
            continue
        value = _value_at(data, equals.end())
        if value is None:
            return None
        attributes.append((name[0].lower(), value[0], value[1]))  # type: ignore[index]
        at = value[2]


def _value_at(data: bytes, at: int) -> _Found:
    quote = data[at : at + 1]
    if quote in (b'"', b"'"):
        end = data.find(quote, at + 1)
        return None if end < 0 else (at + 1, end, end + 1)
    end = _UNQUOTED.match(data, at).end()  # type: ignore[union-attr]
    return None if end >= len(data) else (at, end, end)


class Html:
    """Rewrites what an HTML page fetches: src, poster, srcset, href of <link> and SVG, and url() in styles.

    `rebase` is told the first <base href>, from where on relative URLs mean something else.
    """

    __slots__ = ("_based", "_css", "_held", "_link", "_raw", "_rebase", "_state")

    def __init__(self, link: Link, rebase: Callable[[bytes], None]) -> None:
        self._link, self._rebase = link, rebase
        self._held = b""
        self._based = False
        self._state = self._text
        self._raw = b""
        self._css: Css | None = None

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece of the page; returns what is decided."""
        return self._run(self._held + chunk, final=False)

    def flush(self) -> bytes:
        """An undecided token cannot be given out without deciding it."""
        return b""

    def finish(self) -> bytes:
        """The page has ended: an unfinished tag is none."""
        out = self._run(self._held, final=True)
        return out + (self._css.finish() if self._css is not None else b"")

    def _run(self, data: bytes, *, final: bool) -> bytes:
        at, size, out = 0, len(data), list[bytes]()
        while at < size:
            after = self._state(data, at, out, final)
            if after == at:
                break
            at = after
        self._held = data[at:]
        return b"".join(out)

    def _text(self, data: bytes, at: int, out: list[bytes], final: bool) -> int:
        start = data.find(b"<", at)
        if start != at:
            start = len(data) if start < 0 else start
            out.append(data[at:start])
            return start
        following = data[at + 1 : at + 2]
        if following in (b"!", b"?"):
            return self._declaration(data, at, out, final)
        if following == b"/" and len(data) > at + 2 and not data[at + 2 : at + 3].isalpha():
            self._state = self._until_bracket
            out.append(b"</")
            return at + 2
        if following.isalpha() or (following == b"/" and len(data) > at + 2):
            return self._tag(data, at, out, final)
        if final or following not in (b"", b"/"):
            out.append(b"<")
            return at + 1
        return at

    def _declaration(self, data: bytes, at: int, out: list[bytes], final: bool) -> int:
        if data.startswith(b"<!--", at):
            self._state = self._comment  # begins with the dashes: "<!-->" is a whole comment
        elif b"<!--".startswith(data[at : at + 4]) and not final:
            return at
        else:
            self._state = self._until_bracket
        out.append(data[at : at + 2])
        return at + 2

    def _comment(self, data: bytes, at: int, out: list[bytes], final: bool) -> int:
        end = _COMMENT_END.search(data, at)
        after = end.end() if end is not None else len(data) if final else max(at, len(data) - 3)
        if end is not None:
            self._state = self._text
        out.append(data[at:after])
        return after

    def _until_bracket(self, data: bytes, at: int, out: list[bytes], final: bool) -> int:
        end = data.find(b">", at)
        if end >= 0:
            self._state = self._text
        after = end + 1 if end >= 0 else len(data)
        out.append(data[at:after])
        return after

    def _tag(self, data: bytes, at: int, out: list[bytes], final: bool) -> int:
        found = _tag_at(data, at)
        if found is None and not final and len(data) - at <= LONGEST:
            return at
        if found is None or found[0] - at > LONGEST:
            out.append(b"<")
            return at + 1
        end, name, attributes = found
        if data[at + 1 : at + 2] == b"/":
            out.append(data[at:end])
            return end
        out.append(self._rewritten(data, at, end, name, attributes))
        if name in _RAW:
            self._raw, self._state = name, self._raw_text
            self._css = Css(self._link) if name == b"style" else None
        return end

    def _raw_text(self, data: bytes, at: int, out: list[bytes], final: bool) -> int:
        end = re.compile(rb"</" + re.escape(self._raw) + rb"(?=[\t\n\f\r />])", re.IGNORECASE).search(data, at)
        # what cannot be the beginning of the end tag yet may go
        after = end.start() if end is not None else len(data) if final else max(at, len(data) - len(self._raw) - 2)
        css, piece = self._css, data[at:after]
        out.append(piece if css is None else css.feed(piece))
        if end is not None:
            if css is not None:
                out.append(css.finish())
            self._css, self._state = None, self._text
            if after == at:
                return self._tag(data, at, out, final)
        return after

    def _rewritten(self, data: bytes, start: int, end: int, name: bytes, attributes: list[Attribute]) -> bytes:
        at, out = start, list[bytes]()
        values = {attribute: data[begin:stop] for attribute, begin, stop in reversed(attributes)}
        if name == b"base" and not self._based and b"href" in values:
            self._based = True
            self._rebase(values[b"href"])
        for attribute, begin, stop in attributes:
            rewrite = self._rewriter(name, attribute, values)
            if rewrite is not None:
                out += (data[at:begin], rewrite(data[begin:stop]))
                at = stop
        return b"".join([*out, data[at:end]])

    def _rewriter(self, name: bytes, attribute: bytes, values: dict[bytes, bytes]) -> Link | None:
        if attribute in (b"src", b"poster"):
            return None if name in _FRAMES else self._link
        if attribute in (b"srcset", b"imagesrcset"):
            return self._set
        if attribute == b"style":
            return self._style
        if attribute in (b"href", b"xlink:href"):
            kinds = values.get(b"rel", b"").lower().split() if name == b"link" else ()
            return self._link if name in _DRAWN or not _LOADED.isdisjoint(kinds) else None
        return None

    def _style(self, value: bytes) -> bytes:
        css = Css(self._link)
        return css.feed(value) + css.finish()

    def _set(self, value: bytes) -> bytes:
        """`srcset`: URLs, each with a descriptor or none, between commas (HTML standard, section 4.8.4.2.1)."""
        at, out = 0, list[bytes]()
        while (found := _CANDIDATE.match(value, at)) is not None:
            url = found[1].rstrip(b",")
            begin = found.start(1)
            out += (value[at:begin], self._link(url))
            stop = begin + len(url)
            comma = value.find(b",", stop)
            at = stop if len(url) < len(found[1]) or comma < 0 else comma
            out.append(value[stop:at])
            if comma < 0:
                break
        return b"".join([*out, value[at:]])


class Css:
    """Rewrites url() and the strings of @import."""

    __slots__ = ("_before", "_held", "_in_comment", "_link")

    def __init__(self, link: Link) -> None:
        self._link = link
        self._held = b""
        self._before = b""  # the byte before: "my-url(" is no url(
        self._in_comment = False

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece of the style sheet; returns what is decided."""
        return self._run(chunk, final=False)

    def flush(self) -> bytes:
        """An undecided token cannot be given out without deciding it."""
        return b""

    def finish(self) -> bytes:
        """The style sheet has ended."""
        return self._run(b"", final=True)

    def _run(self, chunk: bytes, *, final: bool) -> bytes:
        at, out = len(self._before), list[bytes]()
        data = self._before + self._held + chunk
        size = len(data)
        while at < size:
            after = self._comment(data, at, out, final) if self._in_comment else self._token(data, at, out, final)
            if after < 0:
                break
            at = after
        self._before, self._held = data[max(0, at - 1) : at], data[at:]
        return b"".join(out)

    def _comment(self, data: bytes, at: int, out: list[bytes], final: bool) -> int:
        end = data.find(b"*/", at)
        if end >= 0:
            self._in_comment = False
        after = end + 2 if end >= 0 else len(data) if final else len(data) - 1
        out.append(data[at:after])
        return after if after > at else -1

    def _token(self, data: bytes, at: int, out: list[bytes], final: bool) -> int:
        """Pass on what comes before the next token, or the token itself; -1 if more input must decide."""
        found = _CSS.search(data, at)
        start = found.start() if found is not None else len(data) if final else max(at, len(data) - _CSS_TAIL)
        if start > at or found is None:
            out.append(data[at:start])
            return start if start > at else -1
        word = found[0].lower()
        if word == b"/*":
            self._in_comment = True
            out.append(word)
            return found.end()
        url = self._url_of(word, data, found.end())
        end = len(data) if url is None else url[2]
        if end - at > LONGEST or (url is None and final):
            out.append(found[0])
            return found.end()
        if url is None:
            return -1
        self._pass(data, at, url, out)
        return end

    def _pass(self, data: bytes, at: int, url: tuple[int, int, int], out: list[bytes]) -> None:
        begin, stop, end = url
        value = data[begin:stop] if begin != _NO_URL else b"\\"
        if b"\\" in value:  # none, or one with escapes
            out.append(data[at:end])
        else:
            out += (data[at:begin], self._link(value), data[stop:end])

    def _url_of(self, word: bytes, data: bytes, at: int) -> _Found:
        """Where the URL of a token lies, and where the token ends; `at` is where its word ends."""
        if word == b"\\":
            return None if at >= len(data) else (_NO_URL, _NO_URL, at + 1)
        if word in (b'"', b"'"):
            end = _STRINGS[word].match(data, at)
            return None if end is None else (_NO_URL, _NO_URL, end.end())
        begin = _SPACE.match(data, at).end()  # type: ignore[union-attr]
        if begin >= len(data):
            return None
        quote = data[begin : begin + 1]
        if quote in (b'"', b"'"):
            end = _STRINGS[quote].match(data, begin + 1)
            if end is None:
                return None
            if data[end.end() - 1 : end.end()] == b"\n":
                return _NO_URL, _NO_URL, end.end()
            return begin + 1, end.end() - 1, end.end()
        return (_NO_URL, _NO_URL, at) if word == b"@import" else _bare_url(data, begin)


def _bare_url(data: bytes, begin: int) -> _Found:
    stop = _BARE.match(data, begin).end()  # type: ignore[union-attr]
    close = _SPACE.match(data, stop).end()  # type: ignore[union-attr]
    if close >= len(data):
        return None
    return (begin, stop, close + 1) if data[close] == 0x29 else (_NO_URL, _NO_URL, stop)
