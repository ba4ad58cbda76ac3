"""Starts servers pinned to a core, and reads what they cost from /proc."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")
SERVER_CORE, LOAD_CORE = "0", "1"


@dataclass(slots=True)
class Server:
    name: str
    process: subprocess.Popen[bytes]
    port: int
    seconds: float  # from the start of the process to its first answer


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def pinned(core: str) -> list[str]:
    taskset = shutil.which("taskset")
    return [taskset, "-c", core] if taskset and (os.cpu_count() or 1) > 1 else []


def answers(port: int) -> bool:
    """Whether any HTTP answer comes from the port."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return sock.recv(5) == b"HTTP/"
    except OSError:
        return False


def start(name: str, command: list[str], prefix: Path, conf: str, core: str = SERVER_CORE) -> Server:
    """Start a server on a conf with %PORT% and %PREFIX% in it; raises RuntimeError with its messages if it does not."""
    port = free_port()
    (prefix / "logs").mkdir(parents=True, exist_ok=True)
    (prefix / "nginx.conf").write_text(conf.replace("%PORT%", str(port)).replace("%PREFIX%", str(prefix)))
    output = prefix / "output"
    full = [*pinned(core), *command, "-p", f"{prefix}/", "-c", "nginx.conf", "-e", "logs/error.log"]
    begun = time.perf_counter()
    with output.open("wb") as stream:
        process = subprocess.Popen(full, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    while not answers(port):
        if process.poll() is not None or time.perf_counter() - begun > 15:
            process.kill()
            process.wait()
            raise RuntimeError(f"{name} did not start: {output.read_text(errors='replace').strip()}")
        time.sleep(0.002)
    return Server(name, process, port, time.perf_counter() - begun)


def stop(server: Server) -> None:
    server.process.send_signal(signal.SIGQUIT)
    try:
        server.process.wait(5)
    except subprocess.TimeoutExpired:
        server.process.terminate()
        server.process.wait(10)


def tree(root: int) -> Iterator[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = stat(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, [])


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on (proc(5)); empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def cpu(server: Server) -> float:
    """Seconds of user and system time of the whole tree so far, children that have ended included."""
    return sum(TICK * sum(map(int, fields[11:15])) for pid in tree(server.process.pid) if (fields := stat(pid)))


def pss(server: Server) -> float:
    """Proportional set size of the whole tree, in MB."""
    total = 0
    for pid in tree(server.process.pid):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1000
