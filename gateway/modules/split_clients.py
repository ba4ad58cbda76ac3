"""`split_clients`: a variable drawn by the hash of a text, in given shares (ngx_http_split_clients_module)."""

import re
from dataclasses import dataclass

from gateway.config.args import encode
from gateway.config.schema import Arg, ConfigError, In, Merge, Place, Statement, Text, block, many
from gateway.http.declared import Find, Lookup, declare, variable_name
from gateway.http.message import Request
from gateway.module import Build, Module

_PERCENT = re.compile(r"([0-9]*)(?:\.([0-9]{0,2}))?%")
_WHOLE = 10000  # shares are counted in hundredths of a percent
_LARGEST = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995


@dataclass(frozen=True, slots=True)
class Shares:
    """One block: the upper bound of each share among all hashes (None: the rest), and its value."""

    source: Text
    name: str
    place: Place
    parts: tuple[tuple[int | None, bytes], ...]


def shares_argument(statement: Statement) -> Shares:
    """`split_clients string $variable { percent value; … }`."""
    name = variable_name(statement.args[1])
    parts: list[tuple[int | None, bytes]] = []
    total = bound = 0
    for entry in statement.block or ():
        if entry.block is not None or len(entry.args) != 1:
            raise ConfigError("invalid number of the split_clients parameters", entry.place)
        share = _share(entry)
        total = total + share if share else _WHOLE
        if total > _WHOLE:
            raise ConfigError("percent total is greater than 100%", statement.place)
        bound += share * _LARGEST // _WHOLE
        parts.append((bound if share else None, encode(entry.args[0])))
    return Shares(Text(statement.args[0], statement.place), name, statement.place, tuple(parts))


def _share(entry: Statement) -> int:
    """Hundredths of a percent; 0 for `*`."""
    if entry.name == "*":
        return 0
    match = _PERCENT.fullmatch(entry.name)
    share = int((match[1] or "0") + (match[2] or "").ljust(2, "0")) if match is not None else 0
    if not share:
        raise ConfigError(f'invalid percent value "{entry.name}"', entry.place)
    return share


@block
class SplitClients:
    """The draws of a configuration."""

    split_clients: tuple[Shares, ...] = many(
        In.HTTP,
        Arg("string $variable { percent value; … }", 2, 2, shares_argument, block=True),
        "A variable drawn by the hash of a text, `*` for the rest: the same text always draws the same value.",
        merge=Merge.OWN,
    )


def murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bits, seed 0 (Austin Appleby's public-domain function, as nginx uses it)."""
    size = len(data)
    whole = size & ~3
    value = size
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _LARGEST
        word = (word ^ word >> 24) * _MULTIPLIER & _LARGEST
        value = value * _MULTIPLIER & _LARGEST ^ word
    if whole < size:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _LARGEST
    value = (value ^ value >> 13) * _MULTIPLIER & _LARGEST
    return value ^ value >> 15


def defining(conf: SplitClients, build: Build) -> None:
    """Declare the variables."""
    lookups: dict[int, Lookup] = build.shared.setdefault("split_clients", {})
    for shares in conf.split_clients:
        lookup = lookups[id(shares)] = Lookup(shares.name)
        declare(build, shares.name, lookup.variable(), shares.place)


def preparing(conf: SplitClients, build: Build) -> None:
    """Compile the texts that are hashed."""
    for shares in conf.split_clients:
        build.shared["split_clients"][id(shares)].find = _drawing(shares, build)


def _drawing(shares: Shares, build: Build) -> Find:
    source, parts = build.text(shares.source), shares.parts

    def draw(request: Request) -> bytes:
        value = murmur2(source(request))
        for bound, result in parts:
            if bound is None or value < bound:
                return result
        return b""

    return draw


module = Module(name="split_clients", conf=SplitClients, define=defining, prepare=preparing)
