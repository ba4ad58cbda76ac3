"""Directives of modules that are not here: refused where they would do something, accepted and listed where not."""

from pathlib import Path

import pytest

from gateway.config.bind import idle
from gateway.config.schema import ConfigError
from tests.gateway.nginx import compiled


def inside(text: str) -> str:
    return f"access_log off; server {{ listen 127.0.0.1:1; {text} }}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("location / { fastcgi_pass 127.0.0.1:9000; }", "fastcgi_pass"),
        ("location / { if ($uri) { uwsgi_pass 127.0.0.1:9000; } }", "uwsgi_pass"),
        ("location / { auth_jwt realm; }", "auth_jwt"),
        ("location / { dav_methods PUT; }", "dav_methods"),
        ("location / { mp4; }", "mp4"),
        ("js_set $x main.x;", "js_set"),
        ("tunnel_pass;", "tunnel_pass"),
        ("ssl on;", "ssl"),
    ],
)
def test_what_would_change_answers_is_refused_by_name(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f'"{name}" directive is not supported yet in .*main.conf:4'):
        compiled(tmp_path, inside(text))


@pytest.mark.parametrize("option", ["ssl", "quic", "proxy_protocol"])
def test_a_port_does_not_speak_plainly_what_it_should_not(tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigError, match=f'the "{option}" parameter of "listen" is not supported yet in .*:4'):
        compiled(tmp_path, f"ssl_certificate a; server {{ listen 127.0.0.1:1 {option}; }}")


def test_blocks_are_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='"match" directive is not supported yet'):
        compiled(tmp_path, "match ok { status 200; body ~ ok; }")


@pytest.mark.parametrize("text", ["auth_jwt off;", "dav_methods off;", "location / { image_filter off; }"])
def test_what_is_off_is_accepted(tmp_path: Path, text: str) -> None:
    compiled(tmp_path, inside(text))


def test_tuning_is_accepted_and_listed(tmp_path: Path) -> None:
    text = """
    ssl_certificate a.crt; ssl_certificate_key a.key; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_timeout 1d;
    http2 on; fastcgi_param A b; fastcgi_param C d; fastcgi_buffers 16 16k; fastcgi_read_timeout 60s;
    location / { fastcgi_split_path_info ^(.+?\\.php)(/.*)$; grpc_set_header A b; }
    """
    found = {row.name: row.idle for row, _place in idle(compiled(tmp_path, inside(text)).root)}
    assert found["ssl_protocols"] == "TLS: not supported yet"
    assert {"http2", "fastcgi_param", "fastcgi_buffers", "fastcgi_split_path_info", "grpc_set_header"} <= found.keys()


@pytest.mark.parametrize("text", ["http2 maybe;", "fastcgi_buffers 4;", "ssl_session_timeout x;", "fastcgi_param;"])
def test_values_are_judged_all_the_same(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"invalid|must be"):
        compiled(tmp_path, inside(text))
