"""zstd, end to end: rows, files, streams, who gets it, and its library only where it is on."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway import codings
from gateway.config.schema import ConfigError
from tests.gateway.nginx import compiled
from tests.gateway.test_gzip import SCRIPT, TYPES, field

ROOT = Path(__file__).parents[2]
ON = "zstd on; zstd_types application/javascript; zstd_comp_level 5; zstd_min_length 100;"
WRONG = {
    "zstd yes;": 'invalid value "yes" in "zstd" directive, it must be "on" or "off"',
    "zstd_comp_level 23;": "value must be between",
    "zstd_min_length x;": '"zstd_min_length" directive invalid value',
    "zstd_buffers 1;": 'invalid number of arguments in "zstd_buffers" directive',
}


@pytest.mark.parametrize("text", WRONG)
def test_mistakes(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        compiled(tmp_path, f"server {{ {text} }}")
    assert WRONG[text] in str(error.value)


def test_rows_that_are_accepted(tmp_path: Path) -> None:
    compiled(tmp_path, f"{ON} zstd_buffers 32 4k; server {{ location / {{ if ($uri) {{ zstd off; }} }} }}")


def test_a_file(gateway: Any) -> None:
    started = gateway(ON, http=TYPES, files={"a.js": SCRIPT, "b.js": b"short"})
    answer = started.get("/a.js", "Accept-Encoding: gzip, zstd")
    assert field(answer, "Content-Encoding") == "zstd"
    assert codings.decode("zstd", answer.body) == SCRIPT
    assert field(answer, "Vary") == "Accept-Encoding"
    assert (field(answer, "ETag") or "").startswith('W/"')
    for accept in ("gzip", "zstd;q=0", "*", "xzstd"):
        assert field(started.get("/a.js", f"Accept-Encoding: {accept}"), "Content-Encoding") is None
    assert field(started.get("/b.js", "Accept-Encoding: zstd"), "Content-Encoding") is None


def test_a_stream_and_its_ratio(gateway: Any) -> None:
    body = "abc" * 400
    started = gateway(
        f"zstd on; zstd_types *; access_log logs/ratio.log ratio; location / {{ return 200 {body}; }}",
        http="log_format ratio '$zstd_ratio $gzip_ratio';\n",
    )
    answer = started.get("/", "Accept-Encoding: zstd")
    assert codings.decode("zstd", answer.body) == body.encode()
    ratio, other = started.log("ratio.log").split()
    assert float(ratio) > 10 and other == "-"


def test_beside_gzip_the_client_decides(gateway: Any) -> None:
    started = gateway(f"{ON} gzip on; gzip_types *;", http=TYPES, files={"a.js": SCRIPT})
    chosen = {
        accept: field(started.get("/a.js", f"Accept-Encoding: {accept}"), "Content-Encoding")
        for accept in ("gzip, zstd", "gzip, zstd;q=0.5", "gzip;q=0.5, zstd", "gzip")
    }
    assert list(chosen.values()) == ["zstd", "gzip", "zstd", "gzip"]


def test_compress_order(gateway: Any) -> None:
    started = gateway(f"{ON} gzip on; gzip_types *; compress_order gzip zstd;", http=TYPES, files={"a.js": SCRIPT})
    assert field(started.get("/a.js", "Accept-Encoding: gzip, zstd"), "Content-Encoding") == "gzip"


def test_the_library_is_needed_only_where_it_is_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(codings.LIBRARIES, "zstd", "no_such_library")
    compiled(tmp_path, "server { zstd off; }")
    with pytest.raises(ConfigError, match='needs the Python package "zstandard"'):
        compiled(tmp_path, "server { zstd on; }")


def test_a_site_without_it_never_imports_it(tmp_path: Path) -> None:
    (tmp_path / "main.conf").write_text("events { } http { server { listen 127.0.0.1:9; gzip on; } }")
    script = (
        "import sys; from gateway.build import load; from gateway.config.schema import Paths\n"
        "from gateway.process.settings import TABLES\n"
        f"load('{tmp_path}/main.conf', Paths('{tmp_path}/', '{tmp_path}/'), TABLES); print('zstandard' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr
