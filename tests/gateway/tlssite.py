"""Certificates and sites for the tests of TLS."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway.livesite import Answer, Client, Site, serving


def openssl(*words: str, folder: Path) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificate(folder: Path, name: str, *, issuer: str = "", kind: str = "ec", extra: tuple[str, ...] = ()) -> None:
    """NAME.pem and NAME.key, signed by themselves or by another."""
    key = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"] if kind == "ec" else ["rsa:2048"]
    words = ["req", "-x509", "-newkey", *key, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "3"]
    if issuer:
        words += ["-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key"]
    openssl(*words, "-subj", f"/O=Tests/CN={name}", "-addext", f"subjectAltName=DNS:{name}", *extra, folder=folder)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates for every test here."""
    folder = tmp_path_factory.mktemp("keys")
    certificate(folder, "localhost")
    certificate(folder, "two.example")
    certificate(folder, "rsa.example", kind="rsa")
    certificate(folder, "authority")
    certificate(folder, "client")
    signed = ["x509", "-req", "-CA", "authority.pem", "-CAkey", "authority.key", "-days", "3", "-set_serial", "4711"]
    openssl("req", "-new", "-key", "client.key", "-subj", "/O=Tests/CN=client", "-out", "client.csr", folder=folder)
    openssl(*signed, "-in", "client.csr", "-out", "signed.pem", folder=folder)
    shutil.copy(folder / "client.key", folder / "signed.key")
    openssl("ec", "-in", "localhost.key", "-aes128", "-passout", "pass:open", "-out", "locked.key", folder=folder)
    return folder


@pytest.fixture
def site(tmp_path: Path, keys: Path) -> Iterator[Callable[..., Site]]:
    """Start sites on a port for TLS; `%KEYS%` is the folder of the certificates."""
    started = []

    def start(server: str = "", http: str = "", files: dict[str, bytes] | None = None) -> Site:
        pair = f"ssl_certificate {keys}/localhost.pem; ssl_certificate_key {keys}/localhost.key;"
        http = (pair + http).replace("%KEYS%", str(keys))
        own = f"listen 127.0.0.1:%PORT% ssl; {server}".replace("%KEYS%", str(keys)) if "listen" not in http else ""
        manager = serving(tmp_path, own, http=http, files=files)
        site = manager.__enter__()
        started.append(manager)
        return site

    yield start
    for manager in started:
        manager.__exit__(None, None, None)


def trusting(keys: Path, *names: str, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in names or ("localhost", "two.example", "rsa.example"):
        context.load_verify_locations(keys / f"{name}.pem")
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def careless(keys: Path, name: str = "") -> ssl.SSLContext:
    """A client that trusts anybody, with a certificate of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if name:
        context.load_cert_chain(keys / f"{name}.pem", keys / f"{name}.key")
    return context


@contextmanager
def connected(
    site: Site, context: ssl.SSLContext, name: str | None = "localhost", session: ssl.SSLSession | None = None
) -> Iterator[Client]:
    with socket.create_connection(("127.0.0.1", site.ports[0]), 10) as plain:
        sock = context.wrap_socket(plain, server_hostname=name, session=session)
        with Client(sock) as client:
            yield client


def ask(
    site: Site, context: ssl.SSLContext, target: str = "/", name: str | None = "localhost", host: str = ""
) -> Answer:
    with connected(site, context, name) as client:
        return client.get(target, host=host or name or "localhost")
