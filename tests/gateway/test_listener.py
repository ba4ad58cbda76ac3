"""Listening sockets: options, reuse over reloads, addresses in use, inherited descriptors."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway import log
from gateway.net import listener
from gateway.net.listener import ListenError, Listeners


@dataclass
class Listen:
    host: str = "127.0.0.1"
    port: int = 0
    path: str = ""
    options: dict[str, object] = field(default_factory=dict)
    bound: bool = True
    key: str = ""

    def __post_init__(self) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.key = f"unix:{self.path}" if self.path else f"{host}:{self.port}"


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    made = Listeners()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "PAUSE", 0)


def port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_listens_and_keeps_what_it_has(listeners: Listeners) -> None:
    first, second = Listen(port=port()), Listen(port=port())
    assert listeners.open([first], 2) == [first.key]
    sock = listeners.of_worker(0)[first.key]
    assert listeners.open([first, second], 2) == [second.key]
    assert listeners.of_worker(1)[first.key] is sock
    listeners.settle([second])
    assert list(listeners.held) == [second.key]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", first.port))
    socket.create_connection(("127.0.0.1", second.port)).close()


def test_what_a_wildcard_covers_gets_no_socket(listeners: Listeners) -> None:
    number = port()
    listeners.open([Listen("0.0.0.0", number), Listen("127.0.0.1", number, bound=False)], 1)
    assert list(listeners.held) == [f"0.0.0.0:{number}"]


def test_options_of_the_socket(listeners: Listeners) -> None:
    options: dict[str, object] = {"backlog": 17, "rcvbuf": 8192, "sndbuf": 16384, "deferred": True}
    options |= {"so_keepalive": "30m::10", "fastopen": 5}
    listen = Listen(port=port(), options=options)
    listeners.open([listen], 1)
    sock = listeners.of_worker(0)[listen.key]

    def option(level: int, name: int) -> int:
        return sock.getsockopt(level, name)

    assert option(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 8192  # the kernel doubles both
    assert option(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 16384
    assert option(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert option(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1800
    assert option(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 10
    assert option(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT) >= 1
    assert option(socket.IPPROTO_TCP, socket.TCP_FASTOPEN) == 5
    assert not sock.getblocking() and not sock.get_inheritable()


def test_options_change_at_a_reload(listeners: Listeners) -> None:
    listen = Listen(port=port())
    listeners.open([listen], 1)
    sock = listeners.of_worker(0)[listen.key]
    listeners.open([Listen(port=listen.port, options={"sndbuf": 16384})], 1)
    assert listeners.of_worker(0)[listen.key] is sock
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 16384


def test_a_socket_per_worker_with_reuseport(listeners: Listeners) -> None:
    listen = Listen(port=port(), options={"reuseport": True})
    listeners.open([listen], 3)
    sockets = [listeners.of_worker(index)[listen.key] for index in range(3)]
    assert len({sock.fileno() for sock in sockets}) == 3
    listeners.open([listen], 2)
    assert len(listeners.held[listen.key].sockets) == 2


def test_ipv6_only_as_by_default(listeners: Listeners) -> None:
    number = port()
    try:
        listeners.open([Listen("::", number), Listen("0.0.0.0", number)], 1)
    except ListenError:
        pytest.skip("no IPv6 here")
    assert set(listeners.held) == {f"[::]:{number}", f"0.0.0.0:{number}"}


def test_address_in_use(listeners: Listeners, capfd: pytest.CaptureFixture[str]) -> None:
    free = Listen(port=port())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = Listen(port=taken.getsockname()[1])
        with pytest.raises(ListenError):
            listeners.open([free, busy], 1)
    said = capfd.readouterr().err
    assert said.count(f"bind() to {busy.key} failed (98: Address already in use)") == said.count("[emerg]") - 1 == 5
    assert said.count("still could not bind()") == 1
    assert listeners.held == {}


def test_an_address_that_is_not_ours(listeners: Listeners, capfd: pytest.CaptureFixture[str]) -> None:
    foreign = Listen("192.0.2.1", port())
    with pytest.raises(ListenError):
        listeners.open([foreign], 1)
    assert f"bind() to {foreign.key} failed (99: Cannot assign requested address)" in capfd.readouterr().err
    with pytest.raises(ListenError):
        listener.probe([foreign])


def test_probe_allows_addresses_in_use(listeners: Listeners, tmp_path: Path) -> None:
    listen = Listen(port=port())
    listeners.open([listen], 1)
    listener.probe([listen, Listen(path=str(tmp_path / "s")), Listen(bound=False)])
    assert not (tmp_path / "s").exists()


def test_unix_sockets(listeners: Listeners, tmp_path: Path) -> None:
    path = tmp_path / "s"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    listen = Listen("", path=str(path))
    listeners.open([listen], 1)
    assert path.stat().st_mode & 0o777 == 0o666
    with pytest.raises(ListenError):
        Listeners().open([listen], 1)  # somebody listens on it
    listeners.close()
    assert not path.exists()


def test_descriptors_are_inherited(listeners: Listeners, tmp_path: Path) -> None:
    tcp, unix = Listen(port=port()), Listen("", path=str(tmp_path / "s"))
    listeners.open([tcp, unix], 1)
    text = ";".join(str(os.dup(fd)) for fd in listeners.fds()) + ";"
    assert listeners.environment() == "".join(f"{fd};" for fd in listeners.fds())
    heir = Listeners()
    heir.inherit(text)
    assert set(heir.held) == {tcp.key, unix.key}
    assert heir.open([tcp, unix], 1) == []
    heir.close(unlink=False)
    assert (tmp_path / "s").exists()


def test_descriptors_that_are_no_sockets(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log.main, "level", log.NOTICE)
    read, write = os.pipe()
    heir = Listeners()
    heir.inherit(f"{read};x;9")
    os.close(write)
    said = capfd.readouterr().err
    assert f"of the inherited socket #{read} failed (88: Socket operation on non-socket)" in said
    assert 'invalid socket number "x" in NGINX environment variable, ignoring the rest of the variable' in said
    assert heir.held == {}


@pytest.mark.parametrize(("text", "expected"), [("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("1d", 86400)])
def test_seconds(text: str, expected: int) -> None:
    assert listener.seconds(text) == expected
