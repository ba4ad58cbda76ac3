"""Fixtures for all tests: a real gateway on a conf of the test's own."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.parity import run, server
from tests.parity.case import Case, Exchange, Part
from tests.parity.client import Fill, Message, converse, settle
from tests.parity.server import Side


@dataclass(slots=True)
class Gateway:
    """A running tengine: `send` and `get` speak raw HTTP/1 to it; what it wrote lies under `prefix`."""

    side: Side
    root: Path

    @property
    def port(self) -> int:
        return self.side.ports[0]

    @property
    def prefix(self) -> Path:
        return self.side.prefix

    def send(self, data: bytes, expect: int = 0) -> list[Message]:
        """Send bytes on a new connection; the answers (as many as request lines, unless `expect` says otherwise)."""
        talk = converse(self.port, Exchange("", [Part(data)], expect), self.side.fill)
        settle([talk])
        return talk.messages

    def get(self, target: str, *headers: str, method: str = "GET") -> Message:
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers, "", ""]
        return self.send("\r\n".join(lines).encode())[-1]

    def log(self, name: str) -> str:
        return (self.prefix / "logs" / name).read_text(errors="replace")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """Start tengine: `gateway("server block", http="...", main="...", files={"name": b"..."})`, as in a parity case."""
    running: list[Side] = []

    def start(block: str = "", *, http: str = "", main: str = "", files: dict[str, bytes] | None = None) -> Gateway:
        folder = tmp_path / f"gateway{len(running)}"
        case = Case(folder, main=main, http=http, servers=[block] if block else [], files=files or {})
        first, second = server.free_ports(2)
        root, prefix = folder / "root", folder / "tengi"
        fill = Fill({"PORT2": str(second), "PORT": str(first), "ROOT": str(root), "PREFIX": str(prefix)})
        side = Side("tengi", run.tengine_command(), prefix, (first, second), fill)
        server.make_root(case, root)
        server.write(case, side)
        server.start(side)
        running.append(side)
        return Gateway(side, root)

    yield start
    for side in running:
        server.stop(side)


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside() -> None:
    """What a developer has set for the services must not change a test."""
    for name in ("MODEL_DIR", "CDN_BASE_URL", "DATABASE_URL", "ADMIN_TOKEN"):
        os.environ.pop(name, None)
