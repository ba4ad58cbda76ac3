"""TLS with Python's ssl, openssl and curl as clients: certificates by name, sessions, what is refused, reloads."""

import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gateway.livesite import Site
from tests.gateway.nginx import agrees, needs_nginx, whole
from tests.gateway.tengine import Tengine, until
from tests.gateway.tlssite import ask, careless, connected, trusting
from tests.gateway.tlssite import keys as keys
from tests.gateway.tlssite import site as site

BIG = bytes(range(256)) * 20000
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_requests_are_answered_over_tls(site: Callable[..., Site], keys: Path) -> None:
    live = site("location = / { return 200 '$https $scheme $ssl_server_name $ssl_protocol $ssl_session_reused'; }")
    with connected(live, trusting(keys)) as client:
        assert client.get("/").body == b"on https localhost TLSv1.3 ."
        assert client.get("/").status == 200
    answer = ask(live, trusting(keys, version=ssl.TLSVersion.TLSv1_2))
    assert answer.body == b"on https localhost TLSv1.2 ."


def test_variables_of_the_connection(site: Callable[..., Site], keys: Path) -> None:
    names = ("ssl_cipher", "ssl_curve", "ssl_alpn_protocol", "ssl_ciphers", "ssl_session_id", "ssl_client_verify")
    live = site(f"location = / {{ return 200 '{'|'.join('$' + name for name in names)}'; }}")
    context = trusting(keys)
    context.set_alpn_protocols(["h9", "http/1.1"])
    with connected(live, context) as client:
        cipher, curve, protocol, ciphers, session, verified = client.get("/").body.decode().split("|")
        assert client.sock.cipher()[0] == cipher  # type: ignore[attr-defined]
    assert curve.lower() in ("x25519", "prime256v1")
    assert protocol == "http/1.1"
    assert cipher in ciphers.split(":")
    assert re.fullmatch("[0-9a-f]{64}", session)
    assert verified == "NONE"


def test_variables_are_empty_without_tls(site: Callable[..., Site], keys: Path) -> None:
    live = site(http="server { listen 127.0.0.1:%PORT%; return 200 '$https|$ssl_protocol|$ssl_client_verify'; }")
    assert live.get("/").body == b"||"


@pytest.mark.parametrize("sent", ["sendfile on;", "sendfile off;", "ssl_buffer_size 4k;"])
def test_large_files_arrive_whole(site: Callable[..., Site], keys: Path, sent: str) -> None:
    live = site(sent, files={"big": BIG})
    with connected(live, trusting(keys)) as client:
        assert client.get("/big").body == BIG
        assert client.get("/big", "Range: bytes=5-9").body == BIG[5:10]


def test_request_bodies_arrive_whole(site: Callable[..., Site], keys: Path) -> None:
    echo = "location = /e { echo_read_request_body; echo_request_body; }"
    live = site(f"client_max_body_size 0; client_body_buffer_size 6m; {echo}")
    with connected(live, trusting(keys)) as client:
        client.send(b"POST /e HTTP/1.0\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(BIG) + BIG)
        assert client.answer().body == BIG


def test_pipelined_requests_keep_their_order(site: Callable[..., Site], keys: Path) -> None:
    live = site("location / { return 200 $uri; }")
    with connected(live, trusting(keys)) as client:
        client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number for number in range(300)))
        assert [client.answer().body for _ in range(300)] == [b"/%d" % number for number in range(300)]


def test_the_name_chooses_the_certificate(site: Callable[..., Site], keys: Path) -> None:
    live = site(
        http="""server { listen 127.0.0.1:%PORT% ssl; server_name localhost; return 200 one; }
        server { listen 127.0.0.1:%PORT%; server_name *.example; return 200 $ssl_server_name;
            ssl_certificate %KEYS%/two.example.pem; ssl_certificate_key %KEYS%/two.example.key; }"""
    )
    assert ask(live, trusting(keys, "localhost"), name="localhost").body == b"one"
    assert ask(live, trusting(keys, "two.example"), name="two.example").body == b"two.example"
    assert ask(live, careless(keys), name="unknown", host="localhost").body == b"one"
    assert ask(live, careless(keys), name=None, host="localhost").body == b"one"


def test_each_kind_of_key_has_its_certificate(site: Callable[..., Site], keys: Path) -> None:
    live = site(
        """ssl_certificate %KEYS%/rsa.example.pem; ssl_certificate_key %KEYS%/rsa.example.key;
        ssl_certificate %KEYS%/two.example.pem; ssl_certificate_key %KEYS%/two.example.key; return 200 x;"""
    )
    for ciphers, issued in (("ECDHE-RSA-AES128-GCM-SHA256", "rsa"), ("ECDHE-ECDSA-AES128-GCM-SHA256", "two")):
        context = trusting(keys, f"{issued}.example", version=ssl.TLSVersion.TLSv1_2)
        context.set_ciphers(ciphers)
        assert ask(live, context, name=f"{issued}.example").status == 200


def test_names_of_certificates_may_have_variables(site: Callable[..., Site], keys: Path) -> None:
    named = "ssl_certificate %KEYS%/$ssl_server_name.pem; ssl_certificate_key %KEYS%/$ssl_server_name.key;"
    live = site(f"{named} return 200 x;")
    assert ask(live, trusting(keys, "two.example"), name="two.example").status == 200
    assert ask(live, trusting(keys, "rsa.example"), name="rsa.example").status == 200
    with pytest.raises(ssl.SSLError, match="internal error"):
        ask(live, careless(keys), name="absent.example")
    assert 'cannot load certificate "' in live.log()


def test_a_name_is_no_path(site: Callable[..., Site], keys: Path) -> None:
    (keys / "below").mkdir(exist_ok=True)
    named = "ssl_certificate %KEYS%/below/$ssl_server_name.pem; ssl_certificate_key %KEYS%/below/$ssl_server_name.key;"
    live = site(f"{named} return 200 x;")
    words = ["openssl", "s_client", "-connect", f"127.0.0.1:{live.ports[0]}", "-servername"]
    done = subprocess.run([*words, "../localhost"], input=b"", capture_output=True, check=False, timeout=20)
    assert b"no peer certificate available" in done.stdout
    assert f'"{keys}/below/.pem"' in live.log()


def test_a_locked_key_needs_its_password(site: Callable[..., Site], keys: Path, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("wrong\nopen\n")
    pair = "ssl_certificate %KEYS%/localhost.pem; ssl_certificate_key %KEYS%/locked.key;"
    live = site(f"ssl_password_file words; {pair} return 200 x;")
    assert ask(live, trusting(keys)).status == 200


def test_a_server_may_refuse_handshakes(site: Callable[..., Site], keys: Path) -> None:
    live = site(
        http="""server { listen 127.0.0.1:%PORT% ssl; ssl_reject_handshake on; }
        server { listen 127.0.0.1:%PORT% ssl; server_name localhost; return 200 here; }"""
    )
    assert ask(live, trusting(keys)).body == b"here"
    for name in ("other", None):
        with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
            ask(live, careless(keys), name=name)


def test_protocols_are_chosen_by_name(site: Callable[..., Site], keys: Path) -> None:
    live = site(
        http="""add_header V $ssl_protocol always;
        server { listen 127.0.0.1:%PORT% ssl; server_name one; return 200; ssl_protocols TLSv1.2; }
        server { listen 127.0.0.1:%PORT% ssl; server_name two; return 200; ssl_protocols TLSv1.3; }"""
    )
    assert ask(live, careless(keys), name="one").get("V") == "TLSv1.2"
    assert ask(live, careless(keys), name="two").get("V") == "TLSv1.3"
    context = careless(keys)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        ask(live, context, name="two")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("kept", "reused"),
    [
        ("", "r"),
        ("ssl_session_tickets off; ssl_session_cache shared:s:1m;", "r"),
        ("ssl_session_tickets off;", "."),
    ],
)
def test_sessions_are_resumed(
    site: Callable[..., Site], keys: Path, version: ssl.TLSVersion, kept: str, reused: str
) -> None:
    live = site(f"{kept} return 200 $ssl_session_reused;")
    context = trusting(keys, version=version)
    with connected(live, context) as client:
        assert client.get("/").body == b"."
        session = client.sock.session  # type: ignore[attr-defined]
        client.sock.unwrap()  # type: ignore[attr-defined]
    with connected(live, context, session=session) as client:
        assert client.get("/").body == reused.encode()


def test_a_session_is_good_only_for_its_server(site: Callable[..., Site], keys: Path) -> None:
    live = site(
        http="""server { listen 127.0.0.1:%PORT% ssl; server_name localhost; return 200 $ssl_session_reused; }
        server { listen 127.0.0.1:%PORT% ssl; server_name closed; return 200 $ssl_session_reused;
            ssl_verify_client on; ssl_client_certificate %KEYS%/authority.pem; }"""
    )
    context = careless(keys)
    with connected(live, context) as client:
        client.get("/")
        session = client.sock.session  # type: ignore[attr-defined]
    with connected(live, context, "closed", session) as client:
        assert client.get("/", host="closed").status == 400
        assert not client.sock.session_reused  # type: ignore[attr-defined]


def test_plain_http_gets_a_page_of_its_own(site: Callable[..., Site]) -> None:
    live = site("error_page 497 https://$host$request_uri; location / { return 200 x; }")
    answer = live.get("/a?b")
    assert (answer.status, answer.get("Location")) == (302, "https://localhost/a?b")


def test_what_is_neither_tls_nor_http_is_refused(site: Callable[..., Site], keys: Path) -> None:
    live = site("return 200 x;")
    assert b"400 Bad Request" in live.raw(b"hello\r\n\r\n")
    assert live.raw(b"\x16\x03\x01\x00\x05hello").startswith(b"\x15\x03")  # an alert
    assert "SSL_do_handshake() failed (SSL: error:0A" in live.log()
    assert ask(live, trusting(keys)).status == 200


def test_a_handshake_has_a_time_limit(site: Callable[..., Site]) -> None:
    live = site("client_header_timeout 200ms;")
    with live.connect() as silent, live.connect() as half:
        half.send(b"\x16\x03\x01")
        assert (silent.rest(), half.rest()) == (b"", b"")


def test_the_connection_ends_with_a_good_bye(site: Callable[..., Site], keys: Path) -> None:
    live = site("return 200 x;")
    context = trusting(keys)
    with connected(live, context) as client:
        client.send(b"GET / HTTP/1.0\r\n\r\n")
        assert client.rest().endswith(b"\r\n\r\nx")  # no SSLEOFError
    with connected(live, context) as client:
        client.get("/")
        client.sock.unwrap()  # type: ignore[attr-defined]
    until(lambda: live.ask(lambda service: len(service.connections)) == 0)


def test_many_at_once(site: Callable[..., Site], keys: Path) -> None:
    live = site(files={"f": BIG[:70000]})
    context = trusting(keys)
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda _: ask(live, context, "/f").body, range(40)))
    assert bodies == [BIG[:70000]] * 40


def test_openssl_and_curl_as_clients(site: Callable[..., Site], keys: Path) -> None:
    live = site("return 200 well;")
    port = live.ports[0]
    words = ["curl", "-sS", "--cacert", f"{keys}/localhost.pem", f"https://localhost:{port}/"]
    assert subprocess.run(words, capture_output=True, check=True, timeout=20).stdout == b"well"
    words = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-no_tls1_3", "-quiet", "-ign_eof"]
    request = b"GET / HTTP/1.0\r\n\r\n"
    done = subprocess.run(words, input=request, capture_output=True, check=False, timeout=20)
    assert done.stdout.endswith(b"well")


def test_renegotiation_is_refused(site: Callable[..., Site]) -> None:
    live = site("return 200 well;")
    words = ["openssl", "s_client", "-connect", f"127.0.0.1:{live.ports[0]}", "-tls1_2"]
    done = subprocess.run(words, input=b"R\n", capture_output=True, check=False, timeout=20)
    assert b"no renegotiation" in done.stdout + done.stderr


REFUSED = [
    "listen 127.0.0.1:1 ssl;",
    "listen 127.0.0.1:1 ssl; ssl_certificate absent.pem; ssl_certificate_key absent.key;",
    "listen 127.0.0.1:1 ssl; ssl_certificate %KEYS%/localhost.pem;",
    "listen 127.0.0.1:1 ssl; ssl_certificate %KEYS%/localhost.pem; ssl_certificate_key %KEYS%/two.example.key;",
    "listen 127.0.0.1:1 ssl; ssl_certificate %KEYS%/localhost.key; ssl_certificate_key %KEYS%/localhost.key;",
    "listen 127.0.0.1:1 ssl; ssl_certificate %KEYS%/localhost.pem; ssl_certificate_key %KEYS%/localhost.pem;",
    "%PAIR% ssl_ciphers nonsense;",
    "%PAIR% ssl_protocols TLSv9;",
    "%PAIR% ssl_ecdh_curve nonsense;",
    "%PAIR% ssl_session_cache nonsense;",
    "%PAIR% ssl_session_cache shared:a:1k;",
    "%PAIR% ssl_verify_client perhaps;",
    "%PAIR% ssl_conf_command Nonsense x;",
    "%PAIR% ssl_conf_command Certificate absent;",
    "%PAIR% ssl_password_file absent;",
    "%PAIR% ssl_dhparam absent;",
    "%PAIR% ssl_prefer_server_ciphers maybe;",
    "listen 127.0.0.1:1 ssl; ssl_certificate $nonsense; ssl_certificate_key $nonsense;",
    "listen 127.0.0.1:1 ssl; ssl_reject_handshake on;",
]


@needs_nginx
@pytest.mark.parametrize("text", REFUSED)
def test_mistakes_are_told_as_nginx_tells_them(tmp_path: Path, keys: Path, text: str) -> None:
    pair = "ssl_certificate %KEYS%/localhost.pem; ssl_certificate_key %KEYS%/localhost.key;"
    text = text.replace("%PAIR%", f"listen 127.0.0.1:1 ssl; {pair}").replace("%KEYS%", str(keys))
    agrees(tmp_path, whole(tmp_path, f"server {{ {text} }}"))


def test_a_reload_reads_certificates_again(tmp_path: Path, keys: Path) -> None:
    server = Tengine(tmp_path)
    for name in ("pem", "key"):
        shutil.copy(keys / f"localhost.{name}", tmp_path / f"site.{name}")
    server.write(server="ssl_certificate site.pem; ssl_certificate_key site.key;")
    file = tmp_path / "main.conf"
    plain = f"listen 127.0.0.1:{server.port}"
    file.write_text(file.read_text().replace(f"{plain};", f"{plain} ssl;"))
    server.start()
    try:
        assert subject(server.port) == ssl.PEM_cert_to_DER_cert((keys / "localhost.pem").read_text())
        for name in ("pem", "key"):
            shutil.copy(keys / f"two.example.{name}", tmp_path / f"site.{name}")
        server.send_signal(signal.SIGHUP)
        expected = ssl.PEM_cert_to_DER_cert((keys / "two.example.pem").read_text())
        until(lambda: subject(server.port) == expected)
    finally:
        assert server.stop() == 0


def subject(port: int) -> bytes:
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port)))
