"""browser: versions and mistakes; how agents are judged is compared with nginx by the parity case of this name."""

from pathlib import Path

import pytest

from gateway.config.schema import ConfigError
from gateway.modules.browser import version_of
from tests.gateway.nginx import agrees, compiled, needs_nginx


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"", 0),
        (b"1", 1000000),
        (b"1.2", 1020000),
        (b"1.2.3.4", 1020304),
        (b"1.2.3.4.5", 1020304),
        (b"1.400", 5000000),
        (b"1..3", 1000300),
        (b"..", 0),
    ],
)
def test_versions_compare_as_numbers(text: bytes, number: int) -> None:
    assert version_of(text) == number


def test_a_browser_needs_a_version(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a version"):  # nginx refuses it too, and says nothing
        compiled(tmp_path, "modern_browser msie;")


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "modern_browser msie x;",
        "modern_browser msie 1.a;",
        "modern_browser msie '';",
        "modern_browser foo 1.0;",
        "modern_browser unlisted; modern_browser unlisted;",
        "modern_browser msie 1 2;",
        "modern_browser msie 1..2; modern_browser opera 9; ancient_browser a netscape4 b;",
        "ancient_browser;",
        "ancient_browser_value 1; modern_browser_value 2;",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
