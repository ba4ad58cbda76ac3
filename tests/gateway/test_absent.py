"""Directives of modules that are not here: refused where they would do something, accepted and listed where not."""

from pathlib import Path

import pytest

from gateway.build import load
from gateway.config.bind import idle
from gateway.config.schema import ConfigError, Paths
from gateway.process.settings import TABLES
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


@pytest.mark.parametrize("option", ["quic", "proxy_protocol"])
def test_a_port_does_not_speak_plainly_what_it_should_not(tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigError, match=f'the "{option}" parameter of "listen" is not supported yet in .*:4'):
        compiled(tmp_path, f"server {{ listen 127.0.0.1:1 {option}; }}")


def test_blocks_are_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='"match" directive is not supported yet'):
        compiled(tmp_path, "match ok { status 200; body ~ ok; }")


@pytest.mark.parametrize("text", ["auth_jwt off;", "dav_methods off;", "location / { image_filter off; }"])
def test_what_is_off_is_accepted(tmp_path: Path, text: str) -> None:
    compiled(tmp_path, inside(text))


def test_tuning_is_accepted_and_listed(tmp_path: Path) -> None:
    text = """
    http2 on; http2_idle_timeout 1m;
    fastcgi_param A b; fastcgi_param C d; fastcgi_buffers 16 16k; fastcgi_read_timeout 60s;
    location / { fastcgi_split_path_info ^(.+?\\.php)(/.*)$; grpc_set_header A b; }
    """
    found = {row.name: row.idle for row, _place in idle(compiled(tmp_path, inside(text)).root)}
    assert found["http2"] == "HTTP/2: not supported yet"
    names = {"http2_idle_timeout", "fastcgi_param", "fastcgi_buffers", "fastcgi_split_path_info", "grpc_set_header"}
    assert names <= found.keys()


@pytest.mark.parametrize("text", ["http2 maybe;", "fastcgi_buffers 4;", "http2_idle_timeout x;", "fastcgi_param;"])
def test_values_are_judged_all_the_same(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"invalid|must be"):
        compiled(tmp_path, inside(text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("disable_symlinks if_not_owner;", "disable_symlinks"),
        ("modsecurity on;", "modsecurity"),
        ("location / { vhost_traffic_status_display; }", "vhost_traffic_status_display"),
        ("location / { auth_pam x; }", "auth_pam"),
        ("location / { set_escape_uri $a $uri; }", "set_escape_uri"),
    ],
)
def test_what_others_wrote_is_refused_by_the_same_rule(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f'"{name}" directive is not supported yet in .*main.conf:4'):
        compiled(tmp_path, inside(text))


def test_what_others_wrote_and_only_tunes_is_accepted(tmp_path: Path) -> None:
    text = """vhost_traffic_status_zone; check_shm_size 1m; pagespeed on;
    upstream u {
        server 127.0.0.1:1; check interval=3000 rise=2; check_http_send "HEAD / HTTP/1.0"; resolver 127.0.0.1;
    }
    otel_exporter { endpoint 127.0.0.1:1; }"""
    found = {row.name for row, _place in idle(compiled(tmp_path, inside("") + text).root)}
    assert found == {
        *("vhost_traffic_status_zone", "check_shm_size", "pagespeed", "check", "check_http_send", "resolver"),
        "otel_exporter",
    }


def test_blocks_beside_http_are_ignored_with_a_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "main.conf"
    file.write_text("events { }\nstream { server { listen 1; proxy_pass a:1; } }\nmgmt { uuid_file x; }\nhttp { }")
    loaded = load(str(file), Paths(f"{tmp_path}/", f"{tmp_path}/"), TABLES)
    assert [row.name for row, _place in idle(loaded.root)] == ["stream", "mgmt"]
    assert '"stream" block is ignored: only HTTP is served here' in capfd.readouterr().err
