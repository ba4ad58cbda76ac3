"""Servers of addresses and names: what nginx refuses, warns of, and which server it takes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.livesite import Site, serving
from tests.gateway.nginx import agrees, compiled, needs_nginx

CASES = {
    "twice": "server { listen 80; listen 80; }",
    "two_defaults": "server { listen 81 default_server; } server { listen 81 default_server; }",
    "star_alone": "server { server_name *; }",
    "star_glued": "server { server_name *a.com; }",
    "dot": "server { server_name .; }",
    "dots": "server { server_name .a.com *.b.com c.*; }",
    "empty": 'server { server_name ""; }',
    "regex": "server { server_name ~^a(?<n>.)$; return 200 $n; }",
    "regex_empty": "server { server_name ~; }",
    "regex_broken": "server { server_name ~^(a; }",
    "same_name": "server { listen 82; server_name a; } server { listen 82; server_name a; }",
    "hostname": "server { server_name $hostname; }",
    "nest_exact": "server { location = /a { location /a/b { } } }",
    "nest_named": "server { location @a { location /a/b { } } }",
    "nest_named_in": "server { location /a { location @b { } } }",
    "nest_outside": "server { location /a { location /b { } } }",
    "nest_outside_exact": "server { location /a { location = /b { } } }",
    "nest_in_regex": "server { location ~ ^/a { location /a/b { } } }",
    "nest_regex": "server { location /a { location ~ b { } location ~* c { location ~ d { } } } }",
    "nest_deep": "server { location /a { location /a/b { location /a/b/c { } } } }",
    "location_twice": "server { location /a { } location /a { } }",
    "location_twice_exact": "server { location = /a { } location /a { } location ^~ /b { } location /b { } }",
    "location_regex_twice": "server { location ~ a { } location ~ a { } }",
    "modifier": "server { location ! /a { } }",
    "glued": "server { location =/a { } location ~\\.b$ { } location ~*c { } location ^~/d { } }",
    "limit_except": "server { location / { limit_except GET { deny all; } } }",
    "limit_except_method": "server { location / { limit_except NOPE { deny all; } } }",
    "limit_except_none": "server { location / { limit_except { deny all; } } }",
    "limit_except_twice": "server { location / { limit_except GET { } limit_except POST { } } }",
}


@needs_nginx
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)


def test_conflicting_names_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    compiled(tmp_path, "server { listen 8123; server_name a A; } server { listen 8123; server_name a; }")
    assert "[warn] " in (said := capfd.readouterr().err)
    assert 'conflicting server name "a" on 0.0.0.0:8123, ignored' in said


LISTENS = [
    ("127.0.0.1:%PORT%", "first.com"),
    ("127.0.0.1:%PORT%", ".b.com"),
    ("127.0.0.1:%PORT%", "*.c.com mail.*"),
    ("127.0.0.1:%PORT%", "~^re(?<part>[0-9]+)\\.com$"),
    ("127.0.0.1:%PORT%", '""'),
    ("0.0.0.0:%PORT2%", "wild.com"),
    ("127.0.0.2:%PORT2%", "wild.com"),
    ("0.0.0.0:%PORT2% default_server", "default.com"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    http = "".join(
        f'server {{ listen {listen}; server_name {name}; add_header X "$server_name"; return 200 "{number}"; }}\n'
        for number, (listen, name) in enumerate(LISTENS)
    )
    with serving(tmp_path_factory.mktemp("site"), http=http) as made:
        yield made


@pytest.mark.parametrize(
    "host, number",
    [
        ("first.com", 0),
        ("FIRST.com:80", 0),
        ("first.com.", 0),
        ("b.com", 1),
        ("x.b.com", 1),
        ("c.com", 0),
        ("x.c.com", 2),
        ("mail.org", 2),
        ("mail.c.com", 2),
        ("re12.com", 3),
        ("re.com", 0),
        ("other", 0),
    ],
)
def test_the_server_by_name(site: Site, host: str, number: int) -> None:
    assert site.get("/", host=host).body == b"%d" % number


def test_the_first_name_is_the_server_s(site: Site) -> None:
    assert site.get("/", host="x.b.com").get("X") == "b.com"
    assert site.raw(b"GET / HTTP/1.0\r\n\r\n").endswith(b"4")


@pytest.mark.parametrize(
    "address, name, number",
    [("127.0.0.1", "wild.com", 5), ("127.0.0.2", "wild.com", 6), ("127.0.0.3", "x", 7), ("127.0.0.2", "x", 6)],
)
def test_the_server_by_address(site: Site, address: str, name: str, number: int) -> None:
    with site.connect(host=address, second=True) as client:
        assert client.get("/", host=name).body == b"%d" % number
