"""A site served by a thread of the test's own process: real sockets and a worker's loop, without the start of one.

A test may look at the worker's side with `site.ask(lambda service: …)`, which runs on the loop.
"""

import asyncio
import errno
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gateway import log
from gateway.build import Loaded, load
from gateway.config.schema import Paths
from gateway.http.service import Service
from gateway.process import loop as loops
from gateway.process.settings import TABLES
from tests.gateway.tengine import free_port

PATIENCE = 10.0  # seconds for anything; a busy machine needs a few
CONF = """
error_log {folder}/error.log info;
events {{ }}
http {{
    include {mime};
    client_body_temp_path {folder}/body;
    {log}
    root {folder}/root;
    {http}
    {servers}
}}
"""
MIME = Path(__file__).parents[2] / "conf" / "mime.types"
T = TypeVar("T")
running: list[Path] = []


@dataclass(slots=True)
class Answer:
    """One answer; the body is without its chunks."""

    head: bytes
    body: bytes
    whole: bool = True  # the body ended where its framing said

    @property
    def status(self) -> int:
        return int(self.head[9:12]) if self.head else 0

    def get(self, name: str) -> str | None:
        """The first header with this name."""
        found = re.search(rb"\r\n" + re.escape(name.encode()) + rb": ?([^\r]*)", self.head, re.IGNORECASE)
        return found[1].decode("latin-1") if found else None

    def all(self, name: str) -> list[str]:
        found = re.findall(rb"\r\n" + re.escape(name.encode()) + rb": ?([^\r]*)", self.head, re.IGNORECASE)
        return [value.decode("latin-1") for value in found]


@dataclass(slots=True)
class Client:
    """One connection to a site."""

    sock: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    reset: bool = False

    def send(self, data: bytes) -> "Client":
        with suppress(BrokenPipeError, ConnectionResetError):
            self.sock.sendall(data)
        return self

    def more(self) -> bool:
        """Take in what has come; False at the end."""
        try:
            data = self.sock.recv(262144)
        except ConnectionResetError:
            self.reset, data = True, b""
        self.buffer += data
        return bool(data)

    def answer(self, *, bare: bool = False) -> Answer:
        """The next answer; `bare`: it was asked for by HEAD. No head: the connection ended."""
        while b"\r\n\r\n" not in self.buffer:
            if not self.more():
                return Answer(b"", bytes(self._take(len(self.buffer))), False)
        head = bytes(self._take(self.buffer.index(b"\r\n\r\n") + 4))
        answer = Answer(head, b"")
        if bare or answer.status in (204, 304) or answer.status < 200:
            return answer
        length = answer.get("Content-Length")
        if answer.get("Transfer-Encoding") == "chunked":
            answer.body, answer.whole = self._chunks()
        elif length is not None:
            answer.body = self.exactly(int(length))
            answer.whole = len(answer.body) == int(length)
        else:
            answer.body = self.rest()
        return answer

    def get(self, target: str, *headers: str, method: str = "GET", host: str = "localhost") -> Answer:
        """Ask on this connection, keep-alive."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, "", ""]
        return self.send("\r\n".join(lines).encode()).answer(bare=method == "HEAD")

    def _take(self, count: int) -> bytes:
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def exactly(self, count: int) -> bytes:
        while len(self.buffer) < count and self.more():
            pass
        return self._take(count)

    def _line(self) -> bytes:
        while b"\r\n" not in self.buffer and self.more():
            pass
        end = self.buffer.find(b"\r\n")
        return self._take(end + 2 if end >= 0 else len(self.buffer))

    def _chunks(self) -> tuple[bytes, bool]:
        body = b""
        while line := self._line():
            size = int(line, 16)
            if not size:
                while (line := self._line()) not in (b"\r\n", b""):
                    pass
                return body, bool(line)
            body += self.exactly(size)
            self._line()
        return body, False

    def rest(self) -> bytes:
        """All that comes until the connection ends."""
        while self.more():
            pass
        return self._take(len(self.buffer))

    def half_close(self) -> "Client":
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(slots=True)
class Site:
    """What a test talks to. `ports` are those of %PORT% and %PORT2%."""

    folder: Path
    ports: tuple[int, int]
    loop: asyncio.AbstractEventLoop
    service: Service

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def connect(self, *, host: str = "127.0.0.1", source: str = "", second: bool = False, window: int = 0) -> Client:
        """Connect; `window` makes a small receive buffer (a slow reader's), `source` another client address."""
        sock = socket.socket()
        sock.settimeout(PATIENCE)
        if window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        if source:
            sock.bind((source, 0))
        sock.connect((host, self.ports[second]))
        return Client(sock)

    def get(self, target: str, *headers: str, method: str = "GET", host: str = "localhost") -> Answer:
        """One request on a connection of its own."""
        with self.connect() as client:
            return client.get(target, *headers, method=method, host=host)

    def raw(self, data: bytes) -> bytes:
        """Send, and read to the end of the connection."""
        with self.connect() as client:
            return client.send(data).rest()

    def answers(self, data: bytes, count: int) -> list[Answer]:
        """Send, and read so many answers."""
        with self.connect() as client:
            client.send(data)
            return [client.answer() for _ in range(count)]

    def ask(self, what: Callable[[Service], T]) -> T:
        """Run something on the loop."""
        found: list[Any] = []
        done = threading.Event()

        def act() -> None:
            try:
                found.append(what(self.service))
            finally:
                done.set()

        self.loop.call_soon_threadsafe(act)
        assert done.wait(PATIENCE), "the loop does not answer"
        result: T = found[0]
        return result

    def log(self, name: str = "error.log") -> str:
        file = self.folder / name
        return file.read_text(errors="replace") if file.exists() else ""


def written(folder: Path, server: str, http: str, ports: tuple[int, int]) -> str:
    """The configuration's text: `server` is the inside of one server unless `http` has servers of its own."""
    listen = "" if "listen " in server else "listen 127.0.0.1:%PORT%;"
    servers = f"server {{ {listen}\n{server}\n}}" if server or "listen " not in http else ""
    access = "" if "access_log" in http + server else "access_log off;"
    text = CONF.format(folder=folder, mime=MIME, log=access, http=http, servers=servers)
    for name, value in (("PORT2", ports[1]), ("PORT", ports[0]), ("ROOT", f"{folder}/root"), ("FOLDER", folder)):
        text = text.replace(f"%{name}%", str(value))
    return text


def bound(folder: Path, server: str, http: str) -> tuple[Loaded, list[socket.socket], tuple[int, int]]:
    """Load, and listen; again with other ports where somebody took one meanwhile."""
    for attempt in range(5):
        ports = free_port(), free_port()
        (folder / "main.conf").write_text(written(folder, server, http, ports))
        loaded = load(str(folder / "main.conf"), Paths(f"{folder}/", f"{folder}/"), TABLES)
        sockets: list[socket.socket] = []
        try:
            for listen in loaded.site.listens:
                if listen.bound:
                    sockets.append(socket.create_server((listen.host, listen.port)))
        except OSError as error:
            for sock in sockets:
                sock.close()
            if error.errno != errno.EADDRINUSE or attempt == 4:
                raise
        else:
            return loaded, sockets, ports
    raise AssertionError("unreachable")


@contextmanager
def serving(folder: Path, server: str = "", *, http: str = "", files: dict[str, bytes] | None = None) -> Iterator[Site]:
    """Serve while the block runs."""
    (folder / "root").mkdir(parents=True, exist_ok=True)
    for name, content in (files or {}).items():
        path = folder / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1_000_000_000, 1_000_000_000))  # Sun, 09 Sep 2001 01:46:40 GMT
    if not running:  # nothing that a test has only loaded
        log.files.begin()
        log.files.settle()
    loaded, sockets, ports = bound(folder, server, http)
    log.files.open()
    running.append(folder)
    loop = loops.new()
    service = Service(loaded.site, loop)
    listens = [listen for listen in loaded.site.listens if listen.bound]
    for listen, sock in zip(listens, sockets, strict=True):
        sock.setblocking(False)
        service.serve(listen, sock)
    service.start()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Site(folder, ports, loop, service)
    finally:
        loop.call_soon_threadsafe(service.close)
        loop.call_soon_threadsafe(loop.call_soon, loop.stop)
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the loop does not stop"
        for sock in sockets:
            sock.close()
        loop.close()
        asyncio.set_event_loop(None)
        running.remove(folder)
        if not running:  # the log files are the process's
            log.files.begin()
            log.files.settle()
