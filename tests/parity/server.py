"""Starts and stops nginx or tengine on the conf of a case, in a folder of its own."""

import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.parity.case import Case
from tests.parity.client import Fill

FIXED_TIME = 1_000_000_000  # Sun, 09 Sep 2001 01:46:40 GMT
START = 10.0  # seconds a server may take to listen
STOP = 10.0  # seconds a server may take to leave


class ServerError(AssertionError):
    """A server did not start, or did not stop."""


@dataclass(slots=True)
class Side:
    """One of the two servers: its command, its folder, its ports."""

    name: str
    command: list[str]
    prefix: Path
    ports: tuple[int, int]
    fill: Fill
    process: subprocess.Popen[bytes] | None = None


def find_nginx() -> str | None:
    return os.environ.get("NGINX") or shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def free_ports(count: int) -> list[int]:
    """Ports of five digits, so that bodies which hold one have the same length for both servers."""
    sockets: list[socket.socket] = []
    while len(sockets) < count:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        sockets.append(sock)
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports if min(ports) >= 10000 else free_ports(count)


def make_root(case: Case, root: Path) -> None:
    """Write the document root; every entry gets the same fixed time, since ETag and Last-Modified come from it."""
    root.mkdir(parents=True)
    for name in case.dirs:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, content in case.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name, target in case.links.items():
        (root / name).symlink_to(target)
    for path in [root, *root.rglob("*")]:
        os.utime(path, (FIXED_TIME, FIXED_TIME), follow_symlinks=False)


def conf(case: Case, side: Side) -> str:
    """The whole configuration; only paths and ports differ between the two sides."""
    listen = "listen 127.0.0.1:%PORT%;\n"
    servers = "".join("server {\n" + ("" if "listen " in text else listen) + text + "}\n" for text in case.servers)
    text = (
        "daemon off;\nworker_processes 1;\npid %PREFIX%/nginx.pid;\nerror_log %PREFIX%/logs/error.log info;\n"
        + ("user root;\n" if os.geteuid() == 0 else "")
        + load_modules(case, side)
        + case.main
        + "events { worker_connections 256; }\nhttp {\ninclude %PREFIX%/temp.conf;\nroot %ROOT%;\n"
        + ("" if "access_log" in case.http else "access_log off;\n")
        + case.http
        + servers
        + "}\n"
    )
    return side.fill.text(text)


def module_file(name: str) -> Path:
    return Path("/usr/lib/nginx/modules") / f"{name}.so"


def load_modules(case: Case, side: Side) -> str:
    """One line for both sides, since messages name the line."""
    loads = [f"load_module {module_file(name)};" for name in case.modules if side.name == "nginx"]
    return " ".join(loads) + "\n"


def write(case: Case, side: Side) -> None:
    (side.prefix / "logs").mkdir(parents=True)
    kinds = ["client_body"]
    if side.name == "nginx" or "proxy_" in case.http + "".join(case.servers):
        kinds.append("proxy")
    if side.name == "nginx":  # compiled-in paths of these need root
        kinds += ["fastcgi", "uwsgi", "scgi"]
    temp = "".join(f"{kind}_temp_path {side.prefix}/{kind}_temp;\n" for kind in kinds)
    (side.prefix / "temp.conf").write_text(temp)
    (side.prefix / "nginx.conf").write_text(conf(case, side))


def arguments(side: Side) -> list[str]:
    return [*side.command, "-p", f"{side.prefix}/", "-c", "nginx.conf", "-e", "logs/error.log"]


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def start(side: Side) -> None:
    """Start the server; raises ServerError with what it said if it does not listen in time."""
    output = side.prefix / "output"
    with output.open("wb") as stream:
        side.process = subprocess.Popen(arguments(side), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    deadline = time.monotonic() + START
    # The pid file is written last, when all sockets listen.
    while not (side.prefix / "nginx.pid").exists() or not listens(side.ports[0]):
        if side.process.poll() is not None or time.monotonic() > deadline:
            stop(side)
            raise ServerError(f"{side.name} did not start:\n{output.read_text(errors='replace')}")
        time.sleep(0.005)


def stop(side: Side) -> None:
    """Stop the server gracefully; a server that stays is killed with its workers and reported."""
    process = side.process
    if process is None or process.poll() is not None:
        return
    process.send_signal(signal.SIGQUIT)
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise ServerError(f"{side.name} did not leave within {STOP:.0f} s after QUIT") from None


def refuse(side: Side) -> str:
    """Exit code and messages of `-t`."""
    done = subprocess.run([*arguments(side), "-t"], capture_output=True, timeout=START, stdin=subprocess.DEVNULL)
    return f"exit {done.returncode}\n{done.stderr.decode(errors='replace')}"
