"""`geo`: a variable by the client's address, or by an address in another variable (ngx_http_geo_module)."""

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.config.args import encode, number
from gateway.config.schema import Arg, ConfigError, In, Merge, Place, Statement, block, many
from gateway.http.declared import Find, Lookup, declare, variable_name
from gateway.http.message import Request
from gateway.module import Build, Module

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network

Span = tuple[int, int, bytes]  # first and last address (IPv4 as numbers) and value
Warn = tuple[str, Place]

NOBODY = "255.255.255.255"  # stands for what is no address (nginx's INADDR_NONE)
NUMBER = 0xFFFFFFFF  # the same as a number
KEPT = 4096  # addresses remembered per block; cleared when full


@dataclass(slots=True)
class Geo:
    """One block as written."""

    source: str  # a variable's name, "" for the client's address
    name: str
    place: Place
    ranges: bool = False
    recursive: bool = False
    volatile: bool = False
    default: bytes | None = None
    networks: "dict[Network, bytes]" = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)  # in order, without overlaps
    proxies: "list[Network]" = field(default_factory=list)
    warnings: list[Warn] = field(default_factory=list)


def geo_argument(statement: Statement) -> Geo:
    """`geo [$address] $variable { … }`."""
    names = [variable_name(word) for word in statement.args]
    geo = Geo(names[0] if len(names) == 2 else "", names[-1], statement.place)
    for entry in statement.block or ():
        try:
            _enter(geo, entry)
        except ConfigError as error:
            error.place = error.place or entry.place
            raise
    return geo


def _enter(geo: Geo, entry: Statement) -> None:
    if entry.block is not None:
        raise ConfigError("invalid number of the geo parameters")
    words = (entry.name, *entry.args)
    if len(words) == 1 and words[0] in ("ranges", "proxy_recursive", "volatile"):
        _mark(geo, words[0])
    elif len(words) != 2:
        raise ConfigError("invalid number of the geo parameters")
    elif words[0] == "proxy":
        geo.proxies.append(_network(geo, words[1], entry.place))
    elif words[0] == "default":
        if geo.default is not None:
            _duplicate(geo, "default", words[1], geo.default, entry.place)
        geo.default = encode(words[1])
    elif geo.ranges:
        _enter_span(geo, *words, entry.place)
    else:
        _enter_network(geo, *words, entry.place)


def _mark(geo: Geo, word: str) -> None:
    """The parameters that are one word."""
    if word == "ranges" and (geo.networks or geo.spans or geo.default is not None):
        raise ConfigError('the "ranges" directive must be the first directive inside "geo" block')
    setattr(geo, word.removeprefix("proxy_"), True)


def _duplicate(geo: Geo, what: str, value: str, old: bytes, place: Place) -> None:
    geo.warnings.append((f'duplicate {what}, value: "{value}", old value: "{old.decode()}"', place))


def _network(geo: Geo, word: str, place: Place) -> "Network":
    """An address or network; bits below the mask are cleared, with a warning. Raises ConfigError."""
    from ipaddress import ip_interface  # 5 ms of start-up that only a configuration with a `geo` block pays

    address, slash, mask = word.partition("/")
    try:
        given = ip_interface((address, number(mask)) if slash else word)
    except ValueError:
        raise ConfigError(f'invalid network "{word}"') from None
    if given.ip != given.network.network_address:
        geo.warnings.append((f"low address bits of {word} are meaningless", place))
    return given.network


def _enter_network(geo: Geo, first: str, second: str, place: Place) -> None:
    network = _network(geo, second if first == "delete" else first, place)
    if first == "delete":
        if geo.networks.pop(network, None) is None:
            geo.warnings.append((f'no network "{second}" to delete', place))
        return
    if network in geo.networks:
        _duplicate(geo, f'network "{first}"', second, geo.networks[network], place)
    geo.networks[network] = encode(second)


def _enter_span(geo: Geo, first: str, second: str, place: Place) -> None:
    from ipaddress import IPv4Address

    word = second if first == "delete" else first
    low, dash, high = word.partition("-")
    try:
        span = int(IPv4Address(low)), int(IPv4Address(high if dash else ""))
    except ValueError:
        raise ConfigError(f'invalid range "{word}"') from None
    if span[0] > span[1]:
        raise ConfigError(f'invalid range "{word}"')
    at = bisect([known[0] for known in geo.spans], span[1])  # behind the last that may overlap
    known = geo.spans[at - 1] if at else (-1, -1, b"")
    same = known[:2] == span
    if first == "delete":
        if same:
            del geo.spans[at - 1]
        else:
            geo.warnings.append((f'no address range "{word}" to delete', place))
        return
    if same:
        _duplicate(geo, f'range "{word}"', second, known[2], place)
    new = (*span, encode(second))
    if known[1] < span[0]:
        geo.spans.insert(at, new)
    elif known[0] <= span[0] and span[1] <= known[1]:
        pieces = ((known[0], span[0] - 1, known[2]), new, (span[1] + 1, known[1], known[2]))
        geo.spans[at - 1 : at] = [piece for piece in pieces if piece[0] <= piece[1]]
    else:
        ends = "-".join(str(IPv4Address(end)) for end in known[:2])
        raise ConfigError(f'range "{word}" overlaps "{ends}"')


@block
class Geos:
    """The address tables of a configuration."""

    geo: tuple[Geo, ...] = many(
        In.HTTP,
        Arg("[$address] $variable { … }", 1, 2, geo_argument, block=True),
        "A variable by address: the longest matching network counts; after `ranges` the entries are ranges, "
        "which split those around them.",
        merge=Merge.OWN,
    )


def defining(conf: Geos, build: Build) -> None:
    """Declare the variables."""
    lookups: dict[int, Lookup] = build.shared.setdefault("geo", {})
    for geo in conf.geo:
        lookup = lookups[id(geo)] = Lookup(geo.name, volatile=geo.volatile)
        declare(build, geo.name, lookup.variable(), geo.place)
        for message, place in geo.warnings:
            build.warn(message, place)


def preparing(conf: Geos, build: Build) -> None:
    """Compile the tables."""
    for geo in conf.geo:
        build.shared["geo"][id(geo)].find = _finding(geo, build)


def _finding(geo: Geo, build: Build) -> Find:
    from ipaddress import ip_address

    source, nobody = _source(geo, build), ip_address(NOBODY)
    search = _in_ranges(geo) if geo.ranges else _in_networks(geo)
    kept: dict[bytes, bytes] = {}

    def find(request: Request) -> bytes:
        text = source(request)
        value = kept.get(text)
        if value is None:
            if len(kept) >= KEPT:
                kept.clear()
            value = kept[text] = search(_address(text) or nobody)
        return value

    return find


def _source(geo: Geo, build: Build) -> Find:
    if geo.source:
        get = build.variable(geo.source, geo.place).get
        return lambda request: get(request) or b""
    proxies = geo.proxies
    if not proxies:
        return lambda request: request.main.peer.client

    def forwarded(request: Request) -> bytes:
        chain = b",".join(request.main.headers.all(b"x-forwarded-for"))
        return _behind(request.main.peer.client, chain, proxies, recursive=geo.recursive)

    return forwarded


def _behind(address: bytes, chain: bytes, proxies: "list[Network]", *, recursive: bool) -> bytes:
    """The address that a trusted proxy speaks for: the last of X-Forwarded-For, or the last that is no proxy itself."""
    hops = [hop for hop in chain.replace(b" ", b",").split(b",") if hop]
    while hops and _trusted(address, proxies):
        hop = hops.pop()
        if _address(hop) is None:
            break
        address = hop
        if not recursive:
            break
    return address


def _trusted(text: bytes, proxies: "list[Network]") -> bool:
    address = _address(text)
    return address is not None and any(address in network for network in proxies if network.version == address.version)


def _address(text: bytes) -> "Address | None":
    """An address as text, IPv4 within IPv6 taken out; None if it is none."""
    from ipaddress import ip_address

    try:
        address = ip_address(text.decode("ascii").strip("[]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _in_networks(geo: Geo) -> "Callable[[Address], bytes]":
    tables: dict[int, dict[int, dict[int, bytes]]] = {4: {}, 6: {}}  # by version, prefix length, network
    for network, value in geo.networks.items():
        bits = network.max_prefixlen - network.prefixlen
        tables[network.version].setdefault(bits, {})[int(network.network_address) >> bits] = value
    ordered = {version: sorted(table.items()) for version, table in tables.items()}
    default = geo.default or b""

    def search(address: "Address") -> bytes:
        key = int(address)
        for bits, networks in ordered[address.version]:
            value = networks.get(key >> bits)
            if value is not None:
                return value
        return default

    return search


def _in_ranges(geo: Geo) -> "Callable[[Address], bytes]":
    spans, starts, default = geo.spans, [span[0] for span in geo.spans], geo.default or b""

    def search(address: "Address") -> bytes:
        key = int(address) if address.version == 4 else NUMBER  # ranges are IPv4 only
        at = bisect(starts, key)
        return spans[at - 1][2] if at and key <= spans[at - 1][1] else default

    return search


module = Module(name="geo", conf=Geos, define=defining, prepare=preparing)
