"""Every case under cases/: nginx and tengine must answer alike. See the package's docstring for what a case is."""

from pathlib import Path

import pytest

from tests.parity import case, run, server

CASES = Path(__file__).parent / "cases"
NGINX = server.find_nginx()
NAMES = sorted(str(path.relative_to(CASES).with_suffix("")) for path in CASES.rglob("*.case"))

pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian, Ubuntu: apt-get install nginx-extras)"),
]


@pytest.mark.parametrize("name", NAMES)
def test_parity(name: str, tmp_path: Path) -> None:
    read = case.read(CASES / f"{name}.case")
    for module in read.modules:
        if not server.module_file(module).exists():
            pytest.skip(f"nginx has no {module} (Debian, Ubuntu: apt-get install nginx-extras)")
    expected, got = run.both(read, NGINX or "", tmp_path / "x")
    if got != expected:
        lines = run.difference(expected, got)
        pytest.fail("\n".join(["the answers differ", *lines]), pytrace=False)
