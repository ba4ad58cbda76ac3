"""Listening sockets (`listen`): bound by the master, kept over a reload, handed on to a new binary.

A socket is known by its key (`0.0.0.0:80`, `[::]:80`, `unix:/path`). With `reuseport` a key has one socket per worker,
else one for all. Source: https://nginx.org/en/docs/http/ngx_http_core_module.html#listen and, for the environment
variable NGINX that carries descriptors over an upgrade, https://nginx.org/en/docs/control.html#upgrade
"""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gateway import log

BACKLOG = 511  # nginx's default; the kernel cuts it to net.core.somaxconn
TRIES = 5
PAUSE = 0.5  # seconds between two tries to bind an address that is in use


class ListenError(Exception):
    """A socket cannot be had; the message is nginx's and has been logged."""


class Wanted(Protocol):
    """What a `listen` asks for."""

    key: str
    host: str  # numeric; "" for a unix socket
    port: int
    path: str
    bound: bool  # False: its connections arrive on the socket of a wildcard address

    @property
    def options(self) -> Mapping[str, object]: ...


@dataclass(slots=True)
class Held:
    """The sockets of one key, the options they were last given, and whether they came from an older binary."""

    sockets: list[socket.socket]
    options: Mapping[str, object] = field(default_factory=dict)
    inherited: bool = False


@dataclass(slots=True)
class Listeners:
    """All listening sockets of the process, by key."""

    held: dict[str, Held] = field(default_factory=dict)

    def open(self, wanted: Sequence[Wanted], workers: int) -> list[str]:
        """Bind and listen wherever there is no socket yet; returns the keys that are new.

        An address in use is tried five times. On failure all new sockets are closed again and `ListenError` is raised.
        """
        added: list[str] = []
        missing: Sequence[Wanted] = [listen for listen in wanted if listen.bound]
        for attempt in range(TRIES):
            missing = [listen for listen in missing if not self._opened(listen, workers, added)]
            if not missing:
                return added
            if attempt < TRIES - 1:
                log.main.write(log.NOTICE, f"try again to bind() after {PAUSE * 1000:.0f}ms")
                time.sleep(PAUSE)
        log.main.write(log.EMERG, "still could not bind()")
        self.close(added)
        raise ListenError("still could not bind()")

    def _opened(self, listen: Wanted, workers: int, added: list[str]) -> bool:
        """Whether the sockets of `listen` are there now; False if the address is in use. Raises `ListenError`."""
        held = self.held.get(listen.key)
        count = workers if listen.options.get("reuseport") else 1
        if held is None:
            held = self.held[listen.key] = Held([])
            added.append(listen.key)
        try:
            if held.sockets and listen.options != held.options:
                for sock in held.sockets:
                    _configure(sock, listen)
            while len(held.sockets) < count:
                held.sockets.append(_bound(listen))
        except OSError as error:
            if not held.sockets:
                del self.held[listen.key]
                added.remove(listen.key)
            if error.errno == errno.EADDRINUSE:
                return False
            self.close(added)
            raise ListenError(str(error)) from None
        while len(held.sockets) > count:
            held.sockets.pop().close()
        held.options = listen.options
        return True

    def settle(self, wanted: Sequence[Wanted]) -> None:
        """The configuration is in force: close what it does not want, and remove the files of unix sockets."""
        keys = {listen.key for listen in wanted if listen.bound}
        self.close([key for key in self.held if key not in keys])

    def close(self, keys: Sequence[str] | None = None, *, unlink: bool = True) -> None:
        """Close the sockets of these keys (None: all), and remove the files of unix sockets with `unlink`."""
        for key in list(self.held) if keys is None else keys:
            held = self.held.pop(key)
            for sock in held.sockets:
                sock.close()
            if unlink and key.startswith("unix:"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(key[5:])

    def of_worker(self, index: int) -> dict[str, socket.socket]:
        """The socket of each key for one worker."""
        return {key: held.sockets[index % len(held.sockets)] for key, held in self.held.items()}

    def environment(self) -> str:
        """The value of NGINX that hands all sockets to a new binary."""
        return "".join(f"{sock.fileno()};" for held in self.held.values() for sock in held.sockets)

    def fds(self) -> list[int]:
        return [sock.fileno() for held in self.held.values() for sock in held.sockets]

    def inherit(self, text: str) -> None:
        """Take over the sockets that an older binary names in NGINX. What is not a listening socket is reported and
        left."""
        log.main.write(log.NOTICE, f'using inherited sockets from "{text}"')
        for word in text.replace(":", ";").split(";"):
            if not word:
                continue
            if not word.isdigit():
                log.main.write(
                    log.EMERG,
                    f'invalid socket number "{word}" in NGINX environment variable, ignoring the rest of the variable',
                )
                return
            try:
                sock = socket.socket(fileno=int(word))
                if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            except OSError as error:
                log.main.write(log.EMERG, f"getsockname() of the inherited socket #{word} failed {log.reason(error)}")
                continue
            sock.set_inheritable(False)
            sock.setblocking(False)
            self.held.setdefault(_key(sock), Held([], inherited=True)).sockets.append(sock)


def probe(wanted: Sequence[Wanted]) -> None:
    """`-t`: try to bind without listening, for what only the system knows (permissions, foreign addresses).

    An address in use is no error, for a running server may have it. Raises `ListenError`.
    """
    for listen in wanted:
        if listen.path or not listen.bound:
            continue  # binding to a path would make the file
        sock = _made(listen)
        try:
            sock.bind((listen.host, listen.port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ListenError(_failed(listen, error)) from None
        finally:
            sock.close()


def _bound(listen: Wanted) -> socket.socket:
    """A new listening socket. Raises OSError, which has been logged."""
    try:
        sock = _made(listen)
    except OSError as error:
        log.main.write(log.EMERG, f"socket() {listen.key} failed {log.reason(error)}")
        raise
    try:
        if listen.path:
            _bind_unix(sock, listen.path)
        else:
            sock.bind((listen.host, listen.port))
        _configure(sock, listen)
    except OSError as error:
        sock.close()
        _failed(listen, error)
        raise
    return sock


def _failed(listen: Wanted, error: OSError) -> str:
    message = f"bind() to {listen.key} failed {log.reason(error)}"
    log.main.write(log.EMERG, message)
    return message


def _bind_unix(sock: socket.socket, path: str) -> None:
    """Bind to a path; a file that nobody listens on any more is removed first. Everybody may connect, as in nginx."""
    if os.path.exists(path) and _stale(path):
        os.unlink(path)
    sock.bind(path)
    os.chmod(path, 0o666)


def _stale(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        knock.settimeout(1)
        try:
            knock.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _made(listen: Wanted) -> socket.socket:
    """A socket with what must be set before it is bound."""
    if listen.path:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    six = ":" in listen.host
    sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listen.options.get("reuseport"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if six:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, listen.options.get("ipv6only", "on") == "on")
    return sock


def _configure(sock: socket.socket, listen: Wanted) -> None:
    """Set what may change at a reload, and listen (again, if the backlog has changed)."""
    options = listen.options
    for name, option in (("rcvbuf", socket.SO_RCVBUF), ("sndbuf", socket.SO_SNDBUF)):
        if name in options:
            sock.setsockopt(socket.SOL_SOCKET, option, _number(options[name]))
    if "so_keepalive" in options:
        _keepalive(sock, str(options["so_keepalive"]))
    if not listen.path:
        if "fastopen" in options:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, _number(options["fastopen"]))
        if "deferred" in options:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
    sock.listen(_number(options.get("backlog", BACKLOG)))


def _keepalive(sock: socket.socket, value: str) -> None:
    """`so_keepalive=on|off|[keepidle]:[keepintvl]:[keepcnt]`; connections get it from their listening socket."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, value != "off")
    if ":" in value:
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        for option, text in zip(names, value.split(":"), strict=False):
            if text:
                sock.setsockopt(socket.IPPROTO_TCP, option, seconds(text))


def seconds(text: str) -> int:
    """A number of seconds, with an optional unit. Raises ValueError."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    return int(text[:-1]) * unit if unit else int(text)


def _number(value: object) -> int:
    return value if isinstance(value, int) else int(str(value))


def _key(sock: socket.socket) -> str:
    name = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return f"unix:{name}"
    return f"[{name[0]}]:{name[1]}" if sock.family == socket.AF_INET6 else f"{name[0]}:{name[1]}"
