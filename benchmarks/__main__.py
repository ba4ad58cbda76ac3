"""Runs the cases and prints a table: python -m benchmarks [--quick] [--cases static,bundle] [--tengine COMMAND]."""

import argparse
import json
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import cases, content, servers
from benchmarks.cases import Case
from benchmarks.servers import Server

PROJECT = Path(__file__).parents[1]
CONNECTIONS = 64
RESTING = (
    ("pss_mb", "MB at rest, master and 2 workers; tengine with conf/tengine.conf"),
    ("start_s", "seconds from start to the first answer"),
)


@dataclass(slots=True)
class Result:
    """CPU per request in microseconds, a figure per round."""

    case: str
    about: str
    nginx: list[float] = field(default_factory=list)
    tengine: list[float] = field(default_factory=list)
    nginx_rps: list[float] = field(default_factory=list)
    tengine_rps: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.nginx, self.tengine, strict=True))


def fetch(port: int, target: str) -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{target}", headers={"Host": "localhost"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status, answer.read()


def load(server: Server, case: Case, script: Path, seconds: float) -> tuple[float, float]:
    """CPU microseconds and requests per second under load; raises RuntimeError if an answer was not well."""
    url = f"http://127.0.0.1:{server.port}{case.target}"
    wrk = ["wrk", "--timeout", "10s", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s"]
    command = [*servers.pinned(servers.LOAD_CORE), *wrk]
    if case.script:
        script.write_text(case.script)
        command += ["-s", str(script)]
    for header in case.headers:
        command += ["-H", header]
    before, begun = servers.cpu(server), time.perf_counter()
    done = subprocess.run([*command, url], capture_output=True, text=True, check=True)
    used, passed = servers.cpu(server) - before, time.perf_counter() - begun
    bad = re.search(r"Non-2xx.*|Socket errors.*", done.stdout)
    if bad and "Connection: close" not in case.headers:
        raise RuntimeError(f"{server.name}: {bad[0]}")
    requests = re.search(r"(\d+) requests in", done.stdout)
    count = int(requests[1]) if requests else 0
    if not count:
        raise RuntimeError(f"{server.name} answered nothing: {done.stdout} {done.stderr}")
    return used / count * 1e6, count / passed


def measure(case: Case, sides: list[Server], folder: Path, rounds: int, seconds: float) -> Result:
    """All rounds of a case; the servers take turns, and who begins alternates."""
    result = Result(case.name, case.about)
    expected, got = (fetch(side.port, case.target) for side in sides)
    if expected != got:
        raise RuntimeError(f"{case.name}: the answers differ")
    for side in sides:
        load(side, case, folder / "load.lua", 1)
    for number in range(rounds):
        for side in sides if number % 2 == 0 else sides[::-1]:
            used, rate = load(side, case, folder / "load.lua", seconds)
            getattr(result, side.name).append(used)
            getattr(result, f"{side.name}_rps").append(rate)
    return result


def compare(case: Case, options: argparse.Namespace, folder: Path) -> Result:
    running: list[Server] = []
    origin = None
    try:
        if case.upstream:
            plain = Case("origin", "", "access_log off; sendfile off; open_file_cache max=100;")
            origin = servers.start(
                "origin", [options.nginx], folder / "origin", cases.conf(plain, folder / "root", 0), servers.LOAD_CORE
            )
        text = cases.conf(case, folder / "root", origin.port if origin else 0)
        for name in ("nginx", "tengine"):
            running.append(servers.start(name, getattr(options, name).split(), folder / case.name / name, text))
        return measure(case, running, folder, options.rounds, options.seconds)
    finally:
        for server in [*running, *([origin] if origin else [])]:
            servers.stop(server)


def default_conf(folder: Path) -> str | None:
    """conf/tengine.conf with a free port, two workers and folders of its own; None if it is not there."""
    path = PROJECT / "conf" / "tengine.conf"
    if not path.exists():
        return None
    text = re.sub(r"listen\s+7860", "listen 127.0.0.1:%PORT%", path.read_text())
    text = re.sub(r"^\s*(daemon|worker_processes|pid|error_log)\s[^;]*;", "", text, flags=re.MULTILINE)
    text = re.sub(r"(include|content_by_lua_file|compress_by_lua_file)\s+(?!/)", rf"\1 {path.parent}/", text)
    return "daemon off; worker_processes 2; pid %PREFIX%/nginx.pid; error_log %PREFIX%/logs/error.log;\n" + text


def idle(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """Memory of master and two workers at rest, in MB, and seconds from start to first answer (best of some)."""
    plain = cases.conf(Case("idle", "", cases.USUAL), folder / "root", 0, workers=2)
    out = {}
    for name, text in (("nginx", plain), ("tengine", default_conf(folder) or plain)):
        starts, memory = [], 0.0
        for attempt in range(2 if options.quick else 5):
            server = servers.start(name, getattr(options, name).split(), folder / f"idle-{name}-{attempt}", text)
            time.sleep(0.5)
            starts.append(server.seconds)
            memory = servers.pss(server)
            servers.stop(server)
        out[name] = {"pss_mb": round(memory, 1), "start_s": round(statistics.median(starts), 3)}
    return out


def table(results: list[Result], resting: dict[str, dict[str, float]]) -> str:
    lines = [
        "CPU per request in µs; a ratio above 1 means that tengine is cheaper",
        f"{'case':16}{'nginx':>9}{'tengine':>9}{'ratio':>8}   what",
    ]
    for result in results:
        if result.note:
            lines.append(f"{result.case:16}{'-':>9}{'-':>9}{'-':>8}   {result.note}")
            continue
        left, right = statistics.median(result.nginx), statistics.median(result.tengine)
        lines.append(f"{result.case:16}{left:9.1f}{right:9.1f}{result.ratio:8.2f}   {result.about}")
    for key, what in RESTING if resting else ():
        lines.append(f"{key:16}{resting['nginx'][key]:9}{resting['tengine'][key]:9}{'':8}   {what}")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--tengine", default=f"{sys.executable} -m gateway", help="command of the server to measure")
    parser.add_argument("--nginx", default=shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin") or "nginx")
    parser.add_argument("--cases", default="", help="names, with commas between; `idle` for memory and start")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--quick", action="store_true", help="two short rounds: a first look, not a figure to quote")
    parser.add_argument("--json", type=Path, help="where to write the figures (default: benchmarks/results/)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 2, 1
    for program in ("wrk", options.nginx):
        if not shutil.which(program):
            parser.error(f"{program} is needed (Debian, Ubuntu: apt-get install wrk nginx)")
    return options


def main() -> int:
    options = parse()
    wanted = set(filter(None, options.cases.split(",")))
    results: list[Result] = []
    resting: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        for case in cases.every(content.make(folder / "root")):
            if wanted and case.name not in wanted:
                continue
            print(f"measuring {case.name} …", file=sys.stderr)
            try:
                results.append(compare(case, options, folder))
            except RuntimeError as error:
                results.append(Result(case.name, case.about, note=str(error)))
        if not wanted or "idle" in wanted:
            resting = idle(options, folder)
    print(table(results, resting))
    write(options, results, resting)
    return 1 if any(result.note for result in results) else 0


def write(options: argparse.Namespace, results: list[Result], resting: dict[str, dict[str, float]]) -> None:
    path = options.json or PROJECT / "benchmarks" / "results" / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([options.nginx, "-v"], capture_output=True, text=True, check=False).stderr.strip()
    record = {
        "machine": platform.platform(),
        "python": platform.python_version(),
        "reference": version,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "cases": [asdict(result) | ({} if result.note else {"ratio": result.ratio}) for result in results],
        "idle": resting,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"figures: {path}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
