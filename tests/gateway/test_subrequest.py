"""Subrequests: what they share with the request, what they do not, and how they end."""

import threading
from pathlib import Path

from tests.gateway.livesite import serving
from tests.gateway.origin import Call, answer, origin
from tests.gateway.tengine import until

POST = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n"


def test_a_subrequest_that_closes_closes_the_request(tmp_path: Path) -> None:
    conf = "location / { auth_request /close; } location /close { return 444; }"
    with serving(tmp_path, conf) as site:
        assert site.get("/").head == b""


def test_post_read_is_not_run_again_but_the_servers_rewrites_are(tmp_path: Path) -> None:
    conf = "if ($args = found) { return 204; } location / { auth_request /auth?found; } location /auth { return 403; }"
    with serving(tmp_path, conf.replace("/auth?found", "/auth"), files={"f": b"f"}) as site:
        assert site.get("/f").status == 403
        assert site.get("/f?found").status == 204


def test_a_body_without_an_owner_has_no_length(tmp_path: Path) -> None:
    """A length without its body would make the upstream server wait for one, or take the next request for it."""
    heads: list[bytes] = []

    def serve(call: Call) -> None:
        while head := call.head():
            heads.append(head)
            call.send(answer(b"", "X: y"))

    with origin(serve) as up:
        conf = "location / { auth_request /auth; return 200 x; } location /f { auth_request /auth; }"
        conf += f"location /auth {{ proxy_pass http://127.0.0.1:{up.port}; proxy_http_version 1.1;"
        conf += "proxy_set_header Connection ''; }"
        with serving(tmp_path, conf, files={"f": b"f"}) as site, site.connect() as client:
            client.send(POST.format("/f", 4).encode() + b"body")
            assert client.answer().status == 405
            assert client.get("/f").status == 200
        assert len(heads) == 2 and b"ontent-" not in heads[0] + heads[1]


def test_log_subrequest(tmp_path: Path) -> None:
    http = "log_format s '$uri $status'; access_log %FOLDER%/access.log s;"
    conf = (
        "location / { echo_location /on; echo_location /off; echo_location /stream; }"
        "location /on { log_subrequest on; return 200 on; } location /off { return 200 off; }"
        "location /stream { log_subrequest on; echo a; echo_sleep 0.001; echo b; }"
    )
    with serving(tmp_path, conf, http=http) as site:
        assert site.get("/").body == b"onoffa\nb\n"
        until(lambda: len(site.log("access.log").splitlines()) == 3)
        assert site.log("access.log").splitlines() == ["/on 200", "/stream 200", "/ 200"]


def test_a_mirror_does_not_keep_the_client_waiting(tmp_path: Path) -> None:
    answered, asked, seen = threading.Event(), threading.Event(), threading.Event()

    def serve(call: Call) -> None:
        head = call.head()
        asked.set()
        assert answered.wait(10)
        assert call.body(4) == b"body" and head.startswith(b"POST /m?a=1 ")
        seen.set()
        call.send(answer(b"late", "Connection: close"))

    with origin(serve) as up:
        conf = "location /f { } location /p { mirror /m; echo ok; }"
        conf += f"location /m {{ internal; proxy_pass http://127.0.0.1:{up.port}; }}"
        with serving(tmp_path, conf, files={"f": b"f"}) as site, site.connect() as client:
            client.send(POST.format("/p?a=1", 4).encode() + b"body")
            assert client.answer().body == b"ok\n"
            assert client.get("/f").body == b"f"
            assert asked.wait(10)
            answered.set()
            assert seen.wait(10)


def test_a_mirrored_body_that_went_to_a_file_outlives_the_request(tmp_path: Path) -> None:
    body = bytes(range(256)) * 400
    go, bodies = threading.Event(), []

    def serve(call: Call) -> None:
        call.head()
        assert go.wait(10)
        bodies.append(call.body(len(body)))
        call.send(answer(b"", "Connection: close"))

    with origin(serve) as up:
        conf = "client_body_buffer_size 1k; location / { mirror /m; echo_request_body; }"
        conf += f"location /m {{ proxy_pass http://127.0.0.1:{up.port}; }}"
        with serving(tmp_path, conf) as site:
            with site.connect() as client:
                client.send(POST.format("/", len(body)).encode() + body)
                assert client.answer().body == body
            go.set()
            until(lambda: bodies)
            assert bodies == [body]


def test_a_worker_that_drains_waits_for_its_mirrors(tmp_path: Path) -> None:
    asked, go, gone = threading.Event(), threading.Event(), threading.Event()

    def serve(call: Call) -> None:
        call.head()
        asked.set()
        assert go.wait(10)
        call.send(answer(b"", "Connection: close"))

    with origin(serve) as up:
        conf = f"location / {{ mirror /m; }} location /m {{ proxy_pass http://127.0.0.1:{up.port}; }}"
        with serving(tmp_path, conf, files={"f": b"f"}) as site:
            assert site.get("/f").body == b"f"
            assert asked.wait(10)
            site.ask(lambda service: service.drain(gone.set))
            assert not gone.wait(0.05)
            go.set()
            assert gone.wait(10)
