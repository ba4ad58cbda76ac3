"""Admit or refuse by the client's address (`allow`, `deny`; ngx_http_access_module).

Rules are tried in order, the first that matches decides; IPv4, IPv6 and unix sockets each see their own. An address
written as IPv4 in IPv6 (`::ffff:192.0.2.1`) is judged as IPv4. Source:
https://nginx.org/en/docs/http/ngx_http_access_module.html
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway import log
from gateway.config.args import network
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Item, Statement, block, many
from gateway.http.access import Admitted
from gateway.http.message import Handler, HttpError, Outcome, Request
from gateway.http.report import report
from gateway.module import Build, Module, Phase

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

KEPT = 4096  # verdicts remembered per level
_UNKNOWN: Any = object()


@dataclass(frozen=True, slots=True)
class Rule:
    """One `allow` or `deny`: `networks` holds an address range per family, `unix` says whether it is for unix
    sockets."""

    networks: "tuple[IPv4Network | IPv6Network, ...]"
    unix: bool = False
    vague: str = ""  # an address with bits set beyond its mask, as written


def _rule(statement: Statement) -> Rule:
    word = statement.args[0]
    if word == "all":
        return Rule((network("0.0.0.0/0"), network("::/0")), unix=True)
    if word == "unix:":
        return Rule((), unix=True)
    try:
        found = network(word)
    except ValueError:
        raise ConfigError(f'invalid parameter "{word}"', statement.place) from None
    written = network(word.partition("/")[0]).network_address
    return Rule((found,), vague=word if written != found.network_address else "")


@block
class Access:
    """Admission by address."""

    rules: tuple[Item[Any], ...] = many(
        ANYWHERE | In.LIMIT_EXCEPT,
        {name: Arg("address | CIDR | unix: | all", 1, 1, _rule) for name in ("allow", "deny")},
        {"allow": "Admit clients of this address or network.", "deny": "Refuse clients of this address or network."},
    )


def _judge(rules: tuple[Item[Any], ...], client: bytes) -> bool | None:
    """Whether a client is refused, an address as text or b"unix:"; None if no rule is for it."""
    from ipaddress import IPv6Address, ip_address  # a configuration without rules does without it

    text = client.decode("ascii")
    if text.startswith("unix:"):
        return next((item.name == "deny" for item in rules if item.value.unix), None)
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    for item in rules:
        if any(address in one for one in item.value.networks):
            return item.name == "deny"
    return None


def guarding(conf: Access, build: Build) -> Handler | None:
    """The handler of a level that has rules, its own or inherited ones."""
    rules = conf.rules
    if not rules:
        return None
    refused: dict[bytes, bool | None] = {}
    quiet = build.settings.satisfy == "any"  # another module may still admit the client

    def access(request: Request) -> Outcome:
        client = request.peer.client
        verdict = refused.get(client, _UNKNOWN)
        if verdict is _UNKNOWN:
            if len(refused) >= KEPT:
                refused.clear()
            verdict = refused[client] = _judge(rules, client)
        if verdict:
            if not quiet:
                report(request, log.ERROR, "access forbidden by rule")
            raise HttpError(403)
        if quiet and verdict is False:
            raise Admitted
        return None

    return access


def _warn(conf: Access, build: Build) -> None:
    for item in conf.rules:
        if item.value.vague and item in build.level.values.get((Access, "rules"), ()):
            build.warn(f"low address bits of {item.value.vague} are meaningless", item.place)


module = Module(name="access", conf=Access, define=_warn, handlers={Phase.ACCESS: guarding})
