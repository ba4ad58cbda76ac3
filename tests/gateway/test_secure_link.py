"""secure_link: how links are judged; what is answered is compared with nginx by the parity case of this name."""

import hashlib
from base64 import urlsafe_b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.config.schema import ConfigError
from gateway.http.message import Request
from gateway.modules.secure_link import _decoded, _result
from tests.gateway.nginx import agrees, compiled, needs_nginx


def judged(folder: Path, conf: str, target: str, location: str = "/in") -> bytes | None:
    """$secure_link for a target in a location."""
    site = compiled(folder, f"access_log off; server {{ listen 127.0.0.1:1; {conf} }}").site
    uri, _, args = target.encode().partition(b"?")
    peer: Any = SimpleNamespace(client=b"127.0.0.1", number=1)
    headers: Any = SimpleNamespace(get=lambda _name: None)
    request = Request(peer, b"GET", target.encode(), uri, args, 11, headers, 0.0)
    request.location = site.servers[0].locations.prefixes[location.encode()]
    first = _result(request)
    assert _result(request) == first, "once a request"
    return first


def signed(text: str) -> str:
    return urlsafe_b64encode(hashlib.md5(text.encode()).digest()).decode().rstrip("=")


MD5 = 'location /in { secure_link $arg_h,$arg_e; secure_link_md5 "$arg_e$uri key"; }'


@pytest.mark.parametrize(
    ("ends", "expected"), [("4102444800", b"1"), ("1", b"0"), ("0", None), ("-5", None), ("", None), ("9" * 30, None)]
)
def test_a_link_with_an_end(tmp_path: Path, ends: str, expected: bytes | None) -> None:
    assert judged(tmp_path, MD5, f"/in?h={signed(ends + '/in key')}&e={ends}") == expected
    assert judged(tmp_path, MD5, f"/in?h={signed('other')}&e={ends}") is None


def test_a_link_by_secret(tmp_path: Path) -> None:
    conf = "location /in { secure_link_secret key; }"
    code = hashlib.md5(b"a/b?ckey").hexdigest()
    assert judged(tmp_path, conf, f"/in/{code}/a/b?c") == b"a/b?c"
    assert judged(tmp_path, conf, f"/in/{code.upper()}/a/b?c") == b"a/b?c"
    for wrong in (f"/in/{code}/a/b", f"/in/{code[1:]}/a/b?c", f"/in/{code}/", f"/in/{code}", "/in", "/"):
        assert judged(tmp_path, conf, wrong) is None


def test_the_inner_form_counts(tmp_path: Path) -> None:
    conf = f"location /in {{ secure_link_secret key; {MD5.replace('/in ', '/in/side ')} location /in/bare {{ }} }}"
    site = compiled(tmp_path, f"access_log off; server {{ listen 127.0.0.1:1; {conf} }}").site
    inner = site.servers[0].locations.prefixes[b"/in"].inner
    assert inner is not None
    names = {name: next(iter(location.notes.values())).__qualname__ for name, location in inner.prefixes.items()}
    assert "_by_expression" in names[b"/in/side"] and "_by_secret" in names[b"/in/bare"]


@pytest.mark.parametrize("code", [b"", b"=", b"ab+/", b"ab cd", b"a", b"abcde", b"x" * 25, b"\xff\xff"])
def test_what_is_no_hash(code: bytes) -> None:
    assert len(_decoded(code)) < 16


def test_both_forms_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='"secure_link_secret" cannot be mixed with "secure_link"') as raised:
        judged(tmp_path, "location /in { secure_link_secret key; secure_link $arg_h; }", "/in")
    assert raised.value.place is not None


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "secure_link a b;",
        "secure_link_secret a;",
        "server { listen 127.0.0.1:1; secure_link_md5 $uri; location / { secure_link_secret a; } }",
        "server { listen 127.0.0.1:1; location / { secure_link_secret a; secure_link_secret b; } }",
        "server { listen 127.0.0.1:1; location / { secure_link $nosuch; secure_link_md5 a; } }",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
