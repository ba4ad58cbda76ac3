"""The master: starting, signals, workers that end, reloads that fail, upgrades, stopping."""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.process import pidfile
from tests.gateway.tengine import LIMIT, Tengine, read_all, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    made.write()
    yield made
    if made.process is not None:
        made.stop(signal.SIGTERM)


def no_alert(server: Tengine) -> bool:
    return "[alert]" not in server.log()


def test_serves_and_stops_gracefully(server: Tengine) -> None:
    server.write(main="worker_processes 2;")
    server.start()
    assert server.pid() == server.process.pid  # type: ignore[union-attr]
    assert server.get().endswith("ok")
    assert len(server.workers()) == 2
    assert server.stop() == 0
    assert not (server.folder / "pid").exists()
    assert server.log().count("exited with code 0") == 2
    assert no_alert(server)


def test_connections_that_are_reset_before_they_are_accepted(server: Tengine) -> None:
    server.start()
    (worker,) = server.workers()
    os.kill(worker, signal.SIGSTOP)
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.kill(worker, signal.SIGCONT)
    assert server.get().endswith("ok")
    assert server.stop() == 0
    assert no_alert(server)


def test_quit_lets_a_running_request_end_and_closes_idle_connections(server: Tengine) -> None:
    with socket.socket() as upstream:
        upstream.bind(("127.0.0.1", 0))
        upstream.listen()
        upstream.settimeout(LIMIT)
        port = upstream.getsockname()[1]
        server.write(server=f"location = /slow {{ proxy_pass http://127.0.0.1:{port}; }}")
        server.start()
        with server.connect() as idle, server.connect() as busy:
            idle.sendall(b"GET /say HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"ok" in idle.recv(4096)
            busy.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            behind = upstream.accept()[0]
            server.send_signal(signal.SIGQUIT)
            assert idle.recv(4096) == b""
            with behind:
                assert behind.recv(4096).startswith(b"GET /slow ")
                behind.sendall(b"HTTP/1.0 200 OK\r\n\r\nslow")
            assert b"slow" in read_all(busy)
    assert server.stop() == 0


def test_a_reload_still_answers_who_had_connected_before(server: Tengine) -> None:
    server.start()
    [old] = server.workers()
    with server.connect() as early:
        assert server.get().endswith("ok")  # the worker has taken the earlier one, too
        server.send_signal(signal.SIGHUP)
        until(lambda: f"{old}#{old}: gracefully shutting down" in server.log())
        early.sendall(b"GET /say HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_all(early).endswith(b"ok")  # and is closed after it
    until(lambda: f"worker process {old} exited with code 0" in server.log())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_at_once(server: Tengine, number: signal.Signals) -> None:
    server.start()
    with server.connect() as open_one:
        open_one.sendall(b"GET /sa")
        assert server.stop(number) == 0
        with contextlib.suppress(ConnectionResetError):
            assert open_one.recv(1) == b""
    assert no_alert(server)


def test_a_killed_worker_is_replaced(server: Tengine) -> None:
    server.start()
    [first] = server.workers()
    os.kill(first, signal.SIGKILL)
    until(lambda: server.workers() not in ([], [first]))
    assert f"[alert] {server.pid()}#{server.pid()}: worker process {first} exited on signal 9" in server.log()
    assert server.get().endswith("ok")


def test_a_worker_that_is_told_to_leave_is_replaced_without_alert(server: Tengine) -> None:
    server.start()
    [first] = server.workers()
    os.kill(first, signal.SIGTERM)
    until(lambda: server.workers() not in ([], [first]))
    assert f"worker process {first} exited with code 0" in server.log()
    assert server.get().endswith("ok")
    assert server.stop() == 0
    assert no_alert(server)


def test_reload_takes_the_new_configuration(server: Tengine) -> None:
    server.start()
    [old] = server.workers()
    server.write(server="location = /new { return 200 new; }")
    server.send_signal(signal.SIGHUP)
    until(lambda: f"worker process {old} exited with code 0" in server.log())
    assert server.get("/new").endswith("new")
    assert server.workers() != [old]
    assert no_alert(server)


def test_reload_moves_to_another_port(server: Tengine) -> None:
    server.start()
    [old] = server.workers()
    other = Tengine(server.folder)
    other.write()
    server.send_signal(signal.SIGHUP)
    until(lambda: f"worker process {old} exited" in server.log())
    assert other.get().endswith("ok")
    with pytest.raises(ConnectionRefusedError):
        server.get()


@pytest.mark.parametrize(
    ("main", "said"),
    [
        ("nonsense;", 'unknown directive "nonsense" in '),
        ("error_log /nonexistent/x;", 'open() "/nonexistent/x" failed (2: No such file or directory)'),
        ("user nobody-of-this-name;", 'getpwnam("nobody-of-this-name") failed in '),
    ],
)
def test_a_reload_that_fails_keeps_the_old_configuration(server: Tengine, main: str, said: str) -> None:
    server.start()
    workers = server.workers()
    text = (server.folder / "main.conf").read_text().replace("user root;", "")
    (server.folder / "main.conf").write_text(main + text)
    server.send_signal(signal.SIGHUP)
    until(lambda: said in server.log())
    assert server.get().endswith("ok")
    assert server.workers() == workers
    assert server.log().count("[emerg]") == 1


def test_a_reload_to_a_port_in_use_keeps_the_old_sockets(server: Tengine) -> None:
    server.start()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server.write(http=f"server {{ listen 127.0.0.1:{port}; }}")
        server.send_signal(signal.SIGHUP)
        until(lambda: "still could not bind()" in server.log())
    log = server.log()
    assert log.count(f"[emerg] {server.pid()}#{server.pid()}: bind() to 127.0.0.1:{port} failed (98: Address alr") == 5
    assert server.get().endswith("ok")


def test_usr1_reopens_the_logs(server: Tengine) -> None:
    server.start()
    server.get()
    for name in ("error", "access"):
        os.rename(server.folder / f"{name}.log", server.folder / f"{name}.old")
    server.send_signal(signal.SIGUSR1)
    until(lambda: (server.folder / "error.log").exists() and (server.folder / "access.log").exists())
    workers = re.findall(r"start worker process (\d+)", (server.folder / "error.old").read_text())
    until(lambda: any(f"{pid}#{pid}: reopening logs" in old_and_new(server) for pid in workers))
    server.get("/say?after")
    until(lambda: server.access() and "after" in server.access()[0])
    assert len((server.folder / "access.old").read_text().splitlines()) == 1


def old_and_new(server: Tengine) -> str:
    return (server.folder / "error.old").read_text() + server.log()


def test_usr2_hands_the_sockets_to_a_new_binary(server: Tengine) -> None:
    server.start()
    old = server.pid()
    server.send_signal(signal.SIGUSR2)
    oldbin = server.folder / f"pid{pidfile.OLD}"
    until(lambda: oldbin.exists() and (server.folder / "pid").exists())
    new = server.pid()
    assert int(oldbin.read_text()) == old != new
    assert re.search(r'using inherited sockets from "\d+;"', (server.folder / "early.log").read_text())
    os.kill(old, signal.SIGQUIT)
    assert server.process is not None and server.process.wait(LIMIT) == 0
    assert not oldbin.exists()
    assert server.get().endswith("ok")
    os.kill(new, signal.SIGQUIT)
    until(lambda: not (server.folder / "pid").exists())
    assert no_alert(server)


def test_an_upgrade_that_fails_gives_the_pid_file_back(server: Tengine) -> None:
    server.start()
    old = server.pid()
    (server.folder / "main.conf").write_text("nonsense;")
    server.send_signal(signal.SIGUSR2)
    until(lambda: re.search(r"new binary process \d+ exited with code 1", server.log()))
    until(lambda: (server.folder / "pid").exists())
    assert server.pid() == old
    assert server.get().endswith("ok")


def test_daemon(server: Tengine) -> None:
    text = (server.folder / "main.conf").read_text().replace("daemon off;", "daemon on;")
    (server.folder / "main.conf").write_text(text)
    done = server.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    until(lambda: (server.folder / "pid").exists())
    master = server.pid()
    assert os.getsid(master) == master
    assert server.get().endswith("ok")
    server.send_signal(signal.SIGWINCH)
    until(lambda: server.workers() == [])
    server.send_signal(signal.SIGQUIT)
    until(lambda: not (server.folder / "pid").exists())


def test_a_single_process(server: Tengine) -> None:
    server.write(main="master_process off;")
    server.start()
    assert server.get().endswith("ok")
    assert server.workers() == []
    assert server.stop() == 0
    assert not (server.folder / "pid").exists()


def test_workers_leave_when_their_master_is_killed(server: Tengine) -> None:
    server.start()
    [worker] = server.workers()
    server.stop(signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{worker}") or zombie(worker))


def zombie(pid: int) -> bool:
    return b") Z" in Path(f"/proc/{pid}/stat").read_bytes()


def test_a_worker_that_cannot_start_is_not_started_again(server: Tengine) -> None:
    server.write(main="working_directory /nonexistent;")
    server.start()
    until(lambda: "cannot be respawned" in server.log())
    assert server.log().count("start worker process ") == 1
    assert "could not start: FileNotFoundError" in server.log()


def test_a_broken_configuration_does_not_start(server: Tengine) -> None:
    (server.folder / "main.conf").write_text("events { }\nhttp { nonsense; }")
    done = server.run()
    assert done.returncode == 1
    said = f'unknown directive "nonsense" in {server.folder}/main.conf:2'
    assert done.stderr.decode() == f"nginx: [emerg] {said}\n"
    assert said in (server.folder / "early.log").read_text()


def test_sockets_per_worker(server: Tengine) -> None:
    text = (server.folder / "main.conf").read_text().replace(f":{server.port};", f":{server.port} reuseport;")
    (server.folder / "main.conf").write_text("worker_processes 2;" + text.replace("worker_processes 1;", ""))
    server.start()
    listening = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, check=True).stdout.decode()
    assert len(re.findall(rf"0100007F:{server.port:04X} 00000000:0000 0A", listening)) == 2
    for _ in range(8):
        assert server.get().endswith("ok")


def test_a_unix_socket_is_made_and_removed(server: Tengine) -> None:
    path = server.folder / "s"
    server.write(http=f"server {{ listen unix:{path}; return 200 unix; }}")
    server.start()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert read_all(client).endswith(b"unix")
    server.stop()
    assert not path.exists()


def test_pid_file_in_one_step(tmp_path: Path) -> None:
    pidfile.write(str(tmp_path / "pid"))
    assert os.listdir(tmp_path) == ["pid"]
    assert int((tmp_path / "pid").read_text()) == os.getpid()
    pidfile.write("/dev/null")
    assert not os.path.isfile("/dev/null")
