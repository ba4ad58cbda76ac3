"""The service under its real gunicorn configuration: clients that leave, kill -9, stopping, and starting wrongly."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path

import pytest

from inference.settings import PROJECT
from tests.inference.conftest import wait_until

HEAD = b"POST /%s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@dataclass(slots=True)
class Served:
    """A running gunicorn on a port of its own."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    def ask(self, method: str, path: str, body: object = None) -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer, data

    def say(self, **fields: object) -> tuple[HTTPResponse, bytes]:
        return self.ask("POST", "/generate_audio", {"text": "one two"} | fields)

    def connect(self, text: str) -> socket.socket:
        """Send a request and leave its answer unread."""
        body = json.dumps({"text": text}).encode()
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        sock.sendall(HEAD % (b"generate_audio", len(body)) + body)
        return sock

    def event(self, name: str) -> Path:
        return self.folder / name

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def worker(self) -> int:
        return int(re.findall(r"Booting worker with pid: (\d+)", self.log())[-1])


def start(folder: Path, **environ: str) -> Served:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "SPEECH_BIND": f"127.0.0.1:{port}", "TONE_FOLDER": str(folder), "OUTPUT_DIR": str(folder / "outputs"),
        "PROMPT_DIR": str(folder / "prompts"), "QUEUE_SIZE": "2", "BODY_TIMEOUT": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py", "tests.inference.tone_wsgi:app"]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=PROJECT, env=os.environ | settings | environ, stdout=log, stderr=subprocess.STDOUT
        )
    return Served(process, port, folder)


def ready(served: Served) -> bool:
    assert served.process.poll() is None, served.log()
    try:
        return served.ask("GET", "/readyz")[0].status == 200
    except OSError:
        return False


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = start(tmp_path)
    try:
        wait_until(lambda: ready(made), 60)
        yield made
    finally:
        made.event("release").touch()
        if made.process.poll() is None:
            made.process.terminate()
        made.process.wait(60)


def test_speaks_with_one_worker_after_the_fork(served: Served) -> None:
    answer, data = served.say(seed=42)
    assert answer.status == 200 and data[:4] == b"RIFF" and answer.headers["X-Seed"] == "42"
    children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text().split()
    assert children == [str(served.worker())]
    assert "the engine tone is ready" in served.log()
    assert answer.headers["X-Request-Id"] in served.log()


def test_client_that_leaves_stops_the_work(served: Served) -> None:
    sock = served.connect("one {hold} two three")
    wait_until(served.event("holding").exists)
    sock.close()
    wait_until(lambda: " 499 " in served.log())
    served.event("release").touch()
    wait_until(served.event("stopped").exists)
    assert served.say()[0].status == 200
    assert len(list((served.folder / "outputs").iterdir())) == 1


def test_full_queue_and_health_beside_it(served: Served) -> None:
    held = [served.connect("{hold}")]
    wait_until(served.event("holding").exists)
    held += [served.connect("one") for _ in range(2)]
    wait_until(lambda: json.loads(served.ask("GET", "/readyz")[1])["queued"] == 2)
    answer, data = served.say()
    assert answer.status == 429 and int(answer.headers["Retry-After"]) >= 1
    assert json.loads(data)["error"]["code"] == "queue_full"
    assert served.ask("GET", "/healthz")[0].status == 200
    served.event("release").touch()
    for sock in held:
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
        sock.close()


def test_acknowledged_recordings_survive_kill_9(served: Served) -> None:
    kept: dict[str, bytes] = {}
    done = threading.Event()

    def speak() -> None:
        try:
            while True:
                answer, data = served.say()
                if answer.status == 200 and len(data) == int(answer.headers["Content-Length"]):
                    kept[answer.headers["Content-Location"]] = data
        except (OSError, HTTPException):  # killed between answers, or in the middle of one
            done.set()

    speakers = [threading.Thread(target=speak) for _ in range(3)]
    for speaker in speakers:
        speaker.start()
    wait_until(lambda: len(kept) >= 20)
    victim = served.worker()
    os.kill(served.process.pid, signal.SIGKILL)
    os.kill(victim, signal.SIGKILL)
    served.process.wait(30)
    for speaker in speakers:
        speaker.join(30)
    assert done.is_set()
    again = start(served.folder)
    try:
        wait_until(lambda: ready(again), 60)
        for url, data in kept.items():
            assert again.ask("GET", url)[1] == data
        for path in (served.folder / "outputs").glob("*.wav"):
            assert path.stat().st_size == 44 + 2 * 2400 * 2
    finally:
        again.process.terminate()
        again.process.wait(60)


def test_a_killed_worker_is_replaced(served: Served) -> None:
    first = served.worker()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: served.worker() != first)
    wait_until(lambda: ready(served), 60)
    assert served.say()[0].status == 200


def test_stopping_lets_the_request_in_work_end_and_closes_the_engine(served: Served) -> None:
    sock = served.connect("one {hold} two")
    wait_until(served.event("holding").exists)
    served.process.terminate()
    wait_until(lambda: "Handling signal: term" in served.log())
    served.event("release").touch()
    answer = b""
    while piece := sock.recv(65536):
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200 ") and len(answer) > 3 * 2400 * 2
    sock.close()
    assert served.process.wait(60) == 0
    assert served.event("closed").exists()


def test_a_body_that_stops_coming_is_408(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as sock:
        sock.sendall(HEAD % (b"infer", 99) + b"{")
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 408 ") and b'"request_timeout"' in answer


def test_huge_headers_and_bodies(served: Served) -> None:
    for head, status in (
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Big: " + b"x" * 20_000, b"431"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"\r\n".join(b"X-%d: 1" % n for n in range(200)), b"431"),
        (HEAD.removesuffix(b"\r\n\r\n") % (b"infer", 99_999_999), b"413"),
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as sock:
            sock.sendall(head + b"\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 " + status)
    assert served.say()[0].status == 200


def test_a_chunked_body_is_read(served: Served) -> None:
    body = json.dumps({"text": "one"}).encode()
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as sock:
        sock.sendall(b"POST /infer HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n")
        sock.sendall(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")


def test_wrong_settings_stop_it_at_once_with_one_clear_line(tmp_path: Path) -> None:
    refused = start(tmp_path, ENGINE="cosyvoice3")
    assert refused.process.wait(60) != 0
    assert "ENGINE=cosyvoice3: there is no such engine" in refused.log()
    assert "Traceback" not in refused.log()
