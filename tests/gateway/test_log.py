"""The error log and the files behind all logs; syslog."""

import gzip
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway import log
from gateway.log import ErrorLog, Files, LogError, Opened, Spec, parse
from gateway.syslog import Syslog, SyslogError

LINE = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[(\w+)\] (\d+)#(\d+): (.*)")


@pytest.fixture(autouse=True)
def fresh_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    made = Files()
    monkeypatch.setattr(log, "files", made)
    yield made
    for file in made.all():
        file.close()


def written(path: Path) -> list[tuple[str, str]]:
    """Level and text of each line."""
    found = [LINE.fullmatch(line) for line in path.read_text(errors="surrogateescape").splitlines()]
    return [(match[1], match[4]) for match in found if match is not None and match[2] == str(os.getpid())]


def test_each_log_has_its_level(tmp_path: Path, fresh_files: Files) -> None:
    paths = {level: tmp_path / name for level, name in ((log.INFO, "info"), (log.ERROR, "error"), (log.CRIT, "crit"))}
    made = ErrorLog([Spec(str(path), level) for level, path in paths.items()])
    fresh_files.open()
    assert made.level == log.INFO
    for level in range(log.EMERG, log.DEBUG + 1):
        made.write(level, "said", 7)
    assert [len(written(path)) for path in paths.values()] == [7, 4, 3]
    assert written(paths[log.CRIT])[0] == ("emerg", "*7 said")


def test_no_request_can_forge_a_line(tmp_path: Path, fresh_files: Files) -> None:
    path = tmp_path / "x"
    made = ErrorLog([Spec(str(path))])
    fresh_files.open()
    made.write(log.ERROR, 'open() "/a\n2026/01/01 00:00:00 [alert] b\x7f\tä\udcff"')
    assert written(path) == [("error", 'open() "/a\\x0A2026/01/01 00:00:00 [alert] b\\x7F\tä\udcff"')]


def test_a_long_line_is_cut_as_nginx_cuts_it(tmp_path: Path, fresh_files: Files) -> None:
    path = tmp_path / "x"
    made = ErrorLog([Spec(str(path))])
    fresh_files.open()
    made.write(log.ERROR, "x" * 5000)
    assert path.stat().st_size == 2048
    assert path.read_bytes().endswith(b"x\n")


def test_while_starting_warnings_are_said_on_stderr_too(capfd: pytest.CaptureFixture[str]) -> None:
    ErrorLog([], console=True).write(log.WARN, "look")
    ErrorLog([], console=True).write(log.NOTICE, "no")
    ErrorLog([Spec("stderr")], console=True).write(log.EMERG, "once")
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "nginx: [warn] look"
    assert len(said) == 2 and said[1].endswith(": once")


def test_become(tmp_path: Path, fresh_files: Files) -> None:
    made = ErrorLog([Spec("stderr", log.DEBUG)])
    made.become(ErrorLog([Spec(str(tmp_path / "x"), log.WARN)]))
    fresh_files.open()
    made.write(log.WARN, "here")
    assert (made.level, written(tmp_path / "x")) == (log.WARN, [("warn", "here")])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a.log"], Spec("/p/a.log", log.ERROR)),
        (["/a.log", "debug"], Spec("/a.log", log.DEBUG)),
        (["stderr", "info"], Spec("stderr", log.INFO)),
        (["x", "debug", "debug_http"], Spec("/p/x", log.DEBUG)),
        (["syslog:server=127.0.0.1", "warn"], Spec("syslog:server=127.0.0.1", log.WARN)),
        (["x", "bad"], 'invalid log level "bad"'),
        (["x", "debug", "info"], 'duplicate log level "info"'),
        (["memory:1m"], "logs in memory are not supported, name a file"),
        (["syslog:foo"], 'unknown syslog parameter "foo"'),
    ],
)
def test_parse(words: list[str], expected: Spec | str) -> None:
    if isinstance(expected, str):
        with pytest.raises(LogError) as caught:
            parse(words, "/p/")
        assert str(caught.value) == expected
    else:
        assert parse(words, "/p/") == expected


def test_a_file_that_cannot_be_opened(fresh_files: Files) -> None:
    fresh_files.get("/nonexistent/x")
    with pytest.raises(LogError, match=re.escape('open() "/nonexistent/x" failed (2: No such file or directory)')):
        fresh_files.open()


def test_reopen_follows_the_name(tmp_path: Path, fresh_files: Files) -> None:
    file = fresh_files.get(str(tmp_path / "x"))
    fresh_files.open()
    file.add(b"one\n")
    number = file.fd
    os.rename(tmp_path / "x", tmp_path / "old")
    fresh_files.reopen()
    file.write(b"two\n")
    assert (tmp_path / "old").read_bytes() + (tmp_path / "x").read_bytes() == b"one\ntwo\n"
    assert file.fd == number


def test_a_file_that_cannot_be_reopened_is_kept(tmp_path: Path, fresh_files: Files) -> None:
    (tmp_path / "d").mkdir()
    file = fresh_files.get(str(tmp_path / "d" / "x"))
    fresh_files.open()
    os.rename(tmp_path / "d", tmp_path / "e")
    fresh_files.reopen()
    file.write(b"still\n")
    assert (tmp_path / "e" / "x").read_bytes() == b"still\n"


def test_a_reload_keeps_files_and_closes_what_is_left(tmp_path: Path, fresh_files: Files) -> None:
    kept, gone = fresh_files.get(str(tmp_path / "kept")), fresh_files.get(str(tmp_path / "gone"))
    fresh_files.open()
    fresh_files.begin()
    assert fresh_files.get(str(tmp_path / "kept")) is kept
    new = fresh_files.get(str(tmp_path / "new"))
    fresh_files.open()
    fresh_files.settle()
    assert (kept.fd >= 0, gone.fd, new.fd >= 0) == (True, -1, True)


def test_a_reload_that_fails_closes_what_it_opened(tmp_path: Path, fresh_files: Files) -> None:
    kept = fresh_files.get(str(tmp_path / "kept"))
    fresh_files.open()
    fresh_files.begin()
    new = fresh_files.get(str(tmp_path / "new"))
    fresh_files.open()
    fresh_files.restore()
    assert (kept.fd >= 0, new.fd) == (True, -1)
    assert fresh_files.all() == [kept]


def test_lines_are_gathered_until_the_end_of_the_turn(tmp_path: Path, fresh_files: Files) -> None:
    turn: list[Callable[[], None]] = []
    fresh_files.soon = turn.append
    file = fresh_files.get(str(tmp_path / "x"))
    fresh_files.open()
    file.add(b"one\n")
    file.add(b"two\n")
    assert (tmp_path / "x").read_bytes() == b"" and len(turn) == 1
    turn[0]()
    assert (tmp_path / "x").read_bytes() == b"one\ntwo\n"
    fresh_files.calm = lambda: True
    file.add(b"three\n")
    assert (tmp_path / "x").read_bytes() == b"one\ntwo\nthree\n" and len(turn) == 1


def test_a_buffer_is_written_when_the_next_line_does_not_fit(tmp_path: Path, fresh_files: Files) -> None:
    timers: list[float] = []
    fresh_files.later = lambda seconds, flush: timers.append(seconds)
    file = fresh_files.get(str(tmp_path / "x"))
    file.size, file.interval = 10, 5.0
    fresh_files.open()
    for _ in range(3):
        file.add(b"12345\n")
    assert (tmp_path / "x").read_bytes() == b"12345\n" * 2
    assert timers == [5.0, 5.0, 5.0]
    file.close()
    assert (tmp_path / "x").read_bytes() == b"12345\n" * 3


def test_packed(tmp_path: Path, fresh_files: Files) -> None:
    file = fresh_files.get(str(tmp_path / "x"))
    file.size, file.pack = 10, gzip.compress
    fresh_files.open()
    for _ in range(3):
        file.add(b"12345\n")
    file.flush()
    assert gzip.decompress((tmp_path / "x").read_bytes()) == b"12345\n" * 3


def test_a_full_disk_is_reported_once_a_minute(fresh_files: Files, capfd: pytest.CaptureFixture[str]) -> None:
    file = fresh_files.get("/dev/full")
    fresh_files.open()
    file.write(b"x\n")
    file.write(b"x\n")
    assert capfd.readouterr().err.count('write() to "/dev/full" failed (28: No space left on device)') == 1


def test_opened_by_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = os.fsencode(tmp_path)
    kept = Opened(1, 60.0, 1, 60.0)
    for name in (b"a", b"b", b"a"):
        kept.write(folder + b"/" + name, name)
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"aa", b"b")
    assert list(kept.names) == [folder + b"/a"]
    kept.write(b"/nonexistent/x", b"lost")
    assert "[crit]" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("most", "inactive", "uses", "valid", "expected"),
    [
        (0, 60.0, 1, 60.0, b"34"),  # not kept
        (1, 60.0, 1, 60.0, b""),  # kept from the first line on
        (1, 60.0, 3, 60.0, b"34"),  # kept from the third, so renamed before
        (1, 60.0, 2, 60.0, b""),
        (1, -1.0, 1, 60.0, b"34"),  # forgotten at once
        (1, 60.0, 1, -1.0, b"34"),  # kept, but opened anew for each line
    ],
)
def test_how_long_names_are_kept(
    tmp_path: Path, most: int, inactive: float, uses: int, valid: float, expected: bytes
) -> None:
    kept = Opened(most, inactive, uses, valid)
    path = os.fsencode(tmp_path) + b"/a"
    kept.write(path, b"1")
    kept.write(path, b"2")
    os.rename(tmp_path / "a", tmp_path / "old")
    kept.write(path, b"3")
    kept.write(path, b"4")
    assert ((tmp_path / "a").read_bytes() if (tmp_path / "a").exists() else b"") == expected
    kept.most = 0
    kept._forget(0.0)
    assert not kept.names


@pytest.fixture
def collector() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(5)
        yield sock


def test_errors_to_syslog(collector: socket.socket) -> None:
    port = collector.getsockname()[1]
    made = ErrorLog([parse([f"syslog:server=127.0.0.1:{port},facility=user,tag=gw,nohostname", "info"], "/")])
    made.write(log.ERROR, "said")
    text = collector.recv(4096).decode()
    assert re.fullmatch(r"<11>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d gw: \d{4}/.* \[error\] \d+#\d+: said", text)


def test_syslog_names_the_host_and_its_own_severity(collector: socket.socket) -> None:
    port = collector.getsockname()[1]
    server = Syslog.parse(f"syslog:server=127.0.0.1:{port},severity=debug")
    server.send(b"x")
    server.close()
    assert re.fullmatch(rf"<191>.{{15}} {re.escape(socket.gethostname())} nginx: x", collector.recv(4096).decode())


def test_a_syslog_server_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    server = Syslog.parse(f"syslog:server=unix:{tmp_path}/none")
    server.send(b"lost")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "none"))
        server.send(b"found")
        assert sock.recv(4096).endswith(b"nginx: found")
    server.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server=127.0.0.1,tag=a-b", 'syslog "tag" only allows alphanumeric characters and underscore'),
        ("server=127.0.0.1,tag=" + "a" * 33, "syslog tag length exceeds 32"),
        ("server=127.0.0.1,facility=foo", 'unknown syslog facility "foo"'),
        ("server=127.0.0.1,severity=foo", 'unknown syslog severity "foo"'),
        ("server=127.0.0.1,server=127.0.0.1", 'duplicate syslog "server"'),
        ("facility=user", "no syslog server specified"),
        ("server=nohost.invalid", 'host not found in syslog server "nohost.invalid"'),
        ("server=127.0.0.1:0", 'invalid port in syslog server "127.0.0.1:0"'),
        ("server=127.0.0.1,x", 'unknown syslog parameter "x"'),
        ("server=unix:", 'invalid unix domain socket path in syslog server "unix:"'),
        ("server=:1", 'no host in syslog server ":1"'),
    ],
)
def test_syslog_parameters(text: str, message: str) -> None:
    with pytest.raises(SyslogError) as caught:
        Syslog.parse("syslog:" + text)
    assert str(caught.value) == message


def test_syslog_over_ipv6_is_understood() -> None:
    assert Syslog.parse("syslog:server=[::1]:5140").address == ("::1", 5140)


def test_crash_says_what_and_where() -> None:
    try:
        int("x")
    except ValueError as error:
        said = log.crash(type(error), error)
    assert re.fullmatch(r"ValueError: invalid literal .* \(test_log.py:\d+ test_crash_says_what_and_where\)", said)


def test_a_log_on_stderr_is_known(fresh_files: Files) -> None:
    ErrorLog([Spec("stderr")])
    assert fresh_files.on_stderr
    fresh_files.begin()
    assert not fresh_files.on_stderr
    fresh_files.restore()
    assert fresh_files.on_stderr
