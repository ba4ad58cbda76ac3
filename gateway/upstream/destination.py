"""Where a location's requests go: the group behind a `proxy_pass`, known at load or made of variables for each request.

Source: https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_pass; ngx_http_proxy_eval.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway import log
from gateway.config.schema import ConfigError, Place
from gateway.http.message import HttpError, Request
from gateway.http.report import report
from gateway.upstream.outgoing import replaced_uri, uri_as_sent
from gateway.upstream.pool import GROUPS, Group
from gateway.upstream.target import Target, in_order, literal, parse_target, peers_of, resolve

_KNOWN = 1024  # hosts remembered of variables, per worker
_PORTS = (80, 443)
_FRESH = 30.0  # seconds that a resolved name is believed


@dataclass(frozen=True, slots=True)
class Destination:
    """One proxy_pass, resolved."""

    group: Group
    host_header: bytes  # $proxy_host
    port_text: bytes | None  # $proxy_port
    uri: Callable[[Request], bytes]
    secure: bool = False  # https://


def split_scheme(url: str, place: Place | None) -> tuple[str, bool]:
    """The rest of a URL after http:// or https://, and whether it was the latter. Raises ConfigError."""
    if url[:7].lower() == "http://":
        return url[7:], False
    if url[:8].lower() == "https://":
        return url[8:], True
    raise ConfigError("invalid URL prefix", place)


def fixed(url: str, place: Place | None, shared: dict[Any, Any], prefix: bytes, *, uri_allowed: bool) -> Destination:
    """The destination of a proxy_pass without variables. Raises ConfigError."""
    rest, secure = split_scheme(url, place)
    try:
        target = parse_target(rest, with_uri=True, usual=_PORTS[secure])
    except ValueError as error:
        raise ConfigError(f'{error} in upstream "{rest}"', place) from None
    if target.uri and not uri_allowed:
        where = 'location given by regular expression, or inside named location, or inside "if" statement'
        raise ConfigError(f'"proxy_pass" cannot have URI part in {where}, or inside "limit_except" block', place)
    uri = _uri_maker(target.uri, prefix)
    return Destination(_group(target, place, shared), target.host_header, target.port_text, uri, secure)


def _uri_maker(uri: str, prefix: bytes) -> Callable[[Request], bytes]:
    if not uri:
        return uri_as_sent
    replacement, length = uri.encode("utf-8", "surrogateescape"), len(prefix)
    return lambda request: replaced_uri(request, replacement, length)


def _group(target: Target, place: Place | None, shared: dict[Any, Any]) -> Group:
    groups: dict[Any, Group] = shared.setdefault(GROUPS, {})
    found = groups.get(target.host.lower())
    if found is not None:
        if target.stated_port:
            raise ConfigError(f'upstream "{target.host}" may not have port {target.port}', place)
        return found
    key = target.path or (target.host.lower(), target.port)
    found = groups.get(key)
    if found is None:
        try:
            addresses = [] if target.path else resolve(target)
        except OSError:
            text = f"{target.host}:{target.port}" if target.stated_port else target.host
            raise ConfigError(f'host not found in upstream "{text}"', place) from None
        found = groups[key] = Group(target.host.encode(), peers_of(target, addresses))
    return found


class Directory:
    """The groups that variables may name: those of the configuration, and hosts met since."""

    __slots__ = ("_met", "groups")

    def __init__(self, groups: dict[Any, Group]) -> None:
        self.groups = groups
        self._met: dict[Any, tuple[Group, float]] = {}

    async def destination(self, request: Request, url: bytes) -> Destination:
        """The destination that variables came to. Raises HttpError 500 for a bad URL, 502 for an unknown host."""
        text = url.decode("utf-8", "surrogateescape")
        try:
            rest, secure = split_scheme(text, None)
            target = parse_target(rest, with_uri=True, usual=_PORTS[secure])
        except ConfigError:
            report(request, log.ERROR, f'invalid URL prefix in "{text}"')
            raise HttpError(500) from None
        except ValueError as error:
            report(request, log.ERROR, f'{error} in upstream "{rest}"')
            raise HttpError(500) from None
        uri = target.uri.encode("utf-8", "surrogateescape")
        maker: Callable[[Request], bytes] = (lambda _request: uri) if uri else uri_as_sent
        return Destination(await self._find(request, target), target.host_header, target.port_text, maker, secure)

    async def _find(self, request: Request, target: Target) -> Group:
        key: Any = target.path or (target.host.lower(), target.port)
        known = self.groups.get(target.host.lower()) if not target.stated_port else None
        known = known or self.groups.get(key)
        if known is not None:
            return known
        now = request.main.peer.service.now()
        met = self._met.get(key)
        if met is not None and now < met[1]:
            return met[0]
        addresses = [] if target.path else await _resolved(request, target)
        group = Group(target.host.encode("utf-8", "surrogateescape"), peers_of(target, addresses))
        if met is not None and [peer.name for peer in met[0].peers] == [peer.name for peer in group.peers]:
            group = met[0]  # the same servers, with what is known of them
        if len(self._met) >= _KNOWN:
            self._met.clear()
        self._met[key] = (group, float("inf") if target.path or literal(target.host) else now + _FRESH)
        return group


async def _resolved(request: Request, target: Target) -> list[str]:
    known = literal(target.host)
    if known is not None:
        return [known]
    import socket

    loop: asyncio.AbstractEventLoop = request.main.peer.service.loop
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        reason = error.strerror or str(error)
        report(request, log.ERROR, f"{target.host} could not be resolved ({error.errno}: {reason})")
        raise HttpError(502) from None
    return in_order([str(item[4][0]) for item in found])
