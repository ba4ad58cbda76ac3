"""A server in a thread of the test's process, for configurations with Lua."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway import build, log
from gateway.config.schema import Paths
from gateway.http.service import Service
from gateway.process.settings import TABLES

FRAME = """
error_log logs/error.log info;
events {{}}
http {{
    default_type text/plain;
    {http}
    server {{
        listen 127.0.0.1:8080;
        root html;
{server}
    }}
}}
"""


class Answer:
    """A parsed response; `raw` as it came."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if raw else 0
        self.fields = [(name, value) for name, _, value in (line.partition(": ") for line in lines[1:])]
        self.body = _dechunked(body) if self.get("Transfer-Encoding") == "chunked" else body

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.fields if key.lower() == name.lower()), None)

    @property
    def text(self) -> str:
        return self.body.decode()


def _dechunked(body: bytes) -> bytes:
    out = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        out, body = out + body[:length], body[length + 2 :]
    return out


class Server:
    """What a test talks to."""

    def __init__(self, port: int, root: Path) -> None:
        self.port, self.root = port, root

    def get(self, target: str, *headers: str, method: str = "GET", body: bytes = b"", http: str = "1.1") -> Answer:
        lines = [f"{method} {target} HTTP/{http}", "Host: localhost", "Connection: close", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    def raw(self, data: bytes) -> Answer:
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
            client.sendall(data)
            received = b""
            try:
                while piece := client.recv(65536):
                    received += piece
            except ConnectionResetError:
                pass
        return Answer(received)

    @property
    def log(self) -> str:
        return (self.root / "logs/error.log").read_text()


def load(root: Path, server: str, http: str = "") -> build.Loaded:
    """Load a configuration made of the lines of its `server` and `http` blocks."""
    for folder in ("conf", "logs", "html"):
        (root / folder).mkdir(exist_ok=True)
    conf = root / "conf" / "nginx.conf"
    conf.write_text(FRAME.format(server=server, http=http))
    return build.load(str(conf), Paths(f"{root}/", f"{root}/conf/"), TABLES)


@contextmanager
def serving(root: Path, server: str, http: str = "") -> Iterator[Server]:
    """Serve while the block runs."""
    loaded = load(root, server, http)
    log.files.open()
    loop = asyncio.new_event_loop()
    service = Service(loaded.site, loop)
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    port = sock.getsockname()[1]
    service.serve(loaded.site.listens[0], sock)
    service.start()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Server(port, root)
    finally:
        done = threading.Event()
        loop.call_soon_threadsafe(lambda: service.drain(done.set))
        done.wait(5)
        loop.call_soon_threadsafe(service.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        assert not thread.is_alive(), "the loop does not stop"
        sock.close()
        loop.close()
        log.files.begin()
        log.files.settle()
