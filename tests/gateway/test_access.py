"""allow and deny."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.config.schema import ConfigError
from gateway.http.message import HttpError, Request
from tests.gateway.nginx import agrees, compiled, needs_nginx


def refused(folder: Path, rules: str, client: str, satisfy: str = "all") -> bool:
    """Whether a client is refused under these rules."""
    (folder / "logs").mkdir(exist_ok=True)
    text = f"access_log off; satisfy {satisfy}; server {{ listen 127.0.0.1:1; {rules} }}"
    location = compiled(folder, text).site.servers[0].location
    peer: Any = SimpleNamespace(client=client.encode(), number=1)
    request = Request(peer, b"GET", b"/", b"/", b"", 11, SimpleNamespace(get=lambda _name: None), 0.0)  # type: ignore[arg-type]
    request.location = location
    handler = next(handler for handler in location.handlers if handler.__name__ in ("access", "satisfy_any"))
    for _ in range(2):  # the second time from memory
        try:
            outcome: Any = handler(request)
            if outcome is not None:
                asyncio.run(outcome)
            verdict = False
        except HttpError as error:
            assert error.status == 403
            verdict = True
    return verdict


@pytest.mark.parametrize(
    ("rules", "client", "expected"),
    [
        ("deny 192.0.2.1;", "192.0.2.1", True),
        ("deny 192.0.2.1;", "192.0.2.2", False),
        ("allow 192.0.2.0/24; deny all;", "192.0.2.9", False),
        ("allow 192.0.2.0/24; deny all;", "198.51.100.1", True),
        ("deny 192.0.2.1; allow 192.0.2.0/24; deny all;", "192.0.2.1", True),
        ("allow 192.0.2.0/24; deny all;", "2001:db8::1", True),
        ("allow 192.0.2.0/24; deny all;", "unix:", True),
        ("deny 0.0.0.0/0;", "2001:db8::1", False),
        ("deny 2001:db8::/32;", "2001:db8:1::1", True),
        ("deny 2001:db8::/32;", "2001:db9::1", False),
        ("deny 192.0.2.1;", "::ffff:192.0.2.1", True),
        ("allow unix:; deny all;", "unix:", False),
        ("deny unix:;", "unix:", True),
        ("deny unix:;", "192.0.2.1", False),
    ],
)
def test_the_first_match_decides(tmp_path: Path, rules: str, client: str, expected: bool) -> None:
    assert refused(tmp_path, rules, client) is expected


def test_a_refusal_is_logged_once_whoever_else_is_asked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert refused(tmp_path, "deny all;", "192.0.2.1")
    assert capfd.readouterr().err.count("access forbidden by rule, client: 192.0.2.1") == 2
    assert refused(tmp_path, "deny all;", "192.0.2.1", satisfy="any")
    assert capfd.readouterr().err.count("access forbidden by rule, client: 192.0.2.1") == 2
    assert not refused(tmp_path, "allow 192.0.2.0/24; deny all;", "192.0.2.1", satisfy="any")
    assert not refused(tmp_path, "deny 192.0.2.2;", "192.0.2.1", satisfy="any")


def test_inner_rules_replace_outer_ones(tmp_path: Path) -> None:
    text = "access_log off; deny all; server { listen 127.0.0.1:1; location /in { allow all; } location /out { } }"
    server = compiled(tmp_path, text).site.servers[0]
    peer: Any = SimpleNamespace(client=b"192.0.2.1", number=1)
    for name, expected in ((b"/in", False), (b"/out", True)):
        location = server.locations.prefixes[name]
        headers: Any = SimpleNamespace(get=lambda _name: None)
        request = Request(peer, b"GET", name, name, b"", 11, headers, 0.0)
        request.location = location
        handler = next(handler for handler in location.handlers if handler.__name__ == "access")
        if expected:
            with pytest.raises(HttpError):
                handler(request)
        else:
            assert handler(request) is None


def test_without_rules_there_is_no_handler(tmp_path: Path) -> None:
    site = compiled(tmp_path, "access_log off; server { listen 127.0.0.1:1; }").site
    assert "access" not in [handler.__name__ for handler in site.servers[0].location.handlers]


@needs_nginx
@pytest.mark.parametrize(
    "rules",
    [
        "allow foo;",
        "allow 10.0.0.0/33;",
        "allow 10.0.0.1/8;",
        "allow 2001:db8::/200;",
        "deny 1.2.3;",
        "deny localhost;",
        "allow [::1];",
        "allow ::1; deny unix:; deny all;",
        "allow;",
        "deny a b;",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, rules: str) -> None:
    agrees(tmp_path, f"server {{ listen 127.0.0.1:1; location / {{ {rules} }} }}")


def test_bits_beyond_the_mask_are_warned_of(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    compiled(tmp_path, "access_log off; server { listen 127.0.0.1:1; allow 10.0.0.1/8; location / { } }")
    said = f"[warn] low address bits of 10.0.0.1/8 are meaningless in {tmp_path}/main.conf:4"
    assert capfd.readouterr().err.count(said.removeprefix("[warn] ")) in (0, 1)  # stderr takes notices and worse


def test_an_unknown_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='invalid parameter "x"'):
        compiled(tmp_path, "server { listen 127.0.0.1:1; deny x; }")
