"""proxy_pass against upstream servers that behave, misbehave, lag, hang up and upgrade."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.gateway.origin import LIMIT, Call, Origin, answer, origin
from tests.gateway.tengine import until

Start = Callable[..., Any]


@pytest.fixture
def serving() -> Iterator[Callable[[Callable[[Call], None]], Origin]]:
    """Start upstream servers that stop with the test."""
    running = []

    def start(serve: Callable[[Call], None]) -> Origin:
        manager = origin(serve)
        running.append(manager)
        return manager.__enter__()

    yield start
    for manager in running:
        manager.__exit__(None, None, None)


def echo(call: Call) -> None:
    """Answer every request with its own head (and stated body)."""
    while head := call.head():
        size = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        call.send(answer(head + call.body(size), "Content-Type: text/plain", "Server: own", "X-Kept: yes"))
        if b"Connection: close" in head:
            return


def status(message: Any) -> int:
    return int(message.head[9:12])


def connect(gateway: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), LIMIT)


def get(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: me", *lines, "", ""]).encode()


def read_to(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data:
        piece = sock.recv(65536)
        assert piece, data
        data += piece
    return data


URIS = [
    ("/plain/a%20b/../c//d?x=%20y", "/plain/a%20b/../c//d?x=%20y"),
    ("/new/a%20b?q", "/other/a%20b?q"),
    ("/new/", "/other/"),
    ("/slash/x", "//x"),
    ("/bare/x?a", "/?a"),
    ("/rewritten/abc?z", "/r/abc?z"),
    ("/var/abc?v=5", "/abc?v=5"),
    ("/varuri/abc?v=5", "/fixed?q=5"),
    ("/regex/a%2Fb", "/regex/a%2Fb"),
    ("/changed/a%20b?z", "/c/a%20b?z"),
]


def test_the_uri_that_is_sent(gateway: Start, serving: Any) -> None:
    port = serving(echo).port
    to = f"proxy_pass http://127.0.0.1:{port}"
    running = gateway(
        f"location /plain/ {{ {to}; }}\nlocation /new/ {{ {to}/other/; }}\nlocation /slash {{ {to}/; }}\n"
        f"location /rewritten/ {{ rewrite ^/rewritten/(.*)$ /r/$1 break; {to}/ignored/; }}\n"
        f"location /var/ {{ {to.replace(str(port), '$arg_p')}; set $args $args; }}\n"
        f"location = /bare/x {{ {to}/; }}\n"
        f"location ~ ^/regex/ {{ {to}; }}\nlocation /changed/ {{ rewrite ^/changed/(.*)$ /c/$1 break; {to}; }}\n"
        f"location /varuri/ {{ set $port {port}; proxy_pass http://127.0.0.1:$port/fixed?q=$arg_v; }}\n"
    )
    for path, sent in URIS:
        if path.startswith("/var/"):
            path, sent = f"/var/abc?p={port}", f"/abc?p={port}"
            sent = f"/var{sent}"
        assert running.get(path).body.split(b" ")[1] == sent.encode(), path


def test_request_headers(gateway: Start, serving: Any) -> None:
    port = serving(echo).port
    running = gateway(
        "proxy_http_version 1.1; location /set/ { proxy_set_header X-Real-IP $remote_addr;\n"
        "proxy_set_header Host me.$host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n"
        "proxy_set_header Empty ''; proxy_set_header A-None $arg_none;\n"
        f"proxy_set_header Connection ''; proxy_pass http://127.0.0.1:{port}; }}\n"
        "location /off/ { proxy_pass_request_headers off; proxy_set_header Connection close;\n"
        f"proxy_pass http://127.0.0.1:{port}; }}\n"
    )
    hop = (
        "TE: trailers",
        "Keep-Alive: 5",
        "Upgrade: x",
        "Empty: full",
        "Cookie: a",
        "X-Forwarded-For: 1.1.1.1",
        "x-own: 1",
    )
    lines = running.get("/set/x", *hop).body.decode().split("\r\n")
    assert lines == [
        "GET /set/x HTTP/1.1", "X-Real-IP: 127.0.0.1", "Host: me.localhost", "X-Forwarded-For: 1.1.1.1, 127.0.0.1",
        "Cookie: a", "x-own: 1", "", "",
    ]  # fmt: skip
    assert (
        running.get("/off/x", *hop).body
        == f"GET /off/x HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    )


def test_a_byte_goes_on_in_the_turn_in_which_it_came(gateway: Start, serving: Any) -> None:
    seen = []

    def slow(call: Call) -> None:
        call.head()
        call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        seen.append(call.sock.recv(1))  # the test answers only once it has the first piece
        call.send(b"3\r\ntwo\r\n0\r\n\r\n")

    server = serving(slow)
    running = gateway(f"location / {{ proxy_http_version 1.1; proxy_pass http://127.0.0.1:{server.port}; }}")
    with connect(running) as sock:
        sock.sendall(get("/"))
        read_to(sock, b"3\r\none\r\n")
        server.calls[0].sock.shutdown(socket.SHUT_RD)
        assert read_to(sock, b"0\r\n\r\n") == b"3\r\ntwo\r\n0\r\n\r\n"
    assert seen == [b""]


def test_a_client_that_leaves_takes_the_upstream_along(gateway: Start, serving: Any) -> None:
    left = []

    def waiting(call: Call) -> None:
        head = call.head()
        if b"/stream" in head:
            call.send(b"HTTP/1.1 200 OK\r\n\r\nbegun")
        left.append(call.gone())

    server = serving(waiting)
    running = gateway(f"location / {{ proxy_pass http://127.0.0.1:{server.port}; }}")
    for path in ("/stream", "/head"):
        with connect(running) as sock:
            sock.sendall(get(path))
            if path == "/stream":
                read_to(sock, b"begun")
            else:
                until(lambda: len(server.calls) == 2)
    until(lambda: len(left) == 2)
    assert left == [True, True]


KEPT = (
    "upstream up {{ server 127.0.0.1:{port}; keepalive 4; }}\nproxy_http_version 1.1; proxy_set_header Connection '';\n"
)


def test_connections_are_kept_and_used_again(gateway: Start, serving: Any) -> None:
    server = serving(echo)
    running = gateway("location / { proxy_pass http://up; }", http=KEPT.format(port=server.port))
    for _ in range(4):
        assert status(running.get("/x")) == 200
    assert len(server.calls) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_stale_kept_connection_is_tried_again_once_unless_that_might_repeat_an_action(
    gateway: Start, serving: Any, method: str
) -> None:
    """The server closes its second request unread: a GET goes to a new connection, a POST is 502 as in nginx."""

    def closing(call: Call) -> None:
        call.head()
        call.send(answer(b"first"))
        if call.number == 0:
            call.head()

    server = serving(closing)
    running = gateway("location / { proxy_pass http://up; }", http=KEPT.format(port=server.port))
    assert running.get("/1").body == b"first"
    second = status(running.get("/2", "Content-Length: 0", method=method))
    assert (second, len(server.calls)) == ((200, 2) if method == "GET" else (502, 1))


def test_an_idle_connection_that_the_server_closes_is_not_used(gateway: Start, serving: Any) -> None:
    def once(call: Call) -> None:
        call.head()
        call.send(answer(b"x"))

    server = serving(once)
    running = gateway("location / { proxy_pass http://up; }", http=KEPT.format(port=server.port))
    assert [status(running.get("/", "Content-Length: 0", method="POST")) for _ in range(5)] == [200] * 5
    assert len(server.calls) == 5


BROKEN = {
    "/garbage": (b"garbage\r\n\r\n", "upstream sent no valid HTTP/1.0 header"),
    "/closed": (b"", "upstream prematurely closed connection while reading response header from upstream"),
    "/half": (
        b"HTTP/1.1 200 OK\r\nX: ",
        "upstream prematurely closed connection while reading response header from upstream",
    ),
    "/large": (
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9000,
        "upstream sent too big header while reading response header from upstream",
    ),
    "/twice": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "upstream sent duplicate header line",
    ),
    "/both": (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "at the same time"),
}


def test_answers_that_make_no_sense_are_502_with_nginx_s_words(gateway: Start, serving: Any) -> None:
    def broken(call: Call) -> None:
        path = call.head().split(b" ")[1].decode()
        call.send(BROKEN[path][0])

    server = serving(broken)
    running = gateway(f"location / {{ proxy_pass http://127.0.0.1:{server.port}; }}")
    for path in BROKEN:
        assert status(running.get(path)) == 502, path
    log = running.log("error.log")
    for path, (_, words) in BROKEN.items():
        assert f"{words}" in log and f'upstream: "http://127.0.0.1:{server.port}{path}", host: "localhost"' in log


def test_bodies_that_break_off_close_the_client_s_connection(gateway: Start, serving: Any) -> None:
    def broken(call: Call) -> None:
        head = call.head()
        if b"/length" in head:
            call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        elif b"/chunk" in head:
            call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n")
        else:
            call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")

    server = serving(broken)
    running = gateway(f"location / {{ proxy_http_version 1.1; proxy_pass http://127.0.0.1:{server.port}; }}")
    for path in ("/length", "/chunk", "/short"):
        with connect(running) as sock:
            sock.sendall(get(path))
            data = b""
            while piece := sock.recv(65536):
                data += piece
            if path == "/chunk":
                assert data == b""  # the fault came with the head: as in nginx nothing has been sent yet
            else:
                assert b" 200 OK" in data and b"abc" in data and not data.endswith(b"0\r\n\r\n"), path
    assert "upstream prematurely closed connection while reading upstream" in running.log("error.log")


def test_time_outs(gateway: Start, serving: Any) -> None:
    def silent(call: Call) -> None:
        if b"/begun" in call.head():
            call.send(b"HTTP/1.1 200 OK\r\n\r\nbegun")
        call.gone()

    server = serving(silent)
    running = gateway(f"location / {{ proxy_read_timeout 200ms; proxy_pass http://127.0.0.1:{server.port}; }}")
    assert status(running.get("/")) == 504
    with connect(running) as sock:
        sock.sendall(get("/begun"))
        while sock.recv(65536):
            pass
    log = running.log("error.log")
    assert "upstream timed out (110: Connection timed out) while reading response header from upstream" in log
    assert "upstream timed out (110: Connection timed out) while reading upstream" in log


def test_a_refused_connection_is_502(gateway: Start, serving: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    running = gateway(
        f"location / {{ proxy_pass http://127.0.0.1:{port}; error_page 502 = @down; }}\n"
        "location @down { return 200 down; }"
    )
    assert running.get("/").body == b"down"
    assert "connect() failed (111: Connection refused) while connecting to upstream" in running.log("error.log")


@pytest.mark.parametrize("buffering", ["on", "off"])
@pytest.mark.parametrize("size", [0, 10, 300_000])
def test_request_bodies(gateway: Start, serving: Any, buffering: str, size: int) -> None:
    server = serving(echo)
    running = gateway(
        f"proxy_http_version 1.1; proxy_request_buffering {buffering};\n"
        f"location / {{ proxy_pass http://127.0.0.1:{server.port}; }}"
    )
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    head = f"POST / HTTP/1.1\r\nHost: me\r\nContent-Length: {size}\r\n\r\n".encode()
    assert running.send(head + body)[-1].body.partition(b"\r\n\r\n")[2] == body


def test_a_chunked_body_is_counted_or_passed_on_as_it_comes(gateway: Start, serving: Any) -> None:
    got = []

    def take(call: Call) -> None:
        head = call.head()
        size = 3 if b"Content-Length: 3" in head else 13
        got.append((head.split(b"\r\n")[-3], call.body(size)))
        call.send(answer(b"ok"))

    server = serving(take)
    to = f"proxy_http_version 1.1; proxy_set_header Connection close; proxy_pass http://127.0.0.1:{server.port};"
    running = gateway(f"location /on {{ {to} }} location /off {{ proxy_request_buffering off; {to} }}")
    for path in ("/on", "/off"):
        with connect(running) as sock:
            sock.sendall(f"POST {path} HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n3\r".encode())
            if path == "/off":
                until(lambda: len(server.calls) == 2)  # it is passed on before it has come
            sock.sendall(b"\nabc\r\n0\r\n\r\n")
            assert read_to(sock, b"ok").startswith(b"HTTP/1.1 200 OK")
    assert got == [(b"Content-Length: 3", b"abc"), (b"Transfer-Encoding: chunked", b"3\r\nabc\r\n0\r\n\r\n")]


def test_redirects_and_cookies_are_rewritten(gateway: Start, serving: Any) -> None:
    def moved(call: Call) -> None:
        call.head()
        host = f"127.0.0.1:{server.port}"
        lines = (
            f"Location: http://{host}/b/x?y",
            "Set-Cookie: a=1; Path=/b/; Domain=x.org",
            "Refresh: 3; url=http://h/b",
        )
        call.send(answer(b"", *lines, status="302 Moved Somewhere"))

    server = serving(moved)
    running = gateway(
        f"location /a/ {{ proxy_cookie_path /b/ /a/; proxy_cookie_domain x.org y.org; proxy_cookie_flags a secure;\n"
        f"proxy_pass http://127.0.0.1:{server.port}/b/; }}\n"
        f"location /off/ {{ proxy_redirect off; proxy_pass http://127.0.0.1:{server.port}/b/; }}\n"
    )
    found = running.get("/a/x")
    text = found.head.decode() if isinstance(found.head, bytes) else str(found.head)
    assert "302 Moved Somewhere" in text and "Location: http://localhost" in text and "/a/x?y" in text
    assert "Set-Cookie: a=1; Path=/a/; Domain=y.org; Secure" in text
    assert f"Location: http://127.0.0.1:{server.port}/b/x?y" in str(running.get("/off/x").head)


def test_accel_headers(gateway: Start, serving: Any) -> None:
    def accel(call: Call) -> None:
        path = call.head().split(b" ")[1].decode()
        target = {"/uri": "/inside/f%20g?x", "/name": "@named", "/ignored/": "/inside/x"}[path]
        call.send(answer(b"no", f"X-Accel-Redirect: {target}", "Set-Cookie: a=1", "X-Other: 1"))

    server = serving(accel)
    to = f"proxy_pass http://127.0.0.1:{server.port};"
    running = gateway(
        f"location / {{ {to} }} location /ignored/ {{ proxy_ignore_headers X-Accel-Redirect; {to} }}\n"
        "location /inside/ { internal; return 200 '$uri $args'; } location @named { return 200 named; }"
    )
    assert running.get("/uri").body == b"/inside/f g x" and running.get("/name").body == b"named"
    assert running.get("/ignored/").body == b"no"
