"""The try_files module: what nginx refuses; what tengine tries. More is judged in tests/parity."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.nginx import agrees, compiled, needs_nginx

CASES = {
    "one": "try_files $uri;",
    "code": "try_files $uri =1000;",
    "code_word": "try_files $uri =abc;",
    "code_none": "try_files $uri =;",
    "unknown": "try_files $nobody =404;",
    "unknown_last": "try_files a $nobody;",
    "twice": "try_files a b; try_files c d;",
    "in_if": "location / { if ($uri) { try_files a b; } }",
    "good": "try_files $uri $uri/ =404; location / { try_files a @b; } location /c { try_files a b?c=$args; }",
    "code_first": "try_files =404 /x;",
}


@needs_nginx
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_mistakes_as_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{\n{text}\n}}")


def test_no_handler_without_the_directive(tmp_path: Path) -> None:
    without, with_it = (
        compiled(tmp_path, f"server {{ location / {{ {text} }} }}").site.servers[0].locations.prefixes[b"/"].handlers
        for text in ("", "try_files a =404;")
    )
    assert len(with_it) == len(without) + 1


def test_failures_other_than_absence_are_logged(gateway: Any) -> None:
    started = gateway("location / { try_files /loop $uri /b =404; }", files={"b": b"b"})
    (started.root / "loop").symlink_to("loop")
    assert started.get("/" + "long" * 100).body == b"b"
    written = started.log("error.log")
    assert 'loop" failed (40: Too many levels of symbolic links)' in written
    assert written.count("failed (") == 1


def test_only_a_folder_passes_where_one_is_asked_for(gateway: Any) -> None:
    started = gateway(
        """location / { try_files $uri/ $uri.txt /none?$uri; } location ~ html { }
        location /none { return 404 "$args\n"; }""",
        files={"a": b"a", "a.txt": b"text", "d/index.html": b"index", "d.txt": b"not"},
    )
    assert started.get("/a").body == b"text"
    assert started.get("/d/").body == b"index"
    assert started.get("/x").body == b"/x\n"
