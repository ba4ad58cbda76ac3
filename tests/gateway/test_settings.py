"""What the core's own directives do in a running server: temporary files, limits, error logs, listens."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import log
from gateway.config.merge import merged
from gateway.http.settings import Http
from tests.gateway.livesite import PATIENCE
from tests.gateway.nginx import agrees, compiled, needs_nginx
from tests.gateway.tengine import Tengine

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    yield made
    if made.process is not None:
        made.stop()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter: pytest's are private."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@as_root
def test_workers_may_spill_bodies_to_the_default_folder(open_folder: Path) -> None:
    server = Tengine(open_folder)
    server.write(
        http="client_body_buffer_size 1k;",
        server=f"location = /up {{ proxy_pass http://127.0.0.1:{server.port}/say; }}",
    )
    conf = open_folder / "main.conf"
    conf.write_text(conf.read_text().replace("user root;", ""))
    server.start()
    try:
        body = b"x" * 300_000
        answer = server.exchange(b"POST /up HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        assert answer.startswith("HTTP/1.1 200 "), server.log()
        spilled = os.stat(open_folder / "client_body_temp")
        assert (pwd.getpwuid(spilled.st_uid).pw_name, spilled.st_mode & 0o777) == ("nobody", 0o700)
    finally:
        server.stop()


def test_a_folder_for_bodies_is_relative_to_the_prefix(tmp_path: Path) -> None:
    made = compiled(tmp_path, "server { } server { client_body_temp_path a/b; location / { } }")
    levels = made.root.children[-1].children
    folders = [merged(Http, level).client_body_temp_path for level in levels]
    assert folders == [f"{tmp_path}/client_body_temp", f"{tmp_path}/a/b"]


def test_connections_are_limited_and_idle_ones_make_room(server: Tengine) -> None:
    server.write()
    conf = server.folder / "main.conf"
    # two places besides the listening socket's and the master's channel
    conf.write_text(conf.read_text().replace("events { }", "events { worker_connections 4; }"))
    server.start()
    begun = [server.connect() for _ in range(2)]
    for sock in begun:
        sock.sendall(b"GET /say HTTP/1.1\r\n")
    with server.connect() as refused:
        refused.settimeout(PATIENCE)
        with pytest.raises(ConnectionResetError):  # or an end without a word, if it comes first
            refused.sendall(b"GET /say HTTP/1.0\r\n\r\n")
            if not refused.recv(1):
                raise ConnectionResetError
    assert "[alert]" in server.log() and "4 worker_connections are not enough\n" in server.log()
    begun[0].sendall(b"Host: a\r\n\r\n")
    begun[0].settimeout(PATIENCE)
    while not begun[0].recv(4096).endswith(b"ok"):
        pass
    assert server.get().endswith("ok")  # in the place of the first, which waited for a request
    assert begun[0].recv(1) == b""
    assert "4 worker_connections are not enough, reusing connections" in server.log()
    for sock in begun:
        sock.close()


@needs_nginx
@pytest.mark.parametrize(
    "log_line",
    [
        "error_log e.log debug_http debug_core;",
        "error_log e.log info warn;",
        "error_log e.log loud;",
        "error_log e.log debug info;",
        "error_log syslog:server=127.0.0.1,facility=none;",
        "error_log syslog:tag=x;",
    ],
)
def test_error_logs_are_judged_as_nginx_does(tmp_path: Path, log_line: str) -> None:
    agrees(tmp_path, f"{log_line} server {{ }}")


def test_an_error_log_has_its_level(tmp_path: Path) -> None:
    made = compiled(tmp_path, "error_log e.log crit; server { error_log stderr; location / { } }")
    http = made.root.children[-1]
    assert merged(Http, http).error_log == (log.Spec(f"{tmp_path}/e.log", log.CRIT),)
    assert merged(Http, http.children[0].children[0]).error_log == (log.Spec("stderr", log.ERROR),)


@pytest.mark.parametrize(
    ("parameters", "own"),
    [("", False), ("default_server", False), ("backlog=7", True), ("rcvbuf=8k", True), ("reuseport", True)],
)
def test_parameters_of_a_socket_ask_for_one(tmp_path: Path, parameters: str, own: bool) -> None:
    made = compiled(tmp_path, f"server {{ listen 8080; listen 127.0.0.1:8080 {parameters}; }}")
    assert [listen.bound for listen in made.site.listens] == [True, own]
