"""Take the client's address from a header that trusted proxies send (ngx_http_realip_module).

The address is the connection's, so everything that asks for it (access rules, limits, logs, variables) sees the new one
until the request is logged; then the connection gets its own back, for its next request may come from someone else.

Source: https://nginx.org/en/docs/http/ngx_http_realip_module.html
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.config.args import encode, flag, network
from gateway.config.schema import ANYWHERE, Arg, ConfigError, Place, Statement, block, directive, many
from gateway.http.message import Handler, Logger, Outcome, Request
from gateway.module import Build, Module, Phase, Variable

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

ADDRESS, PORT = "realip_remote_addr", "realip_remote_port"  # the connection's own, while a request shows another
KEPT = 4096  # verdicts on addresses remembered per level
_FORWARDED = b"x-forwarded-for"
_DIGITS = b"0123456789"


@dataclass(frozen=True, slots=True)
class Trusted:
    """One `set_real_ip_from`: networks, or unix sockets."""

    networks: "tuple[IPv4Network | IPv6Network, ...]"
    unix: bool
    vague: str  # an address with bits set beyond its mask, as written
    place: Place


def _trusted(statement: Statement) -> Trusted:
    word, place = statement.args[0], statement.place
    if word == "unix:":
        return Trusted((), True, "", place)
    try:
        found = network(word)
    except ValueError:
        return Trusted(_resolved(word, place), False, "", place)
    written = network(word.partition("/")[0]).network_address
    return Trusted((found,), False, word if written != found.network_address else "", place)


def _resolved(word: str, place: Place) -> "tuple[IPv4Network | IPv6Network, ...]":
    try:
        found = socket.getaddrinfo(word, None, type=socket.SOCK_STREAM) if word else []
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise ConfigError(f'host not found in set_real_ip_from "{word}"', place)
    return tuple(network(str(name[4][0])) for name in found)


def _header(statement: Statement) -> bytes:
    if statement.args[0] == "proxy_protocol":
        raise ConfigError('"real_ip_header proxy_protocol" is not supported yet', statement.place)
    return encode(statement.args[0].lower())


@block
class RealIp:
    """The client's address behind proxies."""

    set_real_ip_from: tuple[Trusted, ...] = many(
        ANYWHERE,
        Arg("address | CIDR | unix: | hostname", 1, 1, _trusted),
        "Believe what this proxy says of the client's address.",
    )
    real_ip_header: bytes = directive(
        ANYWHERE,
        Arg("field | X-Real-IP | X-Forwarded-For", 1, 1, _header),
        b"x-real-ip",
        "The header that holds it.",
        default_text="X-Real-IP",
    )
    real_ip_recursive: bool = directive(
        ANYWHERE, flag(), False, "Take the last address that is not a trusted proxy's, instead of the last."
    )


def declaring(conf: RealIp, build: Build) -> None:
    """Note that the site has the module in use; warn as nginx does."""
    if not conf.set_real_ip_from:
        return
    build.shared[RealIp] = True
    own = build.level.values.get((RealIp, "set_real_ip_from"), ())
    for item in conf.set_real_ip_from:
        if item.vague and item in own:
            build.warn(f"low address bits of {item.vague} are meaningless", item.place)


class Proxies:
    """The trusted proxies of one level."""

    __slots__ = ("networks", "unix", "verdicts")

    def __init__(self, items: Sequence[Trusted]) -> None:
        self.networks = [one for item in items for one in item.networks]
        self.unix = any(item.unix for item in items)
        self.verdicts: dict[bytes, bool] = {}

    def trusts(self, address: bytes) -> bool:
        """Whether an address, as text, is a trusted proxy's."""
        verdict = self.verdicts.get(address)
        if verdict is None:
            if len(self.verdicts) >= KEPT:
                self.verdicts.clear()
            verdict = self.verdicts[address] = self._judge(address.decode("ascii"))
        return verdict

    def _judge(self, text: str) -> bool:
        from ipaddress import IPv6Address, ip_address

        if text.startswith("unix:"):
            return self.unix
        address = ip_address(text)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in one for one in self.networks)


def parse(text: bytes) -> tuple[bytes, int] | None:
    """An address, perhaps with a port (0: none): `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`."""
    bare = text[1:-1] if text.startswith(b"[") and text.endswith(b"]") else text
    plain = _address(bare)
    if plain is not None:
        return plain, 0
    host, colon, port = text.rpartition(b":")
    if host.startswith(b"[") and host.endswith(b"]"):
        host = host[1:-1]
    elif b":" in host:
        return None
    address = _address(host)
    if not colon or address is None or not port.isdigit() or not 1 <= int(port) <= 65535:
        return None
    return address, int(port)


def _address(text: bytes) -> bytes | None:
    """An address in its usual spelling."""
    family = socket.AF_INET6 if b":" in text else socket.AF_INET
    try:
        if family == socket.AF_INET:  # nginx reads each number by itself: leading zeros, none at all
            text = b".".join(b"%d" % int(part or 0) if not part.strip(_DIGITS) else part for part in text.split(b"."))
        return socket.inet_ntop(family, socket.inet_pton(family, text.decode("ascii"))).encode()
    except (OSError, ValueError):
        return None


def last_of(text: bytes) -> tuple[bytes, bytes]:
    """Split a list of addresses into what is before the last, and the last. Commas and spaces separate."""
    text = text.rstrip(b" ,")
    at = max(text.rfind(b" "), text.rfind(b",")) + 1
    return text[:at], text[at:]


def forwarded(client: bytes, values: Sequence[bytes], proxies: Proxies, *, recursive: bool) -> tuple[bytes, int] | None:
    """The address that the header's values (in order as sent) give to a client, None if there is none to believe.

    The last address counts. `recursive`: while it is a trusted proxy's, the one before it.
    """
    found: tuple[bytes, int] | None = None
    for value in reversed(values):
        rest = value
        while True:
            if not proxies.trusts(found[0] if found else client):
                return found
            rest, last = last_of(rest)
            parsed = parse(last)
            if parsed is None:
                return found
            found = parsed
            if not recursive or not rest:
                break
        if not recursive:
            break
    return found


def believing(conf: RealIp, build: Build) -> Handler | None:
    """The handler of a level with trusted proxies."""
    if not conf.set_real_ip_from:
        return None
    proxies, recursive = Proxies(conf.set_real_ip_from), conf.real_ip_recursive
    values = _values(conf.real_ip_header)

    def realip(request: Request) -> Outcome:
        main = request.main
        sent = values(main)
        if not sent or main.value(ADDRESS) is not None:
            return None
        peer = main.peer
        found = forwarded(peer.client, sent, proxies, recursive=recursive)
        if found is not None:
            main.assign(ADDRESS, peer.client)
            main.assign(PORT, b"%d" % peer.client_port if peer.client_port else b"")
            peer.client, peer.client_port = found
        return None

    return realip


def _values(name: bytes) -> Callable[[Request], Sequence[bytes]]:
    """All values of X-Forwarded-For make one list; of other headers one value counts."""
    if name == _FORWARDED:
        return lambda request: request.headers.all(name)

    def one(request: Request) -> Sequence[bytes]:
        value = request.headers.get(name)
        return () if value is None else (value,)

    return one


def restoring(conf: RealIp, build: Build) -> Logger | None:
    """Wherever a request may end on a site that uses the module; runs after the request is logged."""
    if RealIp not in build.shared:
        return None

    def restore(request: Request) -> None:
        address = request.value(ADDRESS)
        if address is not None:
            request.peer.client = address
            request.peer.client_port = int(request.value(PORT) or 0)

    return restore


def _own_address(request: Request) -> bytes | None:
    found = request.main.value(ADDRESS)
    return request.main.peer.client if found is None else found


def _own_port(request: Request) -> bytes | None:
    found = request.main.value(PORT)
    port = request.main.peer.client_port
    return (b"%d" % port if port else b"") if found is None else found


module = Module(
    name="realip",
    conf=RealIp,
    define=declaring,
    handlers={Phase.POST_READ: believing, Phase.PREACCESS: believing},
    logger=restoring,
    variables={ADDRESS: Variable(_own_address), PORT: Variable(_own_port)},
)
