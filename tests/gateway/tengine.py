"""A real tengine in a folder of its own, started from the command line, for the tests of processes and logs."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LIMIT = 10.0  # seconds that anything may take; a busy machine needs a few
COMMAND = (sys.executable, "-m", "gateway")


def until(what: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait for a condition that another process brings about. Raises AssertionError when it does not come."""
    deadline = time.monotonic() + limit
    while not what():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass(slots=True)
class Tengine:
    """One server; `pid` of its master is that in the pid file."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def write(self, http: str = "", main: str = "worker_processes 1;", server: str = "") -> None:
        """Write main.conf: one server on our port, logs in our folder."""
        user = "user root;" if os.geteuid() == 0 else ""
        folder = self.folder
        (folder / "main.conf").write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/error.log info; {user} {main}\n"
            f"events {{ }}\nhttp {{ root {folder}; access_log {folder}/access.log; {http}\n"
            f"server {{ listen 127.0.0.1:{self.port}; {server} location = /say {{ return 200 ok; }} }} }}\n"
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run the program to its end."""
        return subprocess.run(
            [*COMMAND, "-p", str(self.folder), "-c", "main.conf", "-e", "early.log", *words],
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )

    def start(self, *words: str, wait: bool = True) -> None:
        """Start it and wait until it serves."""
        command = [*COMMAND, "-p", str(self.folder), "-c", "main.conf", "-e", "early.log", *words]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if wait:
            until(lambda: (self.folder / "pid").exists() or self.ended())
            assert self.process.poll() is None, self.errors()

    def ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def pid(self) -> int:
        return int((self.folder / "pid").read_text())

    def workers(self) -> list[int]:
        """The process ids of the living workers, as the error log tells them."""
        log = self.log()
        born = [int(pid) for pid in re.findall(r"start worker process (\d+)", log)]
        dead = {int(pid) for pid in re.findall(r"worker process (\d+) exited", log)}
        return [pid for pid in born if pid not in dead]

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid(), number)

    def log(self) -> str:
        """The error log so far."""
        file = self.folder / "error.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def errors(self) -> str:
        """What it said on standard error, once it has ended."""
        assert self.process is not None and self.process.stderr is not None
        return self.process.stderr.read().decode()

    def access(self) -> list[str]:
        return (self.folder / "access.log").read_text().splitlines()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), LIMIT)

    def get(self, path: str = "/say", headers: Sequence[str] = ()) -> str:
        """One request on a connection of its own; the whole answer."""
        lines = "".join(line + "\r\n" for line in headers)
        return self.exchange(f"GET {path} HTTP/1.0\r\n{lines}\r\n".encode())

    def exchange(self, data: bytes) -> str:
        """Send and read to the end."""
        with self.connect() as sock:
            sock.sendall(data)
            return read_all(sock).decode("latin-1")

    def stop(self, number: signal.Signals = signal.SIGQUIT) -> int:
        """Stop it; returns the exit code."""
        process = self.process
        assert process is not None
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(LIMIT)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stderr is not None:
                process.stderr.close()


def read_all(sock: socket.socket) -> bytes:
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)
