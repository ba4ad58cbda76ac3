"""Compiled sites: golden plans of whole configurations, the mission's server as it was written, and what is refused."""

from pathlib import Path

import pytest

from gateway.build import load
from gateway.config.schema import ConfigError, Paths
from gateway.process.settings import TABLES
from tests.gateway.livesite import serving
from tests.gateway.nginx import agrees, compiled, needs_nginx
from tests.gateway.plan import GOLDEN, confs, plan_of

MISSION = (
    "server { listen 7860; server_name localhost; # 开启Gzip压缩\n gzip on; gzip_min_length 1k; "
    "gzip_buffers 4 16k; "
    "gzip_http_version 1.1; gzip_comp_level 6; gzip_types text/plain text/css "
    "application/javascript application/json font/woff2 image/svg+xml; "
    "location /static { alias /root/CosyVoice3/webui/static/; expires 1h; add_header "
    'Cache-Control "public, no-transform"; } location / { proxy_pass http://127.0.0.1:8000; '
    "proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; } }"
)
REFERERS = "location ~ \\.wav$ { valid_referers none blocked *.yoursite.com; if ($invalid_referer) { return 403; } }"


@pytest.mark.parametrize("stem", confs())
def test_plans(stem: str) -> None:
    """`python -m tests.gateway.plan` writes them anew."""
    assert plan_of(confs()[stem]) == (GOLDEN / f"{stem}.plan").read_text()


def test_every_plan_has_its_configuration() -> None:
    assert {path.stem for path in GOLDEN.glob("*.plan")} == set(confs())


def test_the_mission_s_server_loads_as_it_was_written(tmp_path: Path) -> None:
    site = compiled(tmp_path, MISSION).site
    assert [listen.key for listen in site.listens] == ["0.0.0.0:7860"]
    static, root = (site.servers[0].locations.prefixes[name] for name in (b"/static", b"/"))
    assert static.folder(None) == b"/root/CosyVoice3/webui/static/"  # type: ignore[arg-type]
    assert not root.steady


def test_the_mission_s_referers(tmp_path: Path) -> None:
    with serving(tmp_path, REFERERS, files={"a.wav": b"sound", "a.txt": b"text"}) as site:
        for referer, status in (
            ("", 200),
            ("http://www.yoursite.com/x", 200),
            ("http://other.com/", 403),
            ("secret", 200),
        ):
            headers = [f"Referer: {referer}"] if referer else []
            for _ in range(3):
                assert site.get("/a.wav", *headers).status == status, referer
            assert site.get("/a.txt", *headers).status == 200


@needs_nginx
@pytest.mark.parametrize("text", [MISSION, f"server {{ {REFERERS} }}"], ids=["mission", "referers"])
def test_nginx_takes_them_too(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)


def test_two_http_blocks(tmp_path: Path) -> None:
    (tmp_path / "main.conf").write_text("events { }\nhttp { }\nhttp { }\n")
    with pytest.raises(ConfigError, match=r'"http" directive is duplicate in .*main\.conf:3'):
        load(str(tmp_path / "main.conf"), Paths(f"{tmp_path}/", f"{tmp_path}/"), TABLES)


def test_no_http_block_is_a_site_without_servers(tmp_path: Path) -> None:
    (tmp_path / "main.conf").write_text("events { }\n")
    assert load(str(tmp_path / "main.conf"), Paths(f"{tmp_path}/", f"{tmp_path}/"), TABLES).site.listens == []


CASES = {
    "set_builtin": "server { set $uri x; }",
    "set_own": "server { set $own x; return 200 $own; }",
    "unknown": "server { return 200 $nobody; }",
    "of_another_server": "server { set $own x; } server { return 200 $own; }",
    "capture_name": "server { location ~ (?<part>.) { return 200 $part; } }",
    "capture_builtin": "server { location ~ (?<uri>.) { } }",
    "bad_regex": "server { location ~ ( { } }",
    "families": "server { return 200 $http_a$sent_http_a$arg_a$cookie_a; }",
}


@needs_nginx
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_variables_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
