"""Grammars: what may stand after a directive's name, and what Python value comes of it.

Each returns an `Arg`. Values that nginx calls "invalid value" raise ValueError, which binding turns into nginx's
message; where nginx says more, ConfigError carries its words. A grammar lives here from its third user on.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from gateway.config.schema import Arg, ConfigError, Statement, Text

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

T = TypeVar("T")

_LARGEST = 2**63 - 1  # nginx's NGX_MAX_INT_T_VALUE on 64 bits
_DIGITS = re.compile(r"[0-9]+")
_SIZE = re.compile(r"([0-9]+)([kKmMgG]?)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

# A time: units from large to small, each at most once, spaces between; a last number without a unit is seconds.
_TIME = re.compile(
    r"(?:(\d+)y *)?(?:(\d+)M *)?(?:(\d+)w *)?(?:(\d+)d *)?(?:(\d+)h *)?(?:(\d+)m(?!s) *)?"
    r"(?:(\d+)s *)?(?:(\d+)ms *)?(?:(?:^ +)?(\d+) *)?",
    re.ASCII,
)
_SECONDS = (31536000, 2592000, 604800, 86400, 3600, 60, 1, 0.001, 1)  # of each group

SOCKET_PATH = 107  # bytes of a unix socket's name: sockaddr_un holds 108 with the final NUL


def encode(text: str) -> bytes:
    """The bytes that a word of a configuration had in its file."""
    return text.encode("utf-8", "surrogateescape")


def number(text: str) -> int:
    """Digits only, as nginx's ngx_atoi. Raises ValueError."""
    if not _DIGITS.fullmatch(text) or int(text) > _LARGEST:
        raise ValueError(text)
    return int(text)


def bytes_of(text: str, units: str = "kKmM") -> int:
    """A size in bytes: digits and perhaps one unit, powers of 1024. Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in ("", *units):
        raise ValueError(text)
    value = int(match[1]) * _UNITS[match[2].lower()]
    if value > _LARGEST:
        raise ValueError(text)
    return value


def seconds_of(text: str, *, whole: bool = False) -> float:
    """A time in seconds. As in nginx, years and months need a whole-second setting, milliseconds one that is not.

    Raises ValueError.
    """
    match = _TIME.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(text)
    counts = [int(count or 0) for count in match.groups()]
    years, months, milliseconds = match[1], match[2], match[8]
    if milliseconds if whole else (years or months):
        raise ValueError(text)
    return float(sum(count * unit for count, unit in zip(counts, _SECONDS, strict=True)))


def one(syntax: str, convert: Callable[[str], T]) -> Arg[T]:
    """Exactly one word."""
    return Arg(syntax, 1, 1, lambda statement: convert(statement.args[0]))


def nothing(value: T = True) -> Arg[T]:  # type: ignore[assignment]
    """No argument: to be there is what counts."""
    return Arg("", 0, 0, lambda statement: value)


def flag() -> Arg[bool]:
    """`on` or `off`."""

    def parse(statement: Statement) -> bool:
        word, name = statement.args[0], statement.name
        if word.lower() not in ("on", "off"):
            raise ConfigError(f'invalid value "{word}" in "{name}" directive, it must be "on" or "off"')
        return word.lower() == "on"

    return Arg("on | off", 1, 1, parse)


def integer(least: int | None = None, most: int | None = None) -> Arg[int]:
    """A decimal number within bounds."""

    def parse(statement: Statement) -> int:
        try:
            value = number(statement.args[0])
        except ValueError:
            raise ConfigError(f'"{statement.name}" directive invalid number') from None
        low = least or 0
        if most is None and value < low:
            raise ConfigError(f"value must be equal to or greater than {low}")
        if most is not None and not low <= value <= most:
            raise ConfigError(f"value must be between {low} and {most}")
        return value

    return Arg("number", 1, 1, parse)


def size(words: Mapping[str, int] | None = None) -> Arg[int]:
    """Bytes, with `k` or `m`; `words` are allowed in its place (`off` …)."""
    return _or_word("size", words, bytes_of)


def offset(words: Mapping[str, int] | None = None) -> Arg[int]:
    """Bytes of a file or body, with `k`, `m` or `g`."""
    return _or_word("size", words, lambda text: bytes_of(text, "kKmMgG"))


def duration(words: Mapping[str, float] | None = None, *, whole: bool = False) -> Arg[float]:
    """Seconds; `words` are allowed in its place. `whole`: nginx keeps it in seconds, not in milliseconds."""
    return _or_word("time", words, lambda text: seconds_of(text, whole=whole))


def _or_word(syntax: str, words: Mapping[str, T] | None, convert: Callable[[str], T]) -> Arg[T]:
    known = words or {}
    return one(" | ".join([syntax, *known]), lambda text: known[text] if text in known else convert(text))


def string(syntax: str = "string") -> Arg[str]:
    """One word as it stands."""
    return one(syntax, str)


def strings(least: int = 1, most: int | None = None, syntax: str = "string ...") -> Arg[tuple[str, ...]]:
    """Several words as they stand."""
    return Arg(syntax, least, most, lambda statement: statement.args)


def text(syntax: str = "string") -> Arg[Text]:
    """One word that may hold variables."""
    return Arg(syntax, 1, 1, lambda statement: Text(statement.args[0], statement.place))


def texts(least: int = 1, most: int | None = None, syntax: str = "string ...") -> Arg[tuple[Text, ...]]:
    """Several words that may hold variables."""
    return Arg(syntax, least, most, lambda statement: tuple(Text(word, statement.place) for word in statement.args))


def choice(*words: str) -> Arg[str]:
    """One of several words, in any case (nginx's enum)."""

    def parse(statement: Statement) -> str:
        word = statement.args[0].lower()
        if word not in words:
            raise ConfigError(f'invalid value "{statement.args[0]}"')
        return word

    return Arg(" | ".join(words), 1, 1, parse)


def bits(*words: str) -> Arg[frozenset[str]]:
    """Any of several words, in any case (nginx's bitmask). Repeated directives add up."""

    def parse(statement: Statement) -> frozenset[str]:
        for word in statement.args:
            if word.lower() not in words:
                raise ConfigError(f'invalid value "{word}"')
        return frozenset(word.lower() for word in statement.args)

    return Arg(" | ".join(words) + " ...", 1, None, parse)


def resolved(statement: Statement, name: str, *, conf: bool = False) -> str:
    """A file name of a statement, relative to the prefix, or to the main configuration file's folder with `conf`."""
    folder = statement.paths.conf_prefix if conf else statement.paths.prefix
    return name if name.startswith("/") else folder + name


def path(*, conf: bool = False, syntax: str = "path") -> Arg[str]:
    """A file name, resolved."""
    return Arg(syntax, 1, 1, lambda statement: resolved(statement, statement.args[0], conf=conf))


def mime_types(always: str = "text/html") -> Arg[frozenset[bytes]]:
    """MIME types, lower case; `always` is one of them in any case; `*` means all."""

    def parse(statement: Statement) -> frozenset[bytes]:
        if "*" in statement.args:
            return frozenset((b"*",))
        return frozenset(encode(word.lower()) for word in (always, *statement.args) if word)

    return Arg("mime-type ...", 1, None, parse)


def buffers() -> Arg[tuple[int, int]]:
    """A number of buffers and the size of each in bytes."""

    def parse(statement: Statement) -> tuple[int, int]:
        count, bytes_each = number(statement.args[0]), bytes_of(statement.args[1])
        if not count or not bytes_each:
            raise ValueError(statement.args)
        return count, bytes_each

    return Arg("number size", 2, 2, parse)


def network(word: str) -> "IPv4Network | IPv6Network":
    """An address or CIDR network; bits outside the mask are cleared. Raises ValueError."""
    from ipaddress import ip_network

    address, slash, mask = word.partition("/")
    return ip_network((address, number(mask)) if slash else word, strict=False)
