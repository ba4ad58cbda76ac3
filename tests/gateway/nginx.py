"""Real nginx as the judge of configurations: `verdict` is what it says of one, `agrees` compares that with ours."""

import re
import subprocess
from pathlib import Path

import pytest

from gateway.build import Loaded, load
from gateway.config.schema import ConfigError, Paths
from gateway.process.settings import TABLES
from tests.parity.server import find_nginx

NGINX = find_nginx()
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


def verdict(folder: Path, text: str, extra: str = "") -> str | None:
    """nginx's first [emerg] message without time and process, None if it accepts; `text` is left in main.conf."""
    file = folder / "main.conf"
    file.write_text(text)
    command = [NGINX or "nginx", "-t", "-p", f"{folder}/", "-c", str(file), "-e", "stderr"]
    done = subprocess.run([*command, "-g", extra] if extra else command, capture_output=True, timeout=10, check=False)
    found = re.search(rb"\[emerg\] (?:\d+#\d+: )?(.*)", done.stderr)
    assert found is not None or done.returncode == 0, done.stderr
    return found[1].decode("utf-8", "surrogateescape") if found is not None else None


def whole(folder: Path, http: str, logs: str = "") -> str:
    """A configuration around the contents of its http block."""
    return f"pid {folder}/pid;\nevents {{ }}\nhttp {{ {logs}\n{http}\n}}\n"


def compiled(folder: Path, http: str) -> Loaded:
    """Load an http block. Raises ConfigError."""
    file = folder / "main.conf"
    file.write_text(whole(folder, http))
    return load(str(file), Paths(f"{folder}/", f"{folder}/"), TABLES)


def agrees(folder: Path, http: str) -> None:
    """Assert that tengine refuses an http block in nginx's words, or accepts what nginx accepts."""
    said = None
    try:
        compiled(folder, http)
    except ConfigError as error:
        said = str(error)
    wanted = verdict(folder, whole(folder, http, "access_log off;"))
    assert said == wanted, f"\nnginx:   {wanted}\ntengine: {said}"
