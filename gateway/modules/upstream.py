"""Groups of servers to pass requests to: `upstream` (ngx_http_upstream_module and its balancing modules).

Source: https://nginx.org/en/docs/http/ngx_http_upstream_module.html.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.config.args import bytes_of, duration, encode, integer, number, seconds_of, strings
from gateway.config.schema import (
    Arg,
    ConfigError,
    In,
    Item,
    Level,
    Merge,
    Place,
    Statement,
    Text,
    block,
    directive,
    many,
)
from gateway.http.message import Request
from gateway.module import Build, Module, Variable
from gateway.upstream.balance import (
    Method,
    address_key,
    at_random,
    consistent,
    hashed,
    ip_hash,
    least_conn,
    round_robin,
)
from gateway.upstream.client import Exchange
from gateway.upstream.outgoing import KEPT_CONNECTIONS
from gateway.upstream.pool import GROUPS, Group
from gateway.upstream.target import Target, parse_target, peers_of, resolve


@dataclass(frozen=True, slots=True)
class ServerLine:
    """One `server`: its address and parameters."""

    target: Target
    weight: int = 1
    max_conns: int = 0
    max_fails: int = 1
    fail_timeout: float = 10.0
    backup: bool = False
    down: bool = False
    place: Place | None = None


def _server_line(statement: Statement) -> ServerLine:
    word, *parameters = statement.args
    found: dict[str, Any] = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        try:
            if equals and name in ("weight", "max_conns", "max_fails"):
                found[name] = number(value)
            elif equals and name == "fail_timeout":
                found[name] = seconds_of(value, whole=True)
            elif parameter in ("backup", "down"):
                found[name] = True
            else:
                raise ValueError(parameter)
        except ValueError:
            raise ConfigError(f'invalid parameter "{parameter}"', statement.place) from None
    if found.get("weight") == 0:
        raise ConfigError('invalid parameter "weight=0"', statement.place)
    try:
        target = parse_target(word, with_uri=False)
    except ValueError as error:
        raise ConfigError(f'{error} in upstream "{word}"', statement.place) from None
    return ServerLine(target, **found, place=statement.place)


def _keepalive(statement: Statement) -> int:
    words = statement.args
    if not words[0].isdigit() or int(words[0]) == 0:
        raise ConfigError(f'invalid value "{words[0]}" in "keepalive" directive', statement.place)
    if words[1:] not in ((), ("local",)):
        raise ConfigError(f'invalid parameter "{words[1]}"', statement.place)
    return int(words[0])


def _zone(statement: Statement) -> str:
    if len(statement.args) == 2:
        bytes_of(statement.args[1])
    return statement.args[0]


def _random(statement: Statement) -> bool:
    words = statement.args
    if words and (words[0] != "two" or words[1:] not in ((), ("least_conn",))):
        raise ConfigError(f'invalid parameter "{words[-1]}"', statement.place)
    return bool(words)


def _hash(statement: Statement) -> tuple[Text, bool]:
    words = statement.args
    if len(words) == 2 and words[1] != "consistent":
        raise ConfigError(f'invalid parameter "{words[1]}"', statement.place)
    return Text(words[0], statement.place), len(words) == 2


@block
class Upstream:
    """The block and what stands in it."""

    upstream: tuple[Item[Level], ...] = many(
        In.HTTP,
        {"upstream": strings(1, 1, "name")},
        "A group of servers.",
        opens={"upstream": lambda _outer: In.UPSTREAM},
        merge=Merge.OWN,
    )
    server: tuple[Item[Any], ...] = many(
        In.UPSTREAM,
        {"server": Arg("address [parameters]", 1, None, _server_line)},
        "A server: weight, max_conns, max_fails, fail_timeout, backup, down.",
    )
    methods: tuple[Item[Any], ...] = many(
        In.UPSTREAM,
        {
            "least_conn": Arg("", 0, 0, lambda statement: None),
            "ip_hash": Arg("", 0, 0, lambda statement: None),
            "hash": Arg("key [consistent]", 1, 2, _hash),
            "random": Arg("[two [least_conn]]", 0, 2, _random),
        },
        {
            "least_conn": "Choose the server with the fewest active connections.",
            "ip_hash": "Choose by the client's address.",
            "hash": "Choose by the hash of a key; `consistent` moves few keys when servers change.",
            "random": "Choose at random; `two`: the less busy of two.",
        },
    )
    keepalive: int = directive(
        In.UPSTREAM,
        Arg("connections [local]", 1, 2, _keepalive),
        KEPT_CONNECTIONS,
        "Idle connections kept by each worker.",
        default_text=str(KEPT_CONNECTIONS or "-"),
    )
    keepalive_requests: int = directive(In.UPSTREAM, integer(1, 2**31), 1000, "Requests served on one kept connection.")
    keepalive_time: float = directive(
        In.UPSTREAM, duration(), 3600.0, "How long one may live in all.", default_text="1h"
    )
    keepalive_timeout: float = directive(In.UPSTREAM, duration(), 60.0, "How long one may idle.", default_text="60s")
    zone: str = directive(
        In.UPSTREAM,
        Arg("name [size]", 1, 2, _zone),
        "",
        "State shared by workers.",
        idle="each worker keeps its own state",
    )


def preparing(conf: Upstream, build: Build) -> None:
    """Make the group of an `upstream` block. Raises ConfigError."""
    level = build.level
    if level.context is not In.UPSTREAM:
        return
    name = level.head[0]
    groups: dict[Any, Group] = build.shared.setdefault(GROUPS, {})
    if name.lower() in groups:
        raise ConfigError(f'duplicate upstream "{name}"', level.place)
    peers = [peer for item in conf.server for peer in _peers(item.value)]
    if not any(not peer.backup for peer in peers):
        raise ConfigError(
            "no servers are inside upstream" if not peers else f'no servers in upstream "{name}"', level.place
        )
    group = Group(
        encode(name),
        peers,
        explicit=True,
        keepalive=conf.keepalive,
        keepalive_requests=conf.keepalive_requests,
        keepalive_time=conf.keepalive_time,
        keepalive_timeout=conf.keepalive_timeout,
    )
    _balance(conf, group, build)
    groups[name.lower()] = group


def _peers(line: ServerLine) -> list[Any]:
    try:
        addresses = [] if line.target.path else resolve(line.target)
    except OSError:
        text = f"{line.target.host}:{line.target.port}" if line.target.stated_port else line.target.host
        raise ConfigError(f'host not found in upstream "{text}"', line.place) from None
    peers = peers_of(line.target, addresses)
    for peer in peers:
        peer.weight = peer.effective_weight = line.weight
        peer.max_conns, peer.max_fails, peer.fail_timeout = line.max_conns, line.max_fails, line.fail_timeout
        peer.backup, peer.down = line.backup, line.down
    return peers


def _balance(conf: Upstream, group: Group, build: Build) -> None:
    if not conf.methods:
        return
    chosen = conf.methods[-1]
    if len(conf.methods) > 1:
        build.warn("load balancing method redefined", chosen.place)
    if chosen.name != "least_conn" and group.backup:
        place = next(item.place for item in conf.server if item.value.backup)
        raise ConfigError('balancing method does not support parameter "backup"', place)
    method: Method = round_robin
    if chosen.name == "least_conn":
        method = least_conn
    elif chosen.name == "random":
        method = at_random(chosen.value)
    elif chosen.name == "ip_hash":
        method, group.key = ip_hash, lambda request: address_key(request.main.peer.client)
    else:
        key, ketama = chosen.value
        method, group.key = consistent(group.peers) if ketama else hashed, build.text(key)
    group.method = method


# --- variables

Read = Callable[[Exchange], bytes]


def _each(read: Read) -> Variable:
    """A value for every server tried: ", " between tries, " : " where an internal redirect led to another upstream."""

    def get(request: Request) -> bytes | None:
        tries = request.tries
        if not tries:
            return None
        text = b""
        for exchange in tries:
            if exchange is None:
                text = text.removesuffix(b", ") + b" : "
            else:
                text += read(exchange) + b", "
        return text.removesuffix(b", ")

    return Variable(get)


def _seconds(value: float) -> bytes:
    return b"-" if value < 0 else b"%.3f" % value


def _last(request: Request) -> Exchange | None:
    tries = request.tries
    return tries[-1] if tries else None


def _upstream_header(name: str) -> Variable:
    lower = name.replace("_", "-").encode()

    def get(request: Request) -> bytes | None:
        exchange = _last(request)
        if exchange is None or exchange.head is None:
            return None
        values = [value for key, value in exchange.head.pairs if key == lower]
        return b", ".join(values) if values else None

    return Variable(get)


def _upstream_cookie(name: str) -> Variable:
    wanted = name.lower().encode()

    def get(request: Request) -> bytes | None:
        exchange = _last(request)
        if exchange is None or exchange.head is None:
            return None
        for key, value in exchange.head.pairs:
            if key == b"set-cookie":
                cookie, _, text = value.partition(b";")[0].partition(b"=")
                if cookie.rstrip(b" ").lower() == wanted:
                    return text.lstrip(b" ")
        return None

    return Variable(get)


module = Module(
    name="upstream",
    conf=Upstream,
    prepare=preparing,
    variables={
        "upstream_addr": _each(lambda exchange: exchange.peer.name),
        "upstream_status": _each(lambda exchange: b"%d" % exchange.status if exchange.status else b"-"),
        "upstream_connect_time": _each(lambda exchange: _seconds(exchange.connect_time)),
        "upstream_header_time": _each(lambda exchange: _seconds(exchange.header_time)),
        "upstream_response_time": _each(lambda exchange: _seconds(exchange.response_time)),
        "upstream_response_length": _each(lambda exchange: b"%d" % exchange.length),
        "upstream_bytes_received": _each(lambda exchange: b"%d" % exchange.received),
        "upstream_bytes_sent": _each(lambda exchange: b"%d" % exchange.sent),
    },
    prefixes={"upstream_http_": _upstream_header, "upstream_cookie_": _upstream_cookie},
)
