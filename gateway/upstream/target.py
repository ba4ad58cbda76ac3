"""Addresses of upstream servers as configurations write them: host and port, IPv6 literals, unix sockets, with a URI.

Source: ngx_parse_url; its messages.
"""

import os
import socket
from dataclasses import dataclass

from gateway.config.args import SOCKET_PATH
from gateway.upstream.balance import Peer


@dataclass(frozen=True, slots=True)
class Target:
    """What stands after `http://`, or in a `server` line."""

    host: str  # as written, brackets included; "" for a unix socket
    port: int
    path: str  # of a unix socket
    uri: str  # what follows the address: "" if nothing does
    stated_port: bool
    usual: int = 80  # the scheme's port

    @property
    def host_header(self) -> bytes:
        """nginx's $proxy_host: the port only where it is not the usual one, "localhost" for a unix socket."""
        if self.path:
            return b"localhost"
        stated = self.stated_port and self.port != self.usual
        return f"{self.host}:{self.port}".encode() if stated else self.host.encode()

    @property
    def port_text(self) -> bytes | None:
        """nginx's $proxy_port."""
        return None if self.path else b"%d" % self.port


def parse_target(text: str, *, with_uri: bool, usual: int = 80) -> Target:
    """Read an address; `usual` is the port where none stands.

    Raises ValueError with nginx's words for what is wrong ("invalid port in upstream").
    """
    if text.startswith("unix:"):
        path, _, uri = text[5:].partition(":") if with_uri else (text[5:], "", "")
        if not path:
            raise ValueError("no path in the unix domain socket")
        if len(os.fsencode(path)) > SOCKET_PATH:
            raise ValueError("too long path in the unix domain socket")
        return Target("", 0, path, uri, False, usual)
    address, uri = text, ""
    if with_uri:
        end = min((at for at in (text.find("/"), text.find("?")) if at >= 0), default=len(text))
        address, uri = text[:end], text[end:]
        uri = "/" + uri if uri.startswith("?") else uri
    literal_end = address.find("]") if address.startswith("[") else -1
    if address.startswith("[") and literal_end < 0:
        raise ValueError("invalid host")
    host, colon, port = address[literal_end + 1 :].partition(":")
    host = address[: literal_end + 1] + host
    if not host:
        raise ValueError("no host")
    if colon and not (port.isdigit() and 1 <= int(port) <= 65535):
        raise ValueError("invalid port")
    return Target(host, int(port) if colon else usual, "", uri, bool(colon), usual)


def literal(host: str) -> str | None:
    """The address that a host is, in its usual spelling; None for a name."""
    bare = host[1:-1] if host.startswith("[") else host
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, bare))
        except OSError:
            continue
    return None


def resolve(target: Target) -> list[str]:
    """Every address of a host, by the system's resolver: IPv4 first, as nginx lists them. Raises OSError."""
    known = literal(target.host)
    if known is not None:
        return [known]
    found = socket.getaddrinfo(target.host, None, type=socket.SOCK_STREAM)
    return in_order([str(item[4][0]) for item in found])


def in_order(addresses: list[str]) -> list[str]:
    """Without repeats, IPv4 first."""
    return sorted(dict.fromkeys(addresses), key=lambda address: ":" in address)


def peers_of(target: Target, addresses: list[str]) -> list[Peer]:
    """A server for each address."""
    if target.path:
        name = f"unix:{target.path}".encode()
        return [Peer("", 0, target.path, name, name)]
    server = f"{target.host}:{target.port}".encode()
    return [
        Peer(
            address,
            target.port,
            "",
            (f"[{address}]:" if ":" in address else f"{address}:").encode() + b"%d" % target.port,
            server,
        )
        for address in addresses
    ]
