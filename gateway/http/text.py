"""Values with variables in them ("complex values"), compiled at load to one call or none."""

from collections.abc import Callable

from gateway.config.args import encode
from gateway.config.schema import ConfigError, Place
from gateway.http.message import Getter, Request
from gateway.http.plan import Variable

_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
Lookup = Callable[[str, Place | None], Variable]
Part = bytes | str  # literal bytes, or a variable's name


class Constant:
    """A text without variables."""

    __slots__ = ("constant",)

    def __init__(self, value: bytes) -> None:
        self.constant: bytes | None = value

    def __call__(self, request: Request) -> bytes:
        """The bytes, whatever the request."""
        return self.constant or b""


class Template:
    """A text with variables: literals and getters in turn."""

    __slots__ = ("constant", "parts")

    def __init__(self, parts: tuple[bytes | Getter, ...]) -> None:
        self.constant: bytes | None = None
        self.parts = parts

    def __call__(self, request: Request) -> bytes:
        """The text for this request; a variable that is not found is empty."""
        return b"".join([part if isinstance(part, bytes) else (part(request) or b"") for part in self.parts])


class Single:
    """A text that is one variable."""

    __slots__ = ("constant", "get")

    def __init__(self, get: Getter) -> None:
        self.constant: bytes | None = None
        self.get = get

    def __call__(self, request: Request) -> bytes:
        """The variable's value, empty if it is not found."""
        return self.get(request) or b""


def split(raw: str, place: Place | None) -> list[Part]:
    """Literals and variable names of a text. Raises ConfigError as nginx's script compiler does."""
    data = encode(raw)
    parts: list[Part] = []
    at = 0
    while at < len(data):
        dollar = data.find(b"$", at)
        if dollar < 0:
            parts.append(data[at:])
            break
        if dollar > at:
            parts.append(data[at:dollar])
        name, at = _name(data, dollar + 1, place)
        parts.append(name)
    return parts


def _name(data: bytes, at: int, place: Place | None) -> tuple[str, int]:
    braced = data[at : at + 1] == b"{"
    at += braced
    end = at
    while end < len(data) and data[end] in _NAME:
        end += 1
        if not braced and 0x31 <= data[at] <= 0x39:
            break  # "$1" is one digit: "$10" is $1 and a zero
    if braced and data[end : end + 1] != b"}":
        raise ConfigError(f'the closing bracket in "{data[at:end].decode()}" variable is missing', place)
    if end == at:
        raise ConfigError("invalid variable name", place)
    name = data[at:end].decode()
    if name.isdigit() and (braced or name[0] == "0"):
        raise ConfigError(f'unknown "{name}" variable')  # captures are $1 to $9, without braces
    return name, end + braced


def compiled(raw: str, lookup: Lookup, place: Place | None) -> Constant | Template | Single:
    """Compile a text. Raises ConfigError for an unknown variable."""
    parts = split(raw, place)
    made = tuple(part if isinstance(part, bytes) else lookup(part, place).get for part in parts)
    if not made:
        return Constant(b"")
    if len(made) == 1:
        only = made[0]
        return Constant(only) if isinstance(only, bytes) else Single(only)
    return Template(made)
