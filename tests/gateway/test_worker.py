"""What a worker takes from the configuration before it serves, and its settings."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import log
from gateway.config.schema import ConfigError
from gateway.process import loop, settings, worker
from gateway.process.settings import Affinity, Main
from tests.gateway.nginx import needs_nginx, verdict
from tests.gateway.tengine import Tengine, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    yield made
    if made.process is not None:
        made.stop(signal.SIGTERM)


def loaded(folder: Path, main: str, events: str = "") -> Main:
    """The main settings of a configuration."""
    from gateway.build import load
    from gateway.config.schema import Paths

    file = folder / "main.conf"
    file.write_text(f"{main}\nevents {{ {events} }}")
    return settings.read(load(str(file), Paths(f"{folder}/", f"{folder}/"), settings.TABLES).root)[0]


def test_defaults(tmp_path: Path) -> None:
    main = loaded(tmp_path, "")
    assert (main.daemon, main.master_process, main.worker_processes) == (True, True, 1)
    assert settings.workers(main) == 1


def test_a_worker_per_cpu(tmp_path: Path) -> None:
    assert settings.workers(loaded(tmp_path, "worker_processes auto;")) == len(os.sched_getaffinity(0))


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = dict(os.environ)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setenv("GONE", "1")
    try:
        worker.environment(("KEPT", "NEW=a=b", "ABSENT"))
        assert dict(os.environ) == {"TZ": "UTC", "KEPT": "1", "NEW": "a=b"}
    finally:
        os.environ.clear()
        os.environ.update(kept)


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (Affinity(), [set(), set()]),
        (Affinity(masks=(frozenset({0}), frozenset({1, 2}))), [{0}, {1, 2}, {1, 2}]),
        (Affinity(auto=True, masks=(frozenset({3, 5}),)), [{3}, {5}, {3}]),
    ],
)
def test_affinity(affinity: Affinity, expected: list[set[int]]) -> None:
    assert [affinity.cpus(index) for index in range(len(expected))] == expected


def test_masks_are_read_from_the_right(tmp_path: Path) -> None:
    masks = loaded(tmp_path, "worker_cpu_affinity 0101 10;").worker_cpu_affinity
    assert masks == Affinity(False, (frozenset({0, 2}), frozenset({1})))


@needs_nginx
@pytest.mark.parametrize(
    ("main", "events"),
    [
        ("user nobodyx;", ""),
        ("user root nogrp;", ""),
        ("worker_processes x;", ""),
        ("worker_cpu_affinity 012;", ""),
        ("worker_cpu_affinity auto 01 10;", ""),
        ("worker_priority x;", ""),
        ("worker_priority -5;", ""),
        ("env;", ""),
        ("debug_points foo;", ""),
        ("daemon maybe;", ""),
        ("pid a; pid b;", ""),
        ("thread_pool x;", ""),
        ("thread_pool x threads=a;", ""),
        ("thread_pool x threads=4 max_queue=8; thread_pool y threads=1;", ""),
        ("worker_rlimit_nofile -1;", ""),
        ("worker_rlimit_core 4q;", ""),
        ("worker_shutdown_timeout x;", ""),
        ("worker_shutdown_timeout 5s;", ""),
        ("timer_resolution 100ms;", ""),
        ("lock_file x; pcre_jit on; working_directory /;", ""),
        ("", "use kqueue;"),
        ("", "use epoll; multi_accept on; accept_mutex on; accept_mutex_delay 100ms; worker_aio_requests 1;"),
        ("", "worker_connections x;"),
        ("events { }", ""),
    ],
)
def test_settings_are_judged_as_by_nginx(tmp_path: Path, main: str, events: str) -> None:
    text = f"{main}\nevents {{ {events} }}"
    said = None
    try:
        loaded(tmp_path, main, events)
    except ConfigError as error:
        said = str(error)
    assert said == verdict(tmp_path, text if main.startswith("pid") else f"{text} pid {tmp_path}/pid;")


def test_no_events_section(tmp_path: Path) -> None:
    from gateway.build import load
    from gateway.config.schema import Paths

    (tmp_path / "main.conf").write_text("http { }")
    with pytest.raises(ConfigError, match=r'^no "events" section in configuration$'):
        settings.read(load(str(tmp_path / "main.conf"), Paths(f"{tmp_path}/", f"{tmp_path}/"), settings.TABLES).root)


def test_modules_that_are_built_in_may_be_loaded(tmp_path: Path) -> None:
    files = ("ngx_http_brotli_filter_module.so", "ngx_http_gzip_module.so")
    main = loaded(tmp_path, f"load_module modules/{files[0]}; load_module {files[1]};")
    assert main.load_module == files


def test_modules_that_are_not_here_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, "load_module modules/ngx_http_unheard_of_module.so;")
    said = f'dlopen() "{tmp_path}/modules/ngx_http_unheard_of_module.so" failed (no module of this name is built in)'
    assert str(caught.value) == f"{said} in {tmp_path}/main.conf:1"


def test_limits_directory_and_environment(server: Tengine) -> None:
    server.write(main=f"worker_rlimit_nofile 333; worker_priority 3; working_directory {server.folder};")
    server.start()
    server.get()
    [pid] = server.workers()
    proc = Path(f"/proc/{pid}")
    assert re.search(r"Max open files +333 +333", (proc / "limits").read_text())
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3 or os.geteuid() == 0
    assert os.readlink(proc / "cwd") == str(server.folder)
    assert (proc / "comm").read_text() == "tengine: worker\n"


def test_root_is_given_up(server: Tengine) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    server.write(http="client_body_temp_path body_temp;")
    text = (server.folder / "main.conf").read_text().replace("user root;", "user nobody nogroup;")
    (server.folder / "main.conf").write_text(text)
    server.start()
    assert server.get().endswith("ok")
    [pid] = server.workers()
    status = Path(f"/proc/{pid}/status").read_text()
    nobody = settings.nobody()
    assert re.search(rf"^Uid:(\t{nobody.uid}){{4}}$", status, re.MULTILINE)
    assert (server.folder / "body_temp").stat().st_uid == nobody.uid
    assert server.get().endswith("ok")
    assert server.stop() == 0


def test_shutdown_is_bounded(server: Tengine) -> None:
    server.write(main="worker_shutdown_timeout 100ms;")
    server.start()
    with server.connect() as busy:
        busy.sendall(b"POST /say HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
        until(lambda: busy_worker(server))
        assert server.stop() == 0


def busy_worker(server: Tengine) -> bool:
    """Whether the server has taken the connection: another one is answered after it."""
    return server.get().endswith("ok")


def test_the_engine_is_loaded_before_the_fork() -> None:
    code = (
        "import sys, gateway.process.master; "
        "print([name for name in ('gateway.http.connection', 'asyncio') if name not in sys.modules], "
        "[name for name in ('aiohttp', 'pcre2', 'lupa', 'brotli', 'zstandard') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[] []\n"


def test_what_nobody_catches_is_an_alert(capfd: pytest.CaptureFixture[str]) -> None:
    made = loop.new()
    made.call_soon(int, "x")
    made.call_soon(made.stop)
    made.run_forever()
    made.close()
    loop.unhandled(made, {"message": "said"})
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "[alert]" in lines[0] and "ValueError: invalid literal for int() with base 10: 'x'" in lines[0]
    assert lines[1].endswith(": said")


def test_a_limit_that_cannot_be_set_is_an_alert(capfd: pytest.CaptureFixture[str]) -> None:
    worker._limit("worker_rlimit_nofile", 1000, 5)
    assert "[alert]" in capfd.readouterr().err
    assert log.main.level >= log.ALERT
