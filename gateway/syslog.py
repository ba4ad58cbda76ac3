"""Logging to syslog (`syslog:server=…,facility=…`), for `error_log` and `access_log` alike.

One datagram a message, in RFC 3164's form: `<PRI>Mon dd hh:mm:ss host tag: text`. A server that does not listen costs
the message, never the request: the socket does not block, and no error is raised. See
https://nginx.org/en/docs/syslog.html
"""

import os
import re
import socket
import time
from dataclasses import dataclass, field
from functools import cache

SYSLOG = "syslog:"
FACILITIES = (
    *("kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp", "ntp"),
    *("audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"),
)
SEVERITIES = ("emerg", "alert", "crit", "error", "warn", "notice", "info", "debug")
_LONGEST = 4096  # bytes a message; a longer one is cut


class SyslogError(ValueError):
    """The parameters of a `syslog:` target are wrong; the message is nginx's."""


@dataclass(slots=True)
class Syslog:
    """One syslog server and how messages to it are marked."""

    family: socket.AddressFamily
    address: tuple[str, int] | str
    facility: int = FACILITIES.index("local7")
    severity: int = SEVERITIES.index("info")
    tag: str = "nginx"
    hostname: str = ""  # empty under `nohostname`
    _socket: socket.socket | None = field(default=None, repr=False)
    _second: int = 0
    _head: bytes = b""

    @classmethod
    def parse(cls, text: str) -> "Syslog":
        """Read `syslog:server=address[,facility=…][,severity=…][,tag=…][,nohostname]`. Raises `SyslogError`."""
        given = _parameters(text.removeprefix(SYSLOG))
        if "server" not in given:
            raise SyslogError("no syslog server specified")
        family, address = _address(given["server"])
        hostname = "" if "nohostname" in given else socket.gethostname()
        made = cls(family, address, hostname=hostname)
        if "facility" in given:
            made.facility = _position(FACILITIES, "facility", given["facility"])
        if "severity" in given:
            made.severity = _position(SEVERITIES, "severity", given["severity"])
        made.tag = given.get("tag", made.tag)
        return made

    def send(self, text: bytes, severity: int = -1) -> None:
        """Send one message, without a line feed; `severity` 0 to 7, else the configured one."""
        now = int(time.time())
        if now != self._second:
            moment = time.localtime(now)
            month = "JanFebMarAprMayJunJulAugSepOctNovDec"[3 * moment.tm_mon - 3 : 3 * moment.tm_mon]
            host = f"{self.hostname} " if self.hostname else ""
            clock = time.strftime("%H:%M:%S", moment)
            self._second, self._head = now, f"{month} {moment.tm_mday:2d} {clock} {host}{self.tag}: ".encode()
        priority = self.facility * 8 + (self.severity if severity < 0 else severity)
        message = b"<%d>%s%s" % (priority, self._head, text)
        try:
            self._open().send(message[:_LONGEST])
        except BlockingIOError:
            pass
        except OSError:
            self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket:
        if self._socket is None:
            made = socket.socket(self.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            try:
                made.connect(self.address)
            except OSError:
                made.close()
                raise
            self._socket = made
        return self._socket


@cache
def server(text: str) -> Syslog:
    """The server of a target that `parse` accepts; one socket for all logs that name it alike, over reloads too."""
    return Syslog.parse(text)


def _parameters(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not ((equals and name in ("server", "facility", "severity", "tag")) or part == "nohostname"):
            raise SyslogError(f'unknown syslog parameter "{part}"')
        if name in given:
            raise SyslogError(f'duplicate syslog "{name}"')
        if name == "tag" and len(value) > 32:
            raise SyslogError("syslog tag length exceeds 32")
        if name == "tag" and not re.fullmatch("[A-Za-z0-9_]*", value):
            raise SyslogError('syslog "tag" only allows alphanumeric characters and underscore')
        given[name] = value
    return given


def _position(names: tuple[str, ...], what: str, name: str) -> int:
    if name not in names:
        raise SyslogError(f'unknown syslog {what} "{name}"')
    return names.index(name)


def _address(server: str) -> tuple[socket.AddressFamily, tuple[str, int] | str]:
    """Where to send: `host[:port]`, `[v6][:port]` or `unix:path`; names are looked up once, at load."""
    if server.startswith("unix:"):
        path = server[5:]
        if not path or len(os.fsencode(path)) > 107:
            raise SyslogError(f'invalid unix domain socket path in syslog server "{server}"')
        return socket.AF_UNIX, path
    parts = re.fullmatch(r"(\[(?P<six>[^]]+)\]|(?P<host>[^:]*))(:(?P<port>\d+))?", server)
    port = int(parts["port"] or 514) if parts else 0
    if parts is None or not 0 < port < 65536:
        raise SyslogError(f'invalid port in syslog server "{server}"')
    host = parts["six"] or parts["host"]
    if not host:
        raise SyslogError(f'no host in syslog server "{server}"')
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    except OSError:
        raise SyslogError(f'host not found in syslog server "{server}"') from None
    return found[0], (str(found[4][0]), port)
