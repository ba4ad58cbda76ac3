"""valid_referers and $invalid_referer, with real nginx as the judge."""

import http.client
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config.schema import Place
from gateway.modules.referer import LONGEST, Names
from tests.gateway.nginx import NGINX, agrees, needs_nginx
from tests.gateway.tengine import Tengine, free_port, until

RULES = [
    "none example.com",
    "blocked example.com",
    "example.com",
    "none blocked example.com",
    "*.example.com www.example.*",
    ".example.com",
    "example.com/path",
    "*.a.org/x sub.a.org",
    r"~\.goo\. ~^exact\.net/only$",
    "server_names",
    "server_names none other.com",
]
REFERERS = [
    None,
    "",
    "-",
    "http://",
    "nothing at all here",
    "http://example.com",
    "http://example.com/",
    "https://EXAMPLE.com:8080/x",
    "http://example.com/path",
    "http://example.com:81/path/more",
    "http://example.com/pat",
    "http://www.example.com/",
    "http://a.b.example.com/",
    "http://www.example.org",
    "http://www.example.co.uk/path",
    "ftp://example.com/long enough",
    "http://sub.a.org/x",
    "http://sub.a.org/y",
    "http://b.a.org/x1",
    "http://b.a.org/y",
    "http://www.goo.gle/",
    "http://exact.net/only",
    "http://exact.net/only/",
    "http://my.server.net/",
    "http://x.wild.net/",
    "http://abc.regex.net:99/",
    "http://other.com",
    "HTTP://example.com/",
    "http://" + "a" * 300 + ".com/",
]
HTTP = "access_log off; server { listen 127.0.0.1:PORT; server_name my.server.net *.wild.net ~^a.c\\.regex; LOCATIONS }"


def conf(port: int) -> str:
    locations = "".join(
        f'location = /{number} {{ valid_referers {rules}; return 200 "<$invalid_referer>"; }}\n'
        for number, rules in enumerate(RULES)
    )
    inherited = 'valid_referers example.com; location = /outer { return 200 "<$invalid_referer>"; }'
    return HTTP.replace("PORT", str(port)).replace("LOCATIONS", locations + inherited)


def answers(port: int) -> dict[tuple[str, str | None], bytes]:
    """The answer for each rule and each value of the header."""
    found = {}
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    for rules in [*map(str, range(len(RULES))), "outer"]:
        for referer in REFERERS:
            client.request("GET", f"/{rules}", headers={"Referer": referer} if referer is not None else {})
            found[RULES[int(rules)] if rules.isdigit() else rules, referer] = client.getresponse().read()
    client.close()
    return found


@pytest.fixture
def nginx_port(tmp_path: Path) -> Iterator[int]:
    port = free_port()
    folder = tmp_path / "nginx"
    folder.mkdir()
    user = "user root;" if os.geteuid() == 0 else ""
    text = f"daemon off; master_process off; pid {folder}/pid; {user} events {{ }} http {{ {conf(port)} }}"
    (folder / "nginx.conf").write_text(text)
    command = [NGINX or "nginx", "-p", f"{folder}/", "-c", "nginx.conf", "-e", "error.log"]
    with subprocess.Popen(command) as process:
        try:
            until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
            yield port
        finally:
            process.send_signal(signal.SIGTERM)


@needs_nginx
def test_the_variable_is_that_of_nginx(tmp_path: Path, nginx_port: int) -> None:
    server = Tengine(tmp_path)
    user = "user root;" if os.geteuid() == 0 else ""
    text = f"pid {tmp_path}/pid; daemon off; {user} error_log {tmp_path}/error.log;"
    (tmp_path / "main.conf").write_text(f"{text}\nevents {{ }} http {{ {conf(server.port)} }}")
    server.start()
    try:
        ours, theirs = answers(server.port), answers(nginx_port)
    finally:
        server.stop()
    assert {key: value for key, value in ours.items() if value != theirs[key]} == {}
    assert {b"<>", b"<1>"} == set(ours.values())


@needs_nginx
@pytest.mark.parametrize(
    "rules",
    [
        "valid_referers;",
        "valid_referers ~;",
        "valid_referers ~(;",
        "valid_referers *;",
        "valid_referers a*b;",
        "valid_referers **.a;",
        'valid_referers "";',
        "valid_referers a.com a.com;",
        "valid_referers a.com b.com a.com/x;",
        "valid_referers http://x/;",
        "valid_referers none;",
        "valid_referers none blocked;",
        "valid_referers none ~x;",
        "valid_referers none server_names;",
        "valid_referers none blocked server_names *.a.com b.* .c.com d.com/x;",
        "referer_hash_max_size 10; referer_hash_bucket_size 64;",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, rules: str) -> None:
    agrees(tmp_path, f"server {{ listen 127.0.0.1:1; location / {{ {rules} }} }}")


def test_a_host_may_be_too_long() -> None:
    names = Names()
    names.add("*.com", Place("", 0))
    assert names.accepts(b"http://" + b"a" * (LONGEST - 4) + b".com")
    assert not names.accepts(b"http://" + b"a" * LONGEST + b".com")
