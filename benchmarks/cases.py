"""The cases: the conf that both servers get, and the load that wrk makes of them."""

import os
from dataclasses import dataclass
from pathlib import Path

USUAL = "sendfile on; tcp_nopush on; access_log %PREFIX%/logs/access.log;"
BEST = "sendfile off; open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s; access_log off;"
TYPES = "types { text/html html; text/css css; application/javascript js; font/woff2 woff2; }"
GZIP = (
    "gzip on; gzip_comp_level 6; gzip_min_length 1k; gzip_vary on; "
    "gzip_types text/plain text/css application/javascript application/json font/woff2 image/svg+xml;"
)

UNIQUE = """
local number = 0
request = function()
    number = number + 1
    return wrk.format("GET", "/1k.html", {
        ["Host"] = "localhost", ["X-Request-Id"] = "id-" .. number,
        ["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0",
        ["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        ["Accept-Language"] = "en-US,en;q=0.5", ["Cookie"] = "session=0123456789abcdef; theme=dark",
    })
end
"""
CYCLE = """
local paths = {{ {paths} }}
local number = 0
request = function()
    number = number % #paths + 1
    return wrk.format("GET", paths[number], {{ ["Accept-Encoding"] = "gzip, deflate, br" }})
end
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison; `http` is put into the http block, `locations` into the server block."""

    name: str
    about: str
    http: str
    locations: str = ""
    target: str = "/1k.html"
    script: str = ""
    headers: tuple[str, ...] = ()
    upstream: bool = False


def conf(case: Case, root: Path, upstream: int, workers: int = 1) -> str:
    user = "user root;" if os.geteuid() == 0 else ""
    return (
        f"daemon off; worker_processes {workers}; {user}\n"
        "pid %PREFIX%/nginx.pid; error_log %PREFIX%/logs/error.log warn;\n"
        f"events {{ worker_connections 1024; }}\nhttp {{ {TYPES} keepalive_requests 1000000000; {case.http}\n"
        "client_body_temp_path %PREFIX%/body; proxy_temp_path %PREFIX%/proxy;\n"
        f"server {{ listen 127.0.0.1:%PORT%; server_name localhost; root {root}; {case.locations} }} }}\n"
    ).replace("%UPSTREAM%", f"127.0.0.1:{upstream}")


def every(paths: list[str]) -> list[Case]:
    listed = ", ".join(f'"{path}"' for path in paths)
    proxied = 'location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; }'
    return [
        Case("static", "1 KiB file; usual nginx: sendfile, tcp_nopush, access log", USUAL),
        Case("static-best", "1 KiB file; best-tuned nginx: open_file_cache, no sendfile, no log", BEST),
        Case("unique-header", "1 KiB file, a header differs in every request; usual nginx", USUAL, script=UNIQUE),
        Case("new-connection", "1 KiB file, a connection each; usual nginx", USUAL, headers=("Connection: close",)),
        Case(
            "bundle",
            f"{len(paths)} files of a web page, compressed; nginx with gzip on, level 6",
            f"{USUAL} {GZIP}",
            target=paths[0],
            script=CYCLE.format(paths=listed),
        ),
        Case(
            "proxied",
            "1 KiB from an upstream with keepalive; access log",
            f"{USUAL} upstream up {{ server %UPSTREAM%; keepalive 64; }}",
            locations=proxied,
            upstream=True,
        ),
    ]
