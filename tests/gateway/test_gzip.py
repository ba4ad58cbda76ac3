"""gzip, end to end: streams, files, HEAD, conditions and the log's ratio. Beside nginx: tests/parity/cases/gzip."""

import re
import socket
import zlib
from pathlib import Path
from typing import Any

import pytest

from gateway import codings
from gateway.http.chunked import ChunkedDecoder
from tests.gateway.nginx import agrees, needs_nginx

TYPES = "types { text/html html; application/javascript js; image/svg+xml svg; font/woff2 woff2; image/png png; }\n"
SCRIPT = b"function answer() { return 42 }\n" * 200
MISSION = """
gzip on; gzip_min_length 1k; gzip_buffers 4 16k; gzip_http_version 1.1; gzip_comp_level 6;
gzip_types text/plain text/css application/javascript application/json font/woff2 image/svg+xml;
location / { expires 1h; add_header Cache-Control "public, no-transform"; }
"""

CASES = {
    "mission": f"server {{ {MISSION} }}",
    "level": "server { gzip_comp_level 10; }",
    "level_zero": "server { gzip_comp_level 0; }",
    "flag": "server { gzip yes; }",
    "proxied": "server { gzip_proxied expired no-cache no-store private no_last_modified no_etag auth any; }",
    "proxied_wrong": "server { gzip_proxied sometimes; }",
    "version": "server { gzip_http_version 2.0; }",
    "vary": "server { gzip_vary maybe; }",
    "disable": 'server { gzip_disable msie6 "MSIE [1-6]\\." Wget; }',
    "buffers": "server { gzip_buffers 4; }",
    "buffers_zero": "server { gzip_buffers 0 4k; }",
    "min_length": "server { gzip_min_length -1; }",
    "window": "server { gzip_window 32k; gzip_hash 64k; postpone_gzipping 0; gzip_no_buffer off; }",
    "types": "server { gzip_types *; } server { gzip_types a/b c/d; }",
    "in_if": "server { location / { if ($uri) { gzip on; } } }",
    "in_if_not": "server { location / { if ($uri) { gzip_types a/b; } } }",
    "twice": "server { gzip on; gzip off; }",
}


@needs_nginx
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_rows_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)


def field(message: Any, name: str) -> str | None:
    found = re.search(rb"\r\n" + name.encode() + rb": ([^\r]*)", message.head, re.IGNORECASE)
    return found[1].decode() if found else None


def test_the_mission_s_server(gateway: Any) -> None:
    files = {name: SCRIPT for name in ("a.js", "a.svg", "a.woff2")} | {"small.js": b"short", "a.png": SCRIPT}
    started = gateway(MISSION, http=TYPES, files=files)
    for name in ("a.js", "a.svg", "a.woff2"):
        answer = started.get(f"/{name}", "Accept-Encoding: gzip, deflate, br")
        assert field(answer, "Content-Encoding") == "gzip"
        assert zlib.decompress(answer.body, 31) == SCRIPT
        assert field(answer, "Vary") == "Accept-Encoding"
        assert (field(answer, "ETag") or "").startswith('W/"')
        assert field(answer, "Content-Length") == str(len(answer.body))
        assert field(answer, "Expires") and "max-age=3600" in (field(answer, "Cache-Control") or "")
        plain = started.get(f"/{name}")
        assert plain.body == SCRIPT and field(plain, "Content-Encoding") is None
        assert field(plain, "Vary") == "Accept-Encoding", "a cache must not give this one to everybody either"
    for name in ("small.js", "a.png"):
        answer = started.get(f"/{name}", "Accept-Encoding: gzip")
        assert field(answer, "Content-Encoding") is None and field(answer, "Vary") is None


def test_a_changed_file_is_compressed_anew(gateway: Any) -> None:
    started = gateway("gzip on; gzip_types application/javascript;", http=TYPES, files={"a.js": SCRIPT})
    for number in range(3):
        body = b"%d" % number * 1000
        (started.root / "a.js").write_bytes(body)
        for _ in range(2):
            assert zlib.decompress(started.get("/a.js", "Accept-Encoding: gzip").body, 31) == body


def test_a_large_file_comes_whole_to_all(gateway: Any) -> None:
    large = SCRIPT * 200
    started = gateway("gzip on; gzip_types application/javascript;", http=TYPES, files={"a.js": large})
    request = b"GET /a.js HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"
    for answer in (*started.send(request * 2), *started.send(request)):
        assert zlib.decompress(answer.body, 31) == large


def test_conditions_on_a_compressed_file(gateway: Any) -> None:
    started = gateway("gzip on; gzip_types application/javascript;", http=TYPES, files={"a.js": SCRIPT})
    tag = field(started.get("/a.js", "Accept-Encoding: gzip"), "ETag")
    again = started.get("/a.js", "Accept-Encoding: gzip", f"If-None-Match: {tag}")
    assert again.head.startswith(b"HTTP/1.1 304") and again.body == b""
    part = started.get("/a.js", "Accept-Encoding: gzip", "Range: bytes=0-9")
    assert part.head.startswith(b"HTTP/1.1 200") and zlib.decompress(part.body, 31) == SCRIPT
    plain = started.get("/a.js", "Range: bytes=0-9")
    assert plain.head.startswith(b"HTTP/1.1 206") and plain.body == SCRIPT[:10]


def test_head(gateway: Any) -> None:
    started = gateway("gzip on; gzip_types application/javascript;", http=TYPES, files={"a.js": SCRIPT})
    for _ in range(2):
        answer = started.get("/a.js", "Accept-Encoding: gzip", method="HEAD")
        assert field(answer, "Content-Encoding") == "gzip" and answer.body == b""
        started.get("/a.js", "Accept-Encoding: gzip")
    assert int(field(answer, "Content-Length") or 0) < len(SCRIPT)


def test_gzip_ratio(gateway: Any) -> None:
    started = gateway(
        "access_log logs/ratio.log ratio; gzip on; gzip_types *; location = /text { return 200 $host$host$host; }",
        http=TYPES + "log_format ratio '$uri $gzip_ratio';\n",
        files={"a.js": SCRIPT},
    )
    started.get("/a.js", "Accept-Encoding: gzip")
    started.get("/text", "Accept-Encoding: gzip")
    started.get("/a.js")
    lines = started.log("ratio.log").splitlines()
    assert re.fullmatch(r"/a\.js \d\d+\.\d\d", lines[0])
    assert re.fullmatch(r"/text [01]\.\d\d", lines[1])
    assert lines[2] == "/a.js -"


def test_level_and_minimum_of_a_stream(gateway: Any) -> None:
    body = "abc" * 400
    started = gateway(
        "gzip on; gzip_types *; gzip_comp_level 9; "
        f"location /a {{ return 200 {body}; }} location /b {{ return 200 abc; }}"
    )
    answer = started.get("/a", "Accept-Encoding: gzip")
    assert codings.decode("gzip", answer.body) == body.encode()
    assert field(started.get("/b", "Accept-Encoding: gzip"), "Content-Encoding") is None


class Upstream:
    """A server of one answer, whose pieces are sent when the test says so."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def accept(self, head: bytes) -> None:
        self.sock, _ = self.listener.accept()
        while not self.sock.recv(4096).endswith(b"\r\n\r\n"):
            pass
        self.sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + head + b"\r\n")

    def send(self, data: bytes) -> None:
        self.sock.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def close(self) -> None:
        self.sock.close()
        self.listener.close()


def test_events_are_not_held_back(gateway: Any) -> None:
    upstream = Upstream()
    started = gateway(
        "gzip on; brotli on; zstd on; gzip_types *; brotli_types *; zstd_types *;"
        f"location / {{ proxy_http_version 1.1; proxy_pass http://127.0.0.1:{upstream.port}; }}"
    )
    for coding in ("gzip", "br", "zstd"):
        with socket.create_connection(("127.0.0.1", started.port), 10) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n\r\n".encode())
            upstream.accept(b"Content-Type: text/event-stream\r\n")
            decoder, chunks = codings.decoder(coding), ChunkedDecoder()
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            for number in range(3):
                event, seen = b"data: %d\n\n" % number, b""
                upstream.send(event)
                while seen != event:
                    seen += b"".join(decoder.feed(piece) for piece in chunks.feed(client.recv(4096)))
                    assert event.startswith(seen)
        upstream.sock.close()
    upstream.close()
