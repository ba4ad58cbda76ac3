"""Which server answers on which address for which name: from `listen` and `server_name` to `Listen` objects."""

import os
import socket
from collections.abc import Sequence

from gateway import log
from gateway.config.args import encode
from gateway.config.schema import ConfigError, Level, Place
from gateway.http.address import PROTOCOLS, Address
from gateway.http.router import Listen, Server
from gateway.http.settings import Addressing
from gateway.pattern import Pattern, PatternError

_WILDCARDS = ("0.0.0.0", "::")


def first_name(conf: Addressing) -> bytes:
    """$server_name: the first name as written, without the dot of ".example.com"."""
    if not conf.server_name:
        return b""
    name = conf.server_name[0][0][0]
    if name == "$hostname":
        return socket.gethostname().lower().encode()
    return encode(name if name.startswith("~") else name.lower().removeprefix("."))


def listens(described: Sequence[tuple[Server, Addressing, Place]]) -> list[Listen]:
    """All listening addresses of a site, in the order first met. Raises ConfigError for contradictions."""
    found: dict[str, Listen] = {}
    defaults: set[str] = set()
    for server, conf, place in described:
        addresses = [one for group in conf.listen for one in group] or [_unset(place)]
        seen: set[str] = set()
        for address in addresses:
            if address.key in seen:
                raise ConfigError(f"a duplicate listen {address.key}", address.place)
            seen.add(address.key)
            listen = found.get(address.key)
            if listen is None:
                listen = found[address.key] = Listen(address.key, address.host, address.port, address.path, {}, server)
            _add_options(listen, address, server, defaults)
            _add_names(listen, server, conf)
    for listen in found.values():
        _share_wildcard(listen, found)
    return list(found.values())


def _unset(place: Place) -> Address:
    return Address("0.0.0.0", 80 if os.geteuid() == 0 else 8000, "", {}, place)


def _add_options(listen: Listen, address: Address, server: Server, defaults: set[str]) -> None:
    for name, value in address.options.items():
        if name == "default_server":
            if address.key in defaults:
                raise ConfigError(f"a duplicate default server for {address.key}", address.place)
            defaults.add(address.key)
            listen.default = server
        else:
            listen.options[name] = value


def _add_names(listen: Listen, server: Server, conf: Addressing) -> None:
    if not conf.server_name:
        listen.names.setdefault(b"", server)
    for names, place in conf.server_name:
        for name in names:
            _add_name(listen, server, name, place)


def _add_name(listen: Listen, server: Server, name: str, place: Place) -> None:
    if name.startswith("~"):
        listen.patterns.append((_pattern(name, place), server))
        return
    if name == "$hostname":
        name = socket.gethostname()
    key = encode(name.lower())
    if (
        b"*" in key[1:-1]
        or key in (b"*", b".")
        or (key.startswith(b"*") and key[1:2] != b".")
        or (key.endswith(b"*") and key[-2:-1] != b".")
    ):
        raise ConfigError(f'server name "{name}" is invalid', place)
    if "/" in name:
        log.main.write(log.WARN, f'server name "{name}" has suspicious symbols in {place}')
    if key.startswith(b"*."):
        _put(listen.heads, key[1:], server, name, listen)
    elif key.startswith(b"."):
        _put(listen.heads, key, server, name, listen)
        _put(listen.names, key[1:], server, name, listen)
    elif key.endswith(b".*"):
        _put(listen.tails, key[:-1], server, name, listen)
    else:
        _put(listen.names, key, server, name, listen)


def patterns(conf: Addressing) -> list[Pattern]:
    """The regular expressions among a server's names. Raises ConfigError."""
    return [_pattern(name, place) for names, place in conf.server_name for name in names if name.startswith("~")]


def _pattern(name: str, place: Place) -> Pattern:
    if len(name) == 1:
        raise ConfigError(f'empty regex in server name "{name}"', place)
    try:
        # hosts are lower case already: nginx ignores case only for a pattern that has upper-case letters
        return Pattern(encode(name[1:]), any("A" <= letter <= "Z" for letter in name))
    except PatternError as error:
        raise ConfigError(str(error), place) from None


def _put(table: dict[bytes, Server], key: bytes, server: Server, name: str, listen: Listen) -> None:
    if table.setdefault(key, server) is not server:
        log.main.write(log.WARN, f'conflicting server name "{name}" on {listen.key}, ignored')


def _share_wildcard(listen: Listen, found: dict[str, Listen]) -> None:
    """nginx binds only a port's wildcard where there is one, and tells its addresses apart by the socket's own name."""
    if listen.path or listen.host in _WILDCARDS or not all(map(PROTOCOLS.fullmatch, listen.options)):
        return
    family = "::" if ":" in listen.host else "0.0.0.0"
    wildcard = found.get(f"[::]:{listen.port}" if family == "::" else f"0.0.0.0:{listen.port}")
    if wildcard is not None:
        wildcard.specific[listen.host.encode()] = listen
        listen.bound = False


def judge_nesting(outer: Level, inner: Level) -> None:
    """nginx's rules for a location in a location. Raises ConfigError."""
    if outer.head is None or not isinstance(outer.head, tuple):
        return
    modifier, name = inner.head
    outer_modifier, outer_name = outer.head
    if outer_modifier == "=":
        raise ConfigError(f'location "{name}" cannot be inside the exact location "{outer_name}"', inner.place)
    if outer_modifier == "@":
        raise ConfigError(f'location "{name}" cannot be inside the named location "{outer_name}"', inner.place)
    if modifier == "@":
        raise ConfigError(f'named location "{name}" can be on the server level only', inner.place)
    if modifier in ("", "=", "^~") and not name.startswith(outer_name):  # nginx compares with a regex's text, too
        raise ConfigError(f'location "{name}" is outside location "{outer_name}"', inner.place)
