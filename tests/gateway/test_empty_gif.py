"""empty_gif: the image is one, and where it may stand; its answers are compared with nginx by the parity case."""

from pathlib import Path

import pytest

from gateway.modules.empty_gif import _IMAGE
from tests.gateway.nginx import agrees, needs_nginx


def test_the_image_is_of_one_transparent_pixel() -> None:
    assert len(_IMAGE) == 43
    assert _IMAGE[:10] == b"GIF89a\1\0\1\0"
    control = _IMAGE.index(b"\x21\xf9\x04")
    assert _IMAGE[control + 3] & 1, "a colour is transparent"
    assert _IMAGE.endswith(b"\x3b")


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "empty_gif;",
        "server { empty_gif; }",
        "server { listen 127.0.0.1:1; location / { empty_gif on; } }",
        "server { listen 127.0.0.1:1; location / { empty_gif; } }",
        "server { listen 127.0.0.1:1; location / { if ($uri) { empty_gif; } } }",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
