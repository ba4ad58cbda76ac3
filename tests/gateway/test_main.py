"""The command line."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import VERSION
from gateway.modules import everything
from gateway.process import features
from gateway.process.options import CONFS, Asked, UsageError, locate, parse
from tests.gateway.tengine import COMMAND, LIMIT, Tengine, free_port, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    made.write()
    yield made
    if made.process is not None:
        made.stop(signal.SIGTERM)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Asked()),
        (["-tq"], Asked(test=True, quiet=True)),
        (["-T", "-c", "x"], Asked(dump=True, file="x")),
        (["-cx", "-p/y", "-e", "z"], Asked(file="x", prefix="/y", error_log="z")),
        (["-g", "daemon off;"], Asked(extra="daemon off;")),
        (["-s", "reload"], Asked(signal="reload")),
        (["-squit"], Asked(signal="quit")),
        (["-?"], Asked(help=True)),
        (["--help"], Asked(help=True)),
        (["--version"], Asked(version=True)),
        (["-v", "-V"], Asked(version=True, configure=True)),
        (["-tc", "x"], Asked(test=True, file="x")),
    ],
)
def test_options(words: list[str], expected: Asked) -> None:
    assert parse(words) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-x"], 'invalid option: "x"'),
        (["foo"], 'invalid option: "foo"'),
        (["-s", "foo"], 'invalid option: "-s foo"'),
        (["-c"], 'option "-c" requires file name'),
        (["-e"], 'option "-e" requires file name'),
        (["-p"], 'option "-p" requires directory name'),
        (["-g"], 'option "-g" requires parameter'),
        (["-s"], 'option "-s" requires parameter'),
    ],
)
def test_wrong_options(words: list[str], message: str, server: Tengine) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert str(caught.value) == message
    if words == ["-x"]:
        done = server.run("-x")
        assert (done.returncode, done.stderr.decode()) == (1, f"nginx: {message}\n")


def test_where_things_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths, file = locate(Asked(prefix="p", file="sub/x.conf"))
    assert (paths.prefix, paths.conf_prefix) == (f"{tmp_path}/p/", f"{tmp_path}/p/sub/")
    assert file == f"{tmp_path}/p/sub/x.conf"
    assert locate(Asked(prefix="p", file="/x.conf"))[1] == "/x.conf"
    (tmp_path / "conf").mkdir()
    (tmp_path / CONFS[0]).touch()
    paths, file = locate(Asked())
    assert (paths.prefix, file) == (f"{tmp_path}/", f"{tmp_path}/{CONFS[0]}")


def test_version(server: Tengine) -> None:
    done = server.run("-v")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (0, b"", f"nginx version: nginx/{VERSION}\n")


def test_configure_arguments_say_what_is_here(server: Tengine) -> None:
    done = server.run("-V")
    text = done.stderr.decode()
    assert done.returncode == 0
    assert text.startswith(f"nginx version: nginx/{VERSION}\nbuilt by ")
    assert "--without-http_fastcgi_module" in text
    assert "http_gzip_module" not in text
    # words that tools take for "has it", wherever they stand
    lacking = [feature.name for feature in features.FEATURES if not feature.standard and not feature.here]
    assert [name for name in lacking if name in text] == []
    assert "=dynamic" not in text and "--with-debug" not in text
    assert ("with OpenSSL" in text) == features.TLS.here


def test_what_is_claimed_is_in_use() -> None:
    used = {f"modules.{module.name}" for module in everything()}
    claimed = {feature.part for feature in features.FEATURES if feature.here}
    assert {part for part in claimed - used if part.startswith("modules.")} == set()


def test_help(server: Tengine) -> None:
    text = server.run("--help").stderr.decode()
    assert "Usage: nginx [-?hvVtTq] [-s signal]" in text
    assert CONFS[0] in text


def test_a_good_configuration(server: Tengine) -> None:
    done = server.run("-t")
    conf = server.folder / "main.conf"
    assert done.returncode == 0
    assert done.stderr.decode() == (
        f"nginx: the configuration file {conf} syntax is ok\nnginx: configuration file {conf} test is successful\n"
    )
    assert server.run("-t", "-q").stderr == b""
    assert not (server.folder / "pid").exists()


def test_what_has_no_effect_is_listed(server: Tengine) -> None:
    server.write(http="sendfile on;")
    text = server.run("-t").stderr.decode()
    assert re.search(r'nginx: \[notice\] "sendfile" directive has no effect here: .* in .*/main.conf:3\n', text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("events { }\nfoo;", '[emerg] unknown directive "foo" in {conf}:2'),
        ("http { }", 'the configuration file {conf} syntax is ok\nnginx: [emerg] no "events" section in configuration'),
        (
            "events { } error_log /nonexistent/x;",
            "the configuration file {conf} syntax is ok\n"
            'nginx: [emerg] open() "/nonexistent/x" failed (2: No such file or directory)',
        ),
        (
            "events { } http { server { listen 192.0.2.1:8099; } access_log off; }",
            "the configuration file {conf} syntax is ok\n"
            "nginx: [emerg] bind() to 192.0.2.1:8099 failed (99: Cannot assign requested address)",
        ),
    ],
)
def test_a_bad_configuration(server: Tengine, text: str, said: str) -> None:
    conf = server.folder / "main.conf"
    conf.write_text(text)
    done = server.run("-t")
    assert done.returncode == 1
    wanted = f"nginx: {said.format(conf=conf)}\nnginx: configuration file {conf} test failed\n"
    assert done.stderr.decode() == wanted
    assert done.stdout == server.run("-T").stdout == b""


def test_dump_while_a_server_runs(server: Tengine) -> None:
    server.start()
    (server.folder / "types").write_bytes(b"types { text/x x; }\n# \xff")
    text = (server.folder / "main.conf").read_text()
    text = text.replace("http {", "http { include types; server { include empty; include types; }")
    (server.folder / "main.conf").write_text(text)
    (server.folder / "empty").touch()
    done = server.run("-T")
    folder = os.fsencode(server.folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        b"# configuration file %s/main.conf:\n%s\n" % (folder, text.encode())
        + b"# configuration file %s/types:\ntypes { text/x x; }\n# \xff\n" % folder
        + b"# configuration file %s/empty:\n\n" % folder
    )
    assert server.pid() == server.process.pid  # type: ignore[union-attr]
    assert server.get().endswith("ok")


def test_directives_from_the_command_line(server: Tengine) -> None:
    text = (server.folder / "main.conf").read_text().replace("worker_processes 1;", "")
    (server.folder / "main.conf").write_text(text)
    server.start("-g", "worker_processes 2;")
    assert len(server.workers()) == 2


def test_signals_by_the_pid_file(server: Tengine) -> None:
    server.start()
    assert server.run("-s", "reload").returncode == 0
    until(lambda: "reconfiguring" in server.log())
    assert server.run("-s", "reopen").returncode == 0
    until(lambda: "reopening logs" in server.log())
    assert server.run("-s", "quit").returncode == 0
    assert server.process is not None and server.process.wait(LIMIT) == 0


def test_signals_to_nobody(server: Tengine) -> None:
    done = server.run("-s", "stop")
    said = f'open() "{server.folder}/pid" failed (2: No such file or directory)'
    assert (done.returncode, said in (server.folder / "early.log").read_text()) == (1, True)
    (server.folder / "pid").write_text("x")
    assert server.run("-s", "stop").returncode == 1
    assert 'invalid PID number "x"' in (server.folder / "early.log").read_text()


def test_a_pid_file_that_cannot_be_written_stops_the_test_and_the_start(server: Tengine) -> None:
    conf = server.folder / "main.conf"
    conf.write_text(conf.read_text().replace("/pid;", "/none/pid;"))
    for words in (["-t"], []):
        done = server.run(*words)
        said = f'open() "{server.folder}/none/pid" failed (2: No such file or directory)'
        assert done.returncode == 1 and b"Traceback" not in done.stderr
        assert said in done.stderr.decode()


@pytest.mark.parametrize("closed", ["0<&- 2>&-", "0<&- 1>&- 2>&-", "2>&-"])
def test_standard_streams_may_be_closed(server: Tengine, closed: str) -> None:
    """Descriptor 2 must not become a socket: an error message would be sent to a client."""
    command = f'exec "$@" {closed}'
    process = subprocess.Popen(
        ["sh", "-c", command, "sh", *COMMAND, "-p", str(server.folder), "-c", "main.conf", "-e", "early.log"]
    )
    try:
        until(lambda: (server.folder / "pid").exists() or process.poll() is not None)
        assert server.get().endswith("ok")
        for number in range(3):
            target = os.readlink(f"/proc/{process.pid}/fd/{number}")
            assert not target.startswith("socket:") and "main.conf" not in target
    finally:
        process.send_signal(signal.SIGQUIT)
        assert process.wait(LIMIT) == 0


def test_a_bad_configuration_with_standard_error_closed(server: Tengine) -> None:
    (server.folder / "main.conf").write_text("foo;")
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh"]
    command = [*shell, *COMMAND, "-p", str(server.folder), "-c", "main.conf", "-e", "early.log"]
    assert subprocess.run(command, timeout=LIMIT, check=False).returncode == 1
    assert 'unknown directive "foo"' in (server.folder / "early.log").read_text()


def test_nothing_is_printed_while_serving_and_no_process_keeps_the_pipe(server: Tengine) -> None:
    process = subprocess.Popen(
        [*COMMAND, "-p", str(server.folder), "-c", "main.conf", "-e", "early.log"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    until(lambda: (server.folder / "pid").exists())
    server.get()
    process.send_signal(signal.SIGQUIT)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.read() == b""  # ends when the last process has closed it
    assert process.wait(LIMIT) == 0


def test_an_error_log_that_cannot_be_opened_is_no_reason_to_stop(server: Tengine) -> None:
    command = [*COMMAND, "-p", str(server.folder), "-c", "main.conf", "-e", "/nonexistent/log", "-t"]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False)
    assert done.returncode == 0
    assert done.stderr.startswith(b"nginx: [alert] could not open error log file: open() ")


def test_showing_the_version_needs_little() -> None:
    code = (
        "import sys; from gateway.__main__ import main; main(['-V']); "
        "print('asyncio' in sys.modules, 'crossplane' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"False False\n"


def test_a_port_in_use_at_start(server: Tengine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        other = Tengine(server.folder, taken.getsockname()[1])
        other.write()
        done = other.run()
    assert done.returncode == 1
    said = done.stderr.decode().splitlines()
    line = f"nginx: [emerg] bind() to 127.0.0.1:{other.port} failed (98: Address already in use)"
    assert said == [line] * 5 + ["nginx: [emerg] still could not bind()"]
    assert free_port() != other.port
