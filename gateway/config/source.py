"""Read configuration files into untyped statements: crossplane's tokens, nginx's rules about what they mean.

A mistake of syntax does not end the reading with an exception: the statement after the last good one is a `Broken`, and
binding raises its message when it gets there. So the first mistake of a file is the one reported, as in nginx, which
reads and binds in one go.
"""

import glob
import importlib.util
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import length_hint
from typing import Protocol

from gateway.config.schema import ConfigError, Paths, Place, Statement


def _crossplane() -> Callable[[list[Iterator[str]]], Iterator[tuple[str, int, bool]]]:
    """crossplane's lexer, without the package around it: tables and a JSON writer that cost every process 0.5 MB.

    Its public lex() opens the file itself and would lose bytes that are no UTF-8. Its own Lua lexer miscounts braces
    after escaped quotes, in long brackets and in long comments, and is not registered without the package.
    """
    spec = importlib.util.find_spec("crossplane")
    if spec is None:
        raise ImportError("crossplane is not installed: pip install crossplane")
    whole = sys.modules.get("crossplane")
    if whole is None:
        sys.modules["crossplane"] = importlib.util.module_from_spec(spec)
    try:
        lexer = importlib.import_module("crossplane.lexer")
    finally:
        if whole is None:
            del sys.modules["crossplane"]
    lexer.EXTERNAL_LEXERS.clear()
    return lexer._lex_file_object  # type: ignore[no-any-return]


_lex_file_object = _crossplane()

BUFFER = 4096  # nginx's NGX_CONF_BUFFER, bytes: every word must be shorter
LUA_SUFFIX = "_by_lua_block"
DEEPEST = 300  # blocks in one another: what is read, bound and built recursively must not exhaust the interpreter

# What means something to crossplane but nothing to nginx is hidden in the private use area while crossplane reads: in a
# word, braces (`${name}`, `a}b`) and ASCII white space other than space, tab, CR and LF. Only words are touched.
_HIDE = re.compile(
    r"""(?P<word>(?:[^ \t\r\n;{}"'#\\$]|\\.|\$\{*)(?:[^ \t\r\n;{\\$]|\\.|\$\{*)*)
      | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | \#[^\n]*""",
    re.DOTALL | re.VERBOSE,
)
_HIDDEN = {ord(c): 0xE000 + ord(c) for c in "{}\x0b\x0c\x1c\x1d\x1e\x1f"}
_DOLLAR = chr(0xE000 + ord("$"))
_SHOWN = {0xE000 + code: code for code in (*_HIDDEN, ord("$"))}
_OPENING = re.compile(r"[^;{}]*\{")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_ESCAPE = re.compile(r"""\\(["'\\trn])""")
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n"}
_SPECIAL = frozenset("{};")
_AFTER_QUOTE = frozenset(["", *" \t\r\n;{)"])

# The pieces of Lua in which a brace does not count, those in which it does, and anything else.
_LUA = re.compile(
    r"""\{ | \}
      | (?:--)?\[(?P<level>=*)\[.*?(?:\](?P=level)\]|\Z)
      | --[^\n]*
      | "(?:\\.|[^"\\\n])*"
      | '(?:\\.|[^'\\\n])*'
      | [^{}\-\["']+ | .""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class CommandLine(Place):
    """The place of directives given with `-g`; nginx prints no line for them."""

    def __str__(self) -> str:
        return self.file


@dataclass(frozen=True, slots=True)
class Broken(Statement):
    """Where reading had to stop; `args` holds the message."""


class Files(Protocol):
    """Where files are read from: the disk, unless a check reads a dump, or passes over what is not there."""

    def names(self, pattern: str) -> list[str]:
        """The files that a name with wildcards stands for, sorted."""

    def data(self, name: str) -> bytes:
        """What a file holds. Raises OSError."""


class Disk:
    """The `Files` of a server."""

    def names(self, pattern: str) -> list[str]:
        """See `Files`."""
        return sorted(glob.glob(pattern))

    def data(self, name: str) -> bytes:
        """See `Files`."""
        with open(name, "rb") as file:
            return file.read()


@dataclass(slots=True)
class Source:
    """What was read: all statements in order, and each file with its bytes, once, in the order first read."""

    statements: tuple[Statement, ...] = ()
    files: list[tuple[str, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    quoted: bool = False
    special: bool = False  # one of `{`, `}`, `;` with its meaning


class _SyntaxError(Exception):
    """A mistake of syntax at a line of the file being read."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message, self.line = message, line


def read(file: str, paths: Paths, extra: str = "", files: Files | None = None) -> Source:
    """Read a configuration file and what it includes; `extra` is the text of `-g`, taken before it.

    `file` is opened as given. Raises ConfigError if it cannot be read; any other mistake becomes a `Broken` statement.
    """
    source = Source()
    reader = _Reader(source, paths, files or Disk())
    statements: list[Statement] = []
    if extra:
        statements += reader.parsed(extra.encode("utf-8", "surrogateescape"), CommandLine("command line", 0))
    if not reader.stopped:
        try:
            data = reader.load(file)
        except OSError as error:
            raise ConfigError(_failed(file, error)) from None
        statements += reader.parsed(data, Place(file, 1))
    source.statements = tuple(statements)
    return source


def broken(statement: Statement) -> Broken | None:
    """The mistake with which a statement ends, if reading stopped inside it."""
    while not isinstance(statement, Broken):
        if not statement.block:
            return None
        statement = statement.block[-1]
    return statement


def _failed(name: str, error: OSError) -> str:
    call = "pread" if isinstance(error, IsADirectoryError) else "open"
    return f'{call}() "{name}" failed ({error.errno}: {os.strerror(error.errno or 0)})'


class _Reader:
    """The reading of one configuration: what was seen, the files open right now, whether a mistake was met."""

    def __init__(self, source: Source, paths: Paths, files: Files) -> None:
        self.source, self.paths, self.files = source, paths, files
        self.open: list[str] = []
        self.stopped = False
        self.depth = 0

    def load(self, name: str) -> bytes:
        data = self.files.data(name)
        if all(name != known for known, _ in self.source.files):
            self.source.files.append((name, data))
        return data

    def parsed(self, data: bytes, start: Place) -> list[Statement]:
        """The statements of one file (or of `-g`); the last is a `Broken` if there is a mistake."""
        self.open.append(start.file)
        statements: list[Statement] = []
        self.fill(statements, _tokens(data.decode("ascii", "surrogateescape")), start, inner=False)
        self.open.pop()
        return statements

    def fill(self, into: list[Statement], tokens: Iterator[_Token], start: Place, *, inner: bool) -> None:
        """Add the statements of a block, or of a whole file, up to its end or the first mistake."""
        try:
            words: list[_Token] = []
            for token in tokens:
                if not token.special:
                    words.append(token)
                elif _ends(token, words, inner):
                    return
                else:
                    into.extend(self.statements(words, token, tokens, start))
                    words = []
                    if self.stopped:
                        return
        except _SyntaxError as stop:
            message = stop.message
            if isinstance(start, CommandLine):
                message = message.replace('file, expecting ";" or "}"', 'parameter, expecting ";"')
            into.append(self.mistake(message, _at(start, stop.line)))

    def mistake(self, message: str, place: Place) -> Broken:
        self.stopped = True
        return Broken("", (message,), None, place, self.paths)

    def statements(self, words: list[_Token], end: _Token, tokens: Iterator[_Token], start: Place) -> list[Statement]:
        """The statement made of `words` and, after `{`, of the block that follows; or what it includes."""
        name, args = words[0].text, tuple(word.text for word in words[1:])
        place = _at(start, end.line)
        if end.text == "{" and isinstance(start, CommandLine):
            return [self.mistake("block directives are not supported in -g option", place)]
        if name == "include":
            return self.included(args, place, block=end.text == "{")
        if name.endswith(LUA_SUFFIX):
            if end.text != "{":
                return [self.mistake(f'directive "{name}" has no opening "{{"', place)]
            body = next(tokens)
            return [Statement(name, (*args, body.text), None, _at(start, body.line), self.paths)]
        if end.text == ";":
            return [Statement(name, args, None, place, self.paths)]
        if self.depth == DEEPEST:
            return [self.mistake(f"blocks are nested more than {DEEPEST} deep, remove some", place)]
        block: list[Statement] = []
        self.depth += 1
        self.fill(block, tokens, start, inner=True)
        self.depth -= 1
        return [Statement(name, args, tuple(block), place, self.paths)]

    def included(self, args: tuple[str, ...], place: Place, *, block: bool) -> list[Statement]:
        """The statements of all files that an `include` names."""
        if block:
            return [self.mistake('directive "include" is not terminated by ";"', place)]
        if len(args) != 1:
            return [self.mistake('invalid number of arguments in "include" directive', place)]
        pattern = args[0] if args[0].startswith("/") else self.paths.conf_prefix + args[0]
        names = self.files.names(pattern) if re.search(r"[*?\[]", pattern) else [pattern]
        statements: list[Statement] = []
        for name in names:
            if name in self.open:  # nginx would recurse until it crashes
                return [*statements, self.mistake(f'"{name}" includes itself', place)]
            try:
                data = self.load(name)
            except OSError as error:
                return [*statements, self.mistake(_failed(name, error), place)]
            statements += self.parsed(data, Place(name, 1))
            if self.stopped:
                break
        return statements


def _at(start: Place, line: int) -> Place:
    return start if isinstance(start, CommandLine) else Place(start.file, line)


def _ends(token: _Token, words: list[_Token], inner: bool) -> bool:
    """Judge a special token as nginx does; True if it closes the block being read."""
    if token.text == "}":
        if words or not inner:
            raise _SyntaxError('unexpected "}"', token.line)
        return True
    if token.text == "":
        if words:
            raise _SyntaxError('unexpected end of file, expecting ";" or "}"', token.line)
        if inner:
            raise _SyntaxError('unexpected end of file, expecting "}"', token.line)
        return True
    if not words:
        raise _SyntaxError(f'unexpected "{token.text}"', token.line)
    return False


def _hidden(text: str) -> str:
    """The text as crossplane is to see it, of the same length."""
    pieces: list[str] = []
    at = 0
    while match := _HIDE.search(text, at):
        found = match.group()
        pieces += (text[at : match.start()], found)
        at = match.end()
        if not match["word"]:
            continue
        pieces[-1] = found.translate(_HIDDEN)
        if found.endswith("\\$"):  # crossplane would take "\\${" for a variable
            pieces[-1] = pieces[-1][:-1] + _DOLLAR
        if found.endswith(LUA_SUFFIX) and (opening := _OPENING.match(text, at)):
            try:
                end = _lua_end(text, opening.end(), 0)
            except _SyntaxError:
                break
            pieces.append(text[at:end])
            at = end
    return "".join([*pieces, text[at:]])


def _utf8(raw: str) -> str:
    """UTF-8 as text; bytes that are none stay surrogates."""
    return raw if raw.isascii() else raw.encode("ascii", "surrogateescape").decode("utf-8", "surrogateescape")


def _word(raw: str) -> str:
    """A word as text, without its escapes."""
    raw = raw if raw.isascii() else _utf8(raw.translate(_SHOWN))
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), raw) if "\\" in raw else raw


def _tokens(text: str) -> Iterator[_Token]:
    """nginx's tokens of a text, the last a special one without text. A Lua block is one quoted token after its `{`.

    Raises _SyntaxError for a mistake. crossplane takes its characters one by one from `rest`, so what is left of `rest`
    tells where the token just given ended.
    """
    rest = iter(_hidden(text) + "\n")  # crossplane gives a word only once it has seen what ends it
    size, position, skipped = len(text) + 1, 0, 0
    first, lua = True, False
    for raw, line, quoted in _lex_file_object([rest]):
        position = size - length_hint(rest)
        line += skipped
        if not quoted and raw in _SPECIAL:
            yield _Token(raw, line, special=True)
            if lua and raw == "{":
                end = _lua_end(text, position, line)
                lines = text.count("\n", position, end)
                skipped += lines
                deque(islice(rest, end - position), 0)
                yield _Token(_utf8(text[position : end - 1]), line + lines, quoted=True)
                position = end
            first, lua = True, False
        elif quoted or raw[0] != "#":
            _check_word(text, position, raw, line, quoted=quoted)
            yield _Token(_word(raw), line, quoted)
            first, lua = False, lua or (first and raw.endswith(LUA_SUFFIX))
    _check_tail(text, position)
    yield _Token("", text.count("\n") + 1, special=True)


def _check_word(text: str, end: int, raw: str, line: int, *, quoted: bool) -> None:
    """Refuse overlong words, and quoted words that are not followed by what may end a word."""
    if len(raw) >= BUFFER and quoted:
        raise _too_long(text[end - 1], line)
    if len(raw) >= BUFFER - quoted:
        raise _SyntaxError(f'too long parameter "{raw[:10]}..." started', line)
    if quoted and text[end : end + 1] not in _AFTER_QUOTE:
        raise _SyntaxError(f'unexpected "{text[end]}"', text.count("\n", 0, end) + 1)


def _check_tail(text: str, end: int) -> None:
    """Refuse a quote that is still open at the end of the file: crossplane says nothing about it."""
    tail = text[_BLANK.match(text, end).end() :]  # type: ignore[union-attr]  # it matches always
    if len(tail) > BUFFER:
        raise _too_long(tail[0], text.count("\n", 0, len(text) - len(tail)) + 1)
    if tail:
        raise _SyntaxError('unexpected end of file, expecting ";" or "}"', text.count("\n") + 1)


def _too_long(quote: str, line: int) -> _SyntaxError:
    return _SyntaxError(f'too long parameter, probably missing terminating "{quote}" character', line)


def _lua_end(text: str, start: int, line: int) -> int:
    """The position after the brace that closes the Lua block whose text begins at `start`."""
    depth, last = 1, start
    for match in _LUA.finditer(text, start):
        piece, level = match[0], match["level"]
        if piece in "{}":
            depth += 1 if piece == "{" else -1
            last = match.end()
            if not depth:
                return last
        elif level is not None and not piece.endswith(f"]{level}]"):
            message = (
                f'Lua code block missing the closing long bracket "]{level}]", the inlined Lua code may be too long'
            )
            raise _SyntaxError(message, line + text.count("\n", start, match.start()))
    message = "unexpected end of file, expecting terminating characters for lua code block"
    raise _SyntaxError(message, line + text.count("\n", start, last))
