"""Reading server-side includes: text and commands out of a page that comes in pieces (ngx_http_ssi_parse).

`<!--#name key="value" … -->`. What is not written like that is an error, which ends at the next `-->`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

OPENING = b"<!--#"
_SPACES = b" \r\n\t"
_NAME_LIMIT = 32  # bytes of a command's or a parameter's name
_DASH = 0x2D

IF, ELSE = 1, 2  # which branch a condition's commands may follow


@dataclass(frozen=True, slots=True)
class Kind:
    """A command's grammar. `after`: only inside a condition, in these branches (nginx's conditional)."""

    params: tuple[bytes, ...] = ()
    needed: tuple[bytes, ...] = ()
    after: int = 0
    ends_block: bool = False


KINDS = {
    b"include": Kind((b"virtual", b"file", b"wait", b"set", b"stub")),
    b"echo": Kind((b"var", b"default", b"encoding"), (b"var",)),
    b"config": Kind((b"errmsg", b"timefmt")),
    b"set": Kind((b"var", b"value"), (b"var", b"value")),
    b"if": Kind((b"expr",), (b"expr",)),
    b"elif": Kind((b"expr",), (b"expr",), IF),
    b"else": Kind(after=IF),
    b"endif": Kind(after=ELSE),
    b"block": Kind((b"name",), (b"name",)),
    b"endblock": Kind(ends_block=True),
}

Complain = Callable[[str], None]


@dataclass(slots=True)
class Command:
    """One command; `wrong` if it could not be read."""

    name: bytes = b""
    params: list[tuple[bytes, bytes]] = field(default_factory=list)
    wrong: bool = False

    def text(self) -> bytes:
        """As it is written."""
        params = b"".join([b' %b="%b"' % param for param in self.params])
        return OPENING + self.name + params + b" -->"


Item = bytes | Command


class Parser:
    """Yields text and commands. `value_limit`: bytes of a parameter's value. `complain` is told what is wrong."""

    __slots__ = ("complain", "held", "key", "name", "params", "quote", "state", "value", "value_limit", "wrong")

    def __init__(self, value_limit: int, complain: Complain) -> None:
        self.value_limit, self.complain = value_limit, complain
        self.held = b""  # what may be the beginning of a command
        self.state: Any = None  # None: in text; else the method that takes the next byte of a command
        self._begin()

    def _begin(self) -> None:
        self.name, self.key, self.value = bytearray(), bytearray(), bytearray()
        self.params: list[tuple[bytes, bytes]] = []
        self.quote = 0
        self.wrong = False

    def feed(self, data: bytes) -> Iterator[Item]:
        """Take a piece of page."""
        at, size = 0, len(data)
        if self.state is None and self.held:
            data, self.held = self.held + data, b""
            size = len(data)
        while at < size:
            if self.state is None:
                opening = data.find(OPENING, at)
                if opening < 0:
                    cut = _cut(data, at)
                    self.held = data[cut:]
                    if at < cut:
                        yield data[at:cut]
                    return
                if at < opening:
                    yield data[at:opening]
                at = opening + len(OPENING)
                self._begin()
                self.state = self._before_name
                continue
            at = self._command(data, at, size)
            if self.state is None:
                yield Command(bytes(self.name), self.params, self.wrong)

    def _command(self, data: bytes, at: int, size: int) -> int:
        state = self.state
        while at < size:
            state = state(data[at])
            at += 1
            if state is None:
                break
        self.state = state
        return at

    # each state takes a byte and names the next state

    def _before_name(self, char: int) -> Any:
        if char in _SPACES:
            return self._before_name
        self.name.append(char)
        return self._in_name

    def _in_name(self, char: int) -> Any:
        if char in _SPACES:
            return self._before_key
        if char == _DASH:
            return self._end
        if len(self.name) == _NAME_LIMIT:
            return self._error(f'the "{_shown(self.name)}{chr(char)}..." SSI command is too long')
        self.name.append(char)
        return self._in_name

    def _before_key(self, char: int) -> Any:
        if char in _SPACES:
            return self._before_key
        if char == _DASH:
            return self._end
        self.key, self.value = bytearray((char,)), bytearray()
        return self._in_key

    def _in_key(self, char: int) -> Any:
        if char in _SPACES:
            return self._before_equals
        if char == 0x3D:
            return self._before_value
        if char == _DASH:
            return self._unexpected(char, "after", "parameter")
        if len(self.key) == _NAME_LIMIT:
            name = _shown(self.name)
            return self._error(f'too long "{_shown(self.key)}{chr(char)}..." parameter in "{name}" SSI command')
        self.key.append(char)
        return self._in_key

    def _before_equals(self, char: int) -> Any:
        if char in _SPACES:
            return self._before_equals
        return self._before_value if char == 0x3D else self._unexpected(char, "after", "parameter")

    def _before_value(self, char: int) -> Any:
        if char in _SPACES:
            return self._before_value
        if char not in b"\"'":
            return self._unexpected(char, "before value of", "parameter")
        self.quote = char
        return self._in_value

    def _in_value(self, char: int) -> Any:
        if char == self.quote:
            return self._after_value
        return self._put(char, self._escaped if char == 0x5C else self._in_value)

    def _escaped(self, char: int) -> Any:
        return self._put(char, self._in_value)

    def _put(self, char: int, following: Any) -> Any:
        if len(self.value) == self.value_limit:
            value, key, name = _shown(self.value), _shown(self.key), _shown(self.name)
            return self._error(f'too long "{value}{chr(char)}..." value of "{key}" parameter in "{name}" SSI command')
        self.value.append(char)
        return following

    def _after_value(self, char: int) -> Any:
        self.params.append((bytes(self.key), bytes(self.value)))
        if char in _SPACES:
            return self._before_key
        if char == _DASH:
            return self._end
        value, key, name = _shown(self.value), _shown(self.key), _shown(self.name)
        return self._error(
            f'unexpected "{chr(char)}" symbol after "{value}" value of "{key}" parameter in "{name}" SSI command'
        )

    def _end(self, char: int) -> Any:
        return self._last if char == _DASH else self._stray(char)

    def _last(self, char: int) -> Any:
        return None if char == 0x3E else self._stray(char)

    def _stray(self, char: int) -> Any:
        return self._error(f'unexpected "{chr(char)}" symbol in "{_shown(self.name)}" SSI command')

    def _unexpected(self, char: int, where: str, what: str) -> Any:
        following = self._error(
            f'unexpected "{chr(char)}" symbol {where} "{_shown(self.key)}" {what} in "{_shown(self.name)}" SSI command'
        )
        return self._error_end if char == _DASH else following

    def _error(self, message: str) -> Any:
        self.complain(message)
        self.wrong = True
        return self._in_error

    def _in_error(self, char: int) -> Any:
        return self._error_end if char == _DASH else self._in_error

    def _error_end(self, char: int) -> Any:
        return self._error_last if char == _DASH else self._in_error

    def _error_last(self, char: int) -> Any:
        return None if char == 0x3E else self._in_error


def _cut(data: bytes, at: int) -> int:
    """Where a piece of text ends that is surely none of a command's beginning."""
    size = len(data)
    for length in range(min(len(OPENING) - 1, size - at), 0, -1):
        if data.endswith(OPENING[:length]):
            return size - length
    return size


def _shown(text: bytes | bytearray) -> str:
    return bytes(text).decode("utf-8", "surrogateescape")


def unescaped(text: bytes) -> bytes:
    r"""Take the backslash off \\, \', \" and \$; others stay, and a last one is lost."""
    if b"\\" not in text:
        return text
    made = bytearray()
    quoted = False
    for char in text:
        if not quoted and char == 0x5C:
            quoted = True
            continue
        if quoted and char not in b"\\'\"$":
            made.append(0x5C)
        quoted = False
        made.append(char)
    return bytes(made)


class ExpansionError(ValueError):
    """A text with variables is not written right."""


_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def expanded(text: bytes, value: Callable[[bytes], bytes | None]) -> bytes:
    """Put in the values of `$name` and `${name}`, and take escapes off the rest. Raises ExpansionError."""
    if b"$" not in text:
        return unescaped(text)
    parts: list[bytes] = []
    at, size = 0, len(text)
    while at < size:
        if text[at] == 0x24:
            name, at = _name(text, at + 1)
            parts.append(value(name.lower()) or b"")
            continue
        end = at
        while end < size and text[end] != 0x24:
            end += 2 if text[end] == 0x5C else 1
        parts.append(unescaped(text[at:end]))
        at = end
    return b"".join(parts)


def _name(text: bytes, at: int) -> tuple[bytes, int]:
    braced = text[at : at + 1] == b"{"
    start = end = at + braced
    while end < len(text) and text[end] in _WORD:
        end += 1
    name = text[start:end]
    if braced and start < len(text) and text[end : end + 1] != b"}":
        raise ExpansionError(f'the closing bracket in "{_shown(name)}" variable is missing')
    if not name:
        raise ExpansionError(f'invalid variable name in "{_shown(text)}"')
    return name, end + braced
