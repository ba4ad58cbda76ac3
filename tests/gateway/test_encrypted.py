"""proxy_pass https://…: what the server is shown and how it is judged, sessions, kept connections, failures."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.livesite import Site, serving
from tests.gateway.nginx import agrees, needs_nginx, whole
from tests.gateway.tlssite import keys as keys

SERVER = """
server { listen 127.0.0.1:%PORT2% ssl; keepalive_requests 1000; ssl_verify_client optional_no_ca;
    ssl_certificate %KEYS%/localhost.pem; ssl_certificate_key %KEYS%/localhost.key;
    location / { add_header Seen "$ssl_server_name|$ssl_session_reused|$ssl_protocol|$connection" always;
        return 200 "$http_host $request_uri $ssl_client_s_dn"; }
    location /big { root %ROOT%; try_files /big =404; }
}
"""


@pytest.fixture
def site(tmp_path: Path, keys: Path) -> Iterator[Callable[..., Site]]:
    """A proxy on the first port, a server with TLS on the second."""
    started = []

    def start(location: str, http: str = "") -> Site:
        proxy = f"server {{ listen 127.0.0.1:%PORT%; {location} }}"
        text = (http + proxy + SERVER).replace("%KEYS%", str(keys))
        manager = serving(tmp_path, http=text, files={"big": bytes(range(256)) * 4000})
        site = manager.__enter__()
        started.append(manager)
        return site

    yield start
    for manager in started:
        manager.__exit__(None, None, None)


def test_requests_are_passed_over_tls(site: Callable[..., Site]) -> None:
    live = site("location /a/ { proxy_pass https://127.0.0.1:%PORT2%/b/; }")
    answer = live.get("/a/x?y")
    assert answer.body == b"127.0.0.1:%d /b/x?y " % live.ports[1]
    assert (answer.get("Seen") or "").startswith("|.|TLSv1.3|")
    assert live.get("/a/x").status == 200


def test_large_answers_and_bodies(site: Callable[..., Site]) -> None:
    live = site("location / { proxy_pass https://127.0.0.1:%PORT2%; }")
    assert live.get("/big").body == bytes(range(256)) * 4000


@pytest.mark.parametrize(
    ("directives", "name"),
    [
        ("proxy_ssl_server_name on; proxy_ssl_name localhost;", "localhost"),
        ("proxy_ssl_server_name on; proxy_ssl_name $arg_n:443;", "of-args"),
        ("proxy_ssl_server_name on;", ""),  # an address is not sent
        ("proxy_ssl_name localhost;", ""),
    ],
)
def test_the_name_that_is_sent(site: Callable[..., Site], directives: str, name: str) -> None:
    live = site(f"location / {{ {directives} proxy_pass https://127.0.0.1:%PORT2%; }}")
    assert (live.get("/?n=of-args").get("Seen") or "").split("|")[0] == name


@pytest.mark.parametrize(
    ("trusted", "name", "status", "said"),
    [
        ("localhost", "localhost", 200, ""),
        ("localhost", "other", 502, 'upstream SSL certificate does not match "other" while SSL handshaking'),
        ("authority", "localhost", 502, "upstream SSL certificate verify error: (18:self-signed certificate)"),
    ],
)
def test_the_server_is_verified(
    site: Callable[..., Site], keys: Path, trusted: str, name: str, status: int, said: str
) -> None:
    verify = f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {keys}/{trusted}.pem; proxy_ssl_name {name};"
    live = site(f"location / {{ {verify} proxy_pass https://127.0.0.1:%PORT2%; }}")
    assert live.get("/").status == status
    assert said in live.log()


def test_our_certificate_is_shown(site: Callable[..., Site], keys: Path) -> None:
    fixed = f"proxy_ssl_certificate {keys}/client.pem; proxy_ssl_certificate_key {keys}/client.key;"
    named = f"proxy_ssl_certificate {keys}/$arg_c.pem; proxy_ssl_certificate_key {keys}/$arg_c.key;"
    live = site(
        f"""location /f {{ {fixed} proxy_pass https://127.0.0.1:%PORT2%; }}
        location /n {{ {named} proxy_pass https://127.0.0.1:%PORT2%; }}"""
    )
    assert live.get("/f").body.endswith(b"CN=client,O=Tests")
    assert live.get("/n?c=signed").body.endswith(b"CN=client,O=Tests")
    assert live.get("/n?c=two.example").body.endswith(b"CN=two.example,O=Tests")


@pytest.mark.parametrize(("reuse", "mark"), [("on", "r"), ("off", ".")])
def test_sessions_are_resumed(site: Callable[..., Site], reuse: str, mark: str) -> None:
    live = site(f"location / {{ proxy_ssl_session_reuse {reuse}; proxy_pass https://127.0.0.1:%PORT2%; }}")
    seen = [(live.get("/").get("Seen") or "").split("|")[1] for _ in range(2)]
    assert seen == [".", mark]


def test_connections_are_kept_apart_from_plain_ones(site: Callable[..., Site]) -> None:
    live = site(
        "location /s { proxy_pass https://u; } location /p { proxy_pass http://u; }",
        "upstream u { server 127.0.0.1:%PORT2%; keepalive 4; }",
    )
    numbers = {(live.get("/s").get("Seen") or "").split("|")[3] for _ in range(3)}
    assert len(numbers) == 1
    assert b"plain HTTP request" in live.get("/p").body
    assert (live.get("/s").get("Seen") or "").split("|")[3] in numbers


def test_the_scheme_may_be_a_variable(site: Callable[..., Site]) -> None:
    live = site("location / { set $s https; proxy_pass $s://127.0.0.1:%PORT2%$request_uri; }")
    assert live.get("/x").body.endswith(b" /x ")


def test_servers_that_speak_no_tls(site: Callable[..., Site]) -> None:
    live = site("location / { proxy_connect_timeout 300ms; proxy_pass https://127.0.0.1:$arg_p; }")
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as rude:
        port = rude.getsockname()[1]

        def serve() -> None:
            connection, _ = rude.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            connection.recv(1000)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        assert live.get(f"/?p={port}").status == 502
        thread.join()
        assert live.get(f"/?p={silent.getsockname()[1]}").status == 504
    assert "SSL_do_handshake() failed (SSL: error:0A00010B:SSL routines::wrong version number)" in live.log()
    assert "upstream timed out (110: Connection timed out) while SSL handshaking to upstream" in live.log()
    assert f'upstream: "https://127.0.0.1:{port}/' in live.log()


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "proxy_ssl_verify on; proxy_pass https://127.0.0.1:1;",
        "proxy_ssl_certificate %KEYS%/client.pem; proxy_pass https://127.0.0.1:1;",
        "proxy_ssl_certificate absent; proxy_ssl_certificate_key absent; proxy_pass https://127.0.0.1:1;",
        "proxy_ssl_ciphers nonsense; proxy_pass https://127.0.0.1:1;",
        "proxy_ssl_protocols TLSv9; proxy_pass https://127.0.0.1:1;",
        "proxy_ssl_server_name maybe; proxy_pass https://127.0.0.1:1;",
        "proxy_pass https://127.0.0.1:99999;",
    ],
)
def test_mistakes_are_told_as_nginx_tells_them(tmp_path: Path, keys: Path, text: str) -> None:
    text = text.replace("%KEYS%", str(keys))
    agrees(tmp_path, whole(tmp_path, f"server {{ listen 127.0.0.1:1; location / {{ {text} }} }}"))
