"""The arguments of `listen`: an address and what is asked of its socket.

Source: https://nginx.org/en/docs/http/ngx_http_core_module.html#listen.
"""

import os
import re
import socket
from dataclasses import dataclass, field

from gateway.config.args import SOCKET_PATH
from gateway.config.schema import Arg, ConfigError, Place, Statement

_NUMBERS = ("backlog", "setfib", "fastopen")
_SIZES = ("rcvbuf", "sndbuf")
_WORDS = {"ipv6only": ("on", "off"), "so_keepalive": (), "accept_filter": ()}  # and the words each may have; (): any
_KEEPALIVE = re.compile(r"on|off|(?=.*\d)(?:\d+[smhdwMy]*)?(?::(?:\d+[smhdwMy]*)?(?::\d*)?)?")
PROTOCOLS = re.compile("ssl|http2|quic|spdy|proxy_protocol")  # these say nothing of the socket
_FLAGS = re.compile(f"default_server|default|bind|deferred|reuseport|multipath|{PROTOCOLS.pattern}")
_ABSENT = ("quic", "proxy_protocol")  # to leave them out would change what clients must speak


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
        if len(os.fsencode(word[5:])) > SOCKET_PATH:
            raise ConfigError(
                f'too long path in the unix domain socket in "{word}" of the "listen" directive', statement.place
            )
        return (Address("", 0, word[5:], options, statement.place),)
    host, ports = _split(word, statement.place)
    hosts = ["0.0.0.0"] if host == "*" else _resolve(host, word, statement.place)
    return tuple(Address(numeric, port, "", options, statement.place) for numeric in hosts for port in ports)


def _split(word: str, place: Place) -> tuple[str, range]:
    """Host and ports (ngx_parse_inet_url, ngx_parse_inet6_url); the host of a port alone is "*"."""
    first, dash, last = word.partition("-")
    if first.isdigit() and (last.isdigit() or not dash):
        return "*", _ports(word, word, place)
    if word.startswith("["):
        host, bracket, rest = word[1:].partition("]")
        if not bracket or rest[:1] not in ("", ":"):
            raise _invalid("invalid host", word, place)
        return host, _ports(rest[1:], word, place) if rest else range(80, 81)
    host, colon, port = word.partition(":")
    ports = _ports(port, word, place) if colon else range(80, 81)
    if not host:
        raise _invalid("no host", word, place)
    return host, ports


def _ports(text: str, word: str, place: Place) -> range:
    """One port, or `first-last`."""
    first, dash, last = text.partition("-")
    last = last if dash else first
    if not all(port.isdigit() and 1 <= int(port) <= 65535 for port in (first, last)):
        raise _invalid("invalid port", word, place)
    if int(first) > int(last):
        raise _invalid("invalid port range", word, place)
    return range(int(first), int(last) + 1)


def _invalid(what: str, word: str, place: Place) -> ConfigError:
    return ConfigError(f'{what} in "{word}" of the "listen" directive', place)


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
        if word in _ABSENT:
            raise ConfigError(f'the "{word}" parameter of "listen" is not supported yet', place)
        if _FLAGS.fullmatch(word):
            options["default_server" if word == "default" else word] = True
        elif equals and name in _NUMBERS:
            if not value.isdigit() or (name == "backlog" and not int(value)):
                raise ConfigError(f'invalid {name} "{word}"', place)
            options[name] = int(value)
        elif equals and name in _SIZES:
            options[name] = _bytes(value)
            if options[name] is None:
                raise ConfigError(f'invalid {name} "{word}"', place)
        elif equals and name == "so_keepalive" and not _KEEPALIVE.fullmatch(value):
            raise ConfigError(f'invalid so_keepalive value: "{value}"', place)
        elif name in _WORDS and value and value in (_WORDS[name] or (value,)):
            options[name] = value
        else:
            raise ConfigError(f'invalid parameter "{word}"', place)
    return options


def _bytes(value: str) -> int | None:
    unit = {"k": 1024, "m": 1048576}.get(value[-1:].lower(), 1)
    digits = value[:-1] if unit > 1 else value
    return int(digits) * unit if digits.isdigit() else None
