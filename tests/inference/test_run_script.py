"""deploy/run.sh with the real gunicorn and a stand-in for the gateway: starts both, tells what is wrong, stops both."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference.settings import PROJECT
from tests.inference.conftest import wait_until

GATEWAY = '''
import http.server, re, signal, sys, pathlib
conf = pathlib.Path(sys.argv[sys.argv.index("-c") + 1]).read_text()
if "broken" in conf:
    sys.exit("tengine: [emerg] unknown directive")
signal.signal(signal.SIGQUIT, lambda *_: sys.exit(0))
port = int(re.search(r"listen +(\\d+)", conf)[1])
print("gateway arguments", sys.argv[1:], re.search(r"proxy_pass (\\S+);", conf)[1], flush=True)
http.server.HTTPServer(("127.0.0.1", port), http.server.BaseHTTPRequestHandler).serve_forever()
'''
CONF = "server {\n    listen 7860;\n    location / { proxy_pass http://127.0.0.1:8000; }\n}\n"
CONFIG = f"""
exec(open({str(PROJECT / "deploy" / "gunicorn.conf.py")!r}).read())
wsgi_app = "tests.inference.tone_wsgi:app"
"""


class Tree:
    """A small project around a copy of the script, and the script running in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ports = [free_port(), free_port()]
        self.process: subprocess.Popen[bytes] | None = None
        for name in ("deploy", "gateway", "conf"):
            (root / name).mkdir()
        for name in ("inference", "tests", "webui"):
            (root / name).symlink_to(PROJECT / name)
        shutil.copy(PROJECT / "deploy" / "run.sh", root / "deploy")
        (root / "deploy" / "gunicorn.conf.py").write_text(CONFIG)
        (root / "gateway" / "__main__.py").write_text(GATEWAY)
        (root / "conf" / "tengine.conf").write_text(CONF)

    def start(self, **environ: str) -> None:
        settings = {
            "VENV": sys.prefix, "GATEWAY_PORT": str(self.ports[0]), "SPEECH_PORT": str(self.ports[1]),
            "TONE_FOLDER": str(self.root), "OUTPUT_DIR": str(self.root / "outputs"), "QUEUE_SIZE": "2",
        }  # fmt: skip
        with open(self.root / "log", "wb") as log:
            self.process = subprocess.Popen(
                [self.root / "deploy" / "run.sh"], env=os.environ | settings | environ, stdout=log, stderr=log, cwd="/"
            )

    def log(self) -> str:
        return (self.root / "log").read_text()

    def wait_for(self, words: str) -> None:
        assert self.process is not None
        wait_until(lambda: words in self.log() or self.process.poll() is not None, 60)  # type: ignore[union-attr]
        assert words in self.log(), self.log()

    def end(self) -> int:
        assert self.process is not None
        return self.process.wait(90)

    def everything_is_gone(self) -> bool:
        return all(port_is_free(port) for port in self.ports)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    made = Tree(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.terminate()
        made.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_starts_both_says_what_to_try_and_stops_both(tree: Tree, number: signal.Signals) -> None:
    tree.start()
    tree.wait_for("Ctrl-C")
    assert f"curl -s http://127.0.0.1:{tree.ports[0]}/generate_audio" in tree.log()
    assert f"http://127.0.0.1:{tree.ports[1]}" in tree.log().split("gateway arguments")[1]
    assert not any(port_is_free(port) for port in tree.ports)
    assert tree.process is not None
    tree.process.send_signal(number)
    assert tree.end() == 0
    assert "both are stopped" in tree.log()
    assert tree.everything_is_gone()
    assert os.listdir(tree.root / "conf") == ["tengine.conf"]


@pytest.mark.parametrize("which", ["speech service", "gateway"])
def test_when_one_dies_the_other_is_stopped(tree: Tree, which: str) -> None:
    tree.start()
    tree.wait_for("Ctrl-C")
    os.kill(child(tree, "gunicorn" if which == "speech service" else "gateway"), signal.SIGKILL)
    assert tree.end() == 1
    assert f"the {which} ended by itself (exit status 137)" in tree.log()
    wait_until(tree.everything_is_gone)


def child(tree: Tree, module: str) -> int:
    assert tree.process is not None
    children = Path(f"/proc/{tree.process.pid}/task/{tree.process.pid}/children").read_text().split()
    wanted = f"-m\0{module}\0".encode()
    return next(int(pid) for pid in children if wanted in Path(f"/proc/{pid}/cmdline").read_bytes())


def take_gateway_port(tree: Tree) -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", tree.ports[0]))
    sock.listen()
    return sock


def break_conf(tree: Tree) -> None:
    (tree.root / "conf" / "tengine.conf").write_text("broken")


def remove_conf(tree: Tree) -> None:
    (tree.root / "conf" / "tengine.conf").unlink()


@pytest.mark.parametrize(
    ("prepare", "environ", "words"),
    [
        (take_gateway_port, {}, "set GATEWAY_PORT to another one"),
        (break_conf, {}, "the gateway could not start (exit status 1)"),
        (remove_conf, {}, "conf/tengine.conf is missing"),
        (lambda tree: None, {"ENGINE": "cosyvoice3"}, "the speech service could not start (exit status 1)"),
        (lambda tree: None, {"VENV": "/nowhere"}, "there is no virtual environment in /nowhere"),
        (lambda tree: None, {"SPEECH_PORT": "99999"}, "port 99999 is taken or not allowed"),
    ],
)
def test_what_cannot_start_is_said_and_nothing_stays(
    tree: Tree, prepare: Callable[[Tree], socket.socket | None], environ: dict[str, str], words: str
) -> None:
    kept = prepare(tree)
    tree.start(**environ)
    assert tree.end() == 1
    assert words in tree.log(), tree.log()
    if kept is not None:
        kept.close()
    wait_until(tree.everything_is_gone)
