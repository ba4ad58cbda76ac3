"""Clients' certificates: how they are judged, what variables tell of them, and revocation."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.livesite import Site
from tests.gateway.tlssite import ask, careless, openssl
from tests.gateway.tlssite import keys as keys
from tests.gateway.tlssite import site as site

VERIFY = "ssl_client_certificate %KEYS%/authority.pem; return 200 '$ssl_client_verify $ssl_client_s_dn';"


@pytest.mark.parametrize(
    ("asked", "shown", "status", "body"),
    [
        ("on", "signed", 200, b"SUCCESS CN=client,O=Tests"),
        ("on", "client", 400, b"The SSL certificate error"),
        ("on", "", 400, b"No required SSL certificate was sent"),
        ("optional", "", 200, b"NONE "),
        ("optional", "client", 400, b"The SSL certificate error"),
        ("optional_no_ca", "client", 200, b"FAILED:self-signed certificate CN=client,O=Tests"),
        ("off", "signed", 200, b"NONE "),
    ],
)
def test_clients_show_certificates(
    site: Callable[..., Site], keys: Path, asked: str, shown: str, status: int, body: bytes
) -> None:
    live = site(f"ssl_verify_client {asked}; {VERIFY}")
    answer = ask(live, careless(keys, shown))
    assert answer.status == status
    assert body in answer.body


def test_an_error_page_may_answer_for_a_certificate(site: Callable[..., Site], keys: Path) -> None:
    live = site(
        """ssl_verify_client on; ssl_client_certificate %KEYS%/authority.pem; error_page 495 496 =403 /why;
        location = /why { internal; return 403 "$ssl_client_verify"; }"""
    )
    answer = ask(live, careless(keys))
    assert (answer.status, answer.body) == (403, b"NONE")


def test_variables_of_the_client_s_certificate(site: Callable[..., Site], keys: Path) -> None:
    names = ("serial", "i_dn", "s_dn_legacy", "i_dn_legacy", "fingerprint", "v_remain", "v_end", "raw_cert")
    words = "|".join(f"$ssl_client_{name}" for name in names)
    live = site(f"ssl_verify_client optional_no_ca; return 200 '{words}';")
    serial, issuer, legacy, signer, digest, remain, end, text = ask(live, careless(keys, "signed")).body.split(b"|")
    assert (serial, issuer) == (b"1267", b"CN=authority,O=Tests")
    assert (legacy, signer) == (b"/O=Tests/CN=client", b"/O=Tests/CN=authority")
    assert re.fullmatch(b"[0-9a-f]{40}", digest)
    assert remain in (b"2", b"3")
    assert end.endswith(b" GMT")
    assert text == (keys / "signed.pem").read_bytes()


def test_revoked_certificates_are_refused(site: Callable[..., Site], keys: Path, tmp_path: Path) -> None:
    (tmp_path / "index").write_text("")
    (tmp_path / "ca.conf").write_text(f"[ca]\ndefault_ca=c\n[c]\ndatabase={tmp_path}/index\ndefault_md=sha256\n")
    ca = ["ca", "-config", str(tmp_path / "ca.conf"), "-keyfile", "authority.key", "-cert", "authority.pem"]
    openssl(*ca, "-revoke", "signed.pem", folder=keys)
    openssl(*ca, "-gencrl", "-crldays", "3", "-out", str(tmp_path / "crl.pem"), folder=keys)
    live = site(f"ssl_verify_client on; ssl_crl {tmp_path}/crl.pem; {VERIFY}")
    assert ask(live, careless(keys, "signed")).status == 400
    assert "(23:certificate revoked)" in live.log()


def test_another_host_than_the_one_negotiated_is_misdirected(site: Callable[..., Site], keys: Path) -> None:
    live = site(
        http="""server { listen 127.0.0.1:%PORT% ssl; server_name open; return 200 open; }
        server { listen 127.0.0.1:%PORT% ssl; server_name closed; return 200 closed;
            ssl_verify_client on; ssl_client_certificate %KEYS%/authority.pem; }"""
    )
    assert ask(live, careless(keys), name="open", host="closed").status == 421
    assert ask(live, careless(keys), name="closed", host="open").body == b"open"
