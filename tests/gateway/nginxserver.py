"""Real nginx, running: for tests that compare what both servers do."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.parity.server import find_nginx

LIMIT = 10.0  # seconds to start or stop


def ask(port: int, data: bytes, *, half_close: bool = True) -> bytes:
    """Send and read to the end; `half_close` says that no more comes (nginx, proxying, takes that for leaving)."""
    with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
        sock.sendall(data)
        if half_close:
            sock.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := sock.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


@contextmanager
def nginx(folder: Path, http: str, port: int) -> Iterator[None]:
    """Run nginx on an http block that listens on 127.0.0.1:port."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temps = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log info; events {{}}\n"
        f"http {{ access_log off; {temps}\n{http}\n}}\n"
    )
    command = [find_nginx() or "nginx", "-p", str(folder), "-c", "nginx.conf", "-e", f"{folder}/error.log"]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
