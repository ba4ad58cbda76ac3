"""The arguments of `listen`: an address and what is asked of its socket.

Source: https://nginx.org/en/docs/http/ngx_http_core_module.html#listen.
"""

import socket
from dataclasses import dataclass, field

from gateway.config.schema import Arg, ConfigError, Place, Statement

_NUMBERS = ("backlog", "setfib", "fastopen")
_SIZES = ("rcvbuf", "sndbuf")
_WORDS = {"ipv6only": ("on", "off"), "so_keepalive": (), "accept_filter": ()}  # and the words each may have; (): any
_FLAGS = (
    "default_server",
    "default",
    "ssl",
    "http2",
    "quic",
    "proxy_protocol",
    "bind",
    "deferred",
    "reuseport",
    "spdy",
    "multipath",
)


@dataclass(frozen=True, slots=True)
class Address:
    """One `listen`: resolved host and port, or a unix socket's path, with options as written."""

    host: str  # numeric; "" for a unix socket
    port: int
    path: str
    options: dict[str, object] = field(default_factory=dict)
    place: Place | None = None

    @property
    def key(self) -> str:
        """What makes two listens the same socket."""
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen_argument() -> Arg[tuple[Address, ...]]:
    """`listen address[:port] | port | unix:path [option ...]`: one `Address` per address the name has."""
    return Arg("address[:port] | port | unix:path [option ...]", 1, None, _parse)


def _parse(statement: Statement) -> tuple[Address, ...]:
    word, *rest = statement.args
    options = _options(rest, statement.place)
    if word.startswith("unix:"):
        if len(word) == 5:
            raise ConfigError(
                f'no path in the unix domain socket in "{word}" of the "listen" directive', statement.place
            )
        return (Address("", 0, word[5:], options, statement.place),)
    host, ports = _split(word, statement.place)
    hosts = ["0.0.0.0"] if host == "*" or not host else _resolve(host, word, statement.place)
    return tuple(Address(numeric, port, "", options, statement.place) for numeric in hosts for port in ports)


def _split(word: str, place: Place) -> tuple[str, range]:
    if word.replace("-", "").isdigit():
        return "", _ports(word, word, place)
    if word.startswith("["):
        end = word.find("]")
        if end < 0:
            raise ConfigError(f'invalid address in "{word}" of the "listen" directive', place)
        host, rest = word[1:end], word[end + 1 :]
        return host, _ports(rest[1:], word, place) if rest.startswith(":") else range(80, 81)
    host, colon, port = word.partition(":")
    return host, _ports(port, word, place) if colon else range(80, 81)


def _ports(text: str, word: str, place: Place) -> range:
    """One port, or `first-last`."""
    first, dash, last = text.partition("-")
    last = last if dash else first
    if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last) <= 65535):
        what = "port range" if dash else "port"
        raise ConfigError(f'invalid {what} in "{word}" of the "listen" directive', place)
    return range(int(first), int(last) + 1)


def _resolve(host: str, word: str, place: Place) -> list[str]:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return [host]
        except OSError:
            continue
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        raise ConfigError(f'host not found in "{word}" of the "listen" directive', place) from None
    return list(dict.fromkeys(str(item[4][0]) for item in found))


def _options(words: list[str], place: Place) -> dict[str, object]:
    options: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            options["default_server" if word == "default" else word] = True
        elif equals and name in _NUMBERS and value.isdigit():
            options[name] = int(value)
        elif equals and name in _SIZES and _bytes(value) is not None:
            options[name] = _bytes(value)
        elif name in _WORDS and value and value in (_WORDS[name] or (value,)):
            options[name] = value
        else:
            raise ConfigError(f'invalid parameter "{word}"', place)
    return options


def _bytes(value: str) -> int | None:
    unit = {"k": 1024, "m": 1048576}.get(value[-1:].lower(), 1)
    digits = value[:-1] if unit > 1 else value
    return int(digits) * unit if digits.isdigit() else None
