"""access_log and log_format: lines as nginx writes them, where and when it writes them."""

import gzip
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.config.schema import ConfigError, Text
from gateway.http import logline
from gateway.http.headers import headers_of
from gateway.http.logline import ESCAPES, KEPT, formatting
from gateway.http.message import Getter, Request, Response
from gateway.modules.log import COMBINED
from tests.gateway.nginx import compiled, needs_nginx, verdict
from tests.gateway.tengine import Tengine, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    yield made
    if made.process is not None:
        made.stop(signal.SIGTERM)


GETTERS: dict[str, Getter] = {  # the few variables that a format here asks the core for
    "remote_user": lambda _request: None,
    "request": lambda request: request.line,
    "args": lambda request: request.args,
    "raw": lambda request: request.uri,
    "empty": lambda _request: b"",
}


def line(text: str, escape: str = "default", **changes: Any) -> bytes:
    """The line that a format makes of a request."""
    peer: Any = SimpleNamespace(client=b"192.0.2.7", number=12, served=3, sent=2048, pipelined=False)
    headers = headers_of([(b"Host", b"a"), (b"User-Agent", b'x"y\xc3\xa9\\')])
    request = Request(peer, b"GET", b"/a", b"/a", b"", 11, headers, 0.0)
    request.line = b"GET /a HTTP/1.1"
    request.response = Response(200)
    request.body_sent = 1024
    for name, value in changes.items():
        setattr(request, name, value)
    return formatting((Text(text),), escape, GETTERS.__getitem__, b"\n")(request)


def test_combined() -> None:
    found = line(COMBINED)
    assert re.fullmatch(
        rb'192\.0\.2\.7 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /a HTTP/1\.1" 200 1024 "-" '
        rb'"x\\x22y\\xC3\\xA9\\x5C"\n',
        found,
    )


@pytest.mark.parametrize(
    ("escape", "expected"),
    [
        ("default", b'-|x\\x22y\\xC3\\xA9\\x5C||/\\x01\\x0A\\x7F\n'),
        ("json", b'|x\\"y\xc3\xa9\\\\||/\\u0001\\n\x7f\n'),
        ("none", b'|x"y\xc3\xa9\\||/\x01\n\x7f\n'),
    ],
)
def test_escapes(escape: str, expected: bytes) -> None:
    assert line("$http_x|$http_user_agent|$empty|$raw", escape, uri=b"/\x01\n\x7f") == expected


def test_a_percent_sign_is_a_percent_sign() -> None:
    assert line("100%b ${status}0 $connection/$connection_requests $bytes_sent $pipe") == b"100%b 2000 12/3 2048 .\n"


def test_values_of_logs() -> None:
    times = rb"\d+\.\d{3} \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d\n"
    assert re.fullmatch(times, line("$request_time $time_iso8601"))
    assert line("$request_length", head_length=48) == b"48\n"
    assert line("$request_length $args", uri=b"", args=b"") == b"0 -\n"
    assert line("$status", response=None) == b"000\n"
    assert line("$status", response=None, http=9) == b"009\n"
    assert line("$status", response=Response(9)) == b"009\n"


def test_times_follow_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000.5]
    monkeypatch.setattr("gateway.http.logline.time.time", lambda: now[0])
    monkeypatch.setattr(logline._clock, "end", 0.0)
    first = line("$time_local")
    now[0] += 0.4
    assert line("$time_local") == first
    now[0] += 0.2
    assert line("$time_local") != first
    now[0] -= 3600
    assert line("$time_local") != first


def test_what_is_remembered_is_bounded() -> None:
    escape = ESCAPES["default"][0]
    for number in range(2 * KEPT):
        assert escape(b'"%d' % number) == b"\\x22%d" % number
    assert escape(b'"' * 10_000) == b"\\x22" * 10_000


@needs_nginx
@pytest.mark.parametrize(
    "http",
    [
        "access_log x nofmt;",
        "access_log x combined buffer=0;",
        "access_log x combined buffer=zz;",
        "access_log x combined flush=5s;",
        "access_log x combined buffer=1k flush=xx;",
        "access_log x combined foo;",
        "access_log off foo;",
        "access_log syslog:server=127.0.0.1 combined buffer=1k;",
        "access_log syslog:server=127.0.0.1,bad;",
        "access_log $host combined buffer=1k;",
        "access_log x combined buffer=1k; access_log x combined buffer=2k;",
        "access_log x combined gzip=12;",
        "access_log x combined gzip flush=1s if=$host;",
        'log_format combined "x";',
        "log_format a;",
        "log_format a escape=foo x;",
        'log_format a "$nope";',
        'log_format a "${host";',
        'log_format a "x$host"; log_format a b;',
        "open_log_file_cache x;",
        "open_log_file_cache off;",
        "open_log_file_cache max=10 inactive=20s min_uses=2 valid=1m;",
        "open_log_file_cache inactive=3s;",
        "open_log_file_cache max=0;",
        "access_log x; access_log off;",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, http: str) -> None:
    http = f"{http} server {{ listen 127.0.0.1:1; location / {{ }} }}"
    said = None
    try:
        compiled(tmp_path, http)
    except ConfigError as error:
        said = str(error)
    assert said == verdict(tmp_path, (tmp_path / "main.conf").read_text())


def test_levels_have_their_own_logs(server: Tengine) -> None:
    folder = server.folder
    server.write(
        http="log_format short '$status $uri';",
        server=f"""
            location = /off {{ access_log off; return 200; }}
            location = /own {{ access_log {folder}/own.log short; return 201; }}
            location = /two {{ access_log {folder}/own.log short; access_log {folder}/two.log short; return 202; }}
            location = /if {{ access_log {folder}/own.log short if=$arg_log; return 203; }}""",
    )
    server.start()
    for path in ("/off", "/own", "/two", "/if", "/if?log=0", "/if?log=1", "/say"):
        server.get(path)
    assert (folder / "own.log").read_text() == "201 /own\n202 /two\n203 /if\n"
    assert (folder / "two.log").read_text() == "202 /two\n"
    assert len(server.access()) == 1


def test_a_line_is_there_when_the_connection_has_ended(server: Tengine) -> None:
    server.write()
    server.start()
    for number in range(1, 20):
        server.get(f"/say?{number}")
        assert len(server.access()) == number


def test_many_connections_at_once(server: Tengine) -> None:
    server.write()
    server.start()
    sockets = [server.connect() for _ in range(20)]
    for number, sock in enumerate(sockets):
        sock.sendall(f"GET /say?{number} HTTP/1.0\r\n\r\n".encode())
    for sock in sockets:
        while sock.recv(4096):
            pass
        sock.close()
    assert sorted(re.findall(r"/say\?(\d+) ", "".join(server.access()))) == sorted(map(str, range(20)))


def test_a_buffer_is_on_disk_once_the_server_has_ended(server: Tengine) -> None:
    logs = f"access_log {server.folder}/b.log combined buffer=32k; access_log {server.folder}/z.log combined gzip;"
    server.write(http=logs)
    server.start()
    server.get()
    assert (server.folder / "b.log").read_bytes() == b""
    server.stop()
    assert (server.folder / "b.log").read_bytes() == gzip.decompress((server.folder / "z.log").read_bytes())
    assert (server.folder / "b.log").read_bytes().count(b"\n") == 1


def test_a_buffer_is_flushed_in_time(server: Tengine) -> None:
    server.write(http=f"access_log {server.folder}/b.log combined buffer=32k flush=50ms;")
    server.start()
    server.get()
    until(lambda: (server.folder / "b.log").read_bytes().count(b"\n") == 1)


@pytest.mark.parametrize("cache", ["", "open_log_file_cache max=2 valid=1m;"])
def test_names_with_variables(server: Tengine, cache: str) -> None:
    (server.folder / "here").mkdir()
    log = f"access_log {server.folder}/$arg_name.log combined;"
    server.write(
        http=cache,
        server=f"{log} location = /a {{ return 200; }} location = /b {{ root {server.folder}/none; return 200; }}",
    )
    server.start()
    for name in ("one", "two", "one", "three"):
        server.get(f"/a?name={name}")
    server.get("/b?name=four")
    lines = {file.name: len(file.read_text().splitlines()) for file in server.folder.glob("*e.log")}
    assert lines.get("one.log") == 2 and lines.get("three.log") == 1
    assert not (server.folder / "four.log").exists()


def test_to_syslog(server: Tengine) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        collector.settimeout(10)
        target = f"syslog:server=127.0.0.1:{collector.getsockname()[1]},tag=seen,severity=warn"
        server.write(http=f"log_format short '$status'; access_log {target} short;")
        server.start()
        server.get()
        assert re.fullmatch(rb"<188>.{15} \S+ seen: 200", collector.recv(4096))


def test_requests_that_are_refused_are_logged(server: Tengine) -> None:
    server.write()
    server.start()
    server.exchange(b"GARBAGE\r\n\r\n")
    server.exchange(b"GET / HTTP/1.1\r\n\r\n")
    assert [re.findall(r'"(\S+).*?" (\d+) \d+ "-" "-"$', text) for text in server.access()] == [
        [("GARBAGE", "400")],
        [("GET", "400")],
    ]


def test_without_a_log_directive(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    site = compiled(tmp_path, "server { listen 127.0.0.1:1; }").site
    assert len(site.servers[0].location.loggers) == 1
    assert os.listdir(tmp_path / "logs") == []  # opened only by who serves
