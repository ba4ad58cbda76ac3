"""Settings come from the environment, are checked once, and say by name what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

from inference.settings import PROJECT, Settings, SettingsError, from_environment


def test_defaults_and_auto() -> None:
    assert from_environment({}) == Settings() == from_environment({"ENGINE": " ", "QUEUE_SIZE": ""})
    assert Settings().engine_name == "embedded"
    assert Settings(engine="embedded").engine_name == "embedded"


def test_all_are_read(tmp_path: Path) -> None:
    made = from_environment({
        "ENGINE": "embedded", "DEVICE": "cuda:1", "OUTPUT_DIR": str(tmp_path), "PROMPT_DIR": "voices",
        "QUEUE_SIZE": "3", "REQUEST_TIMEOUT": "9", "BODY_TIMEOUT": "8", "MAX_PROMPT_BYTES": "200000",
        "MAX_TEXT_LENGTH": "77", "OUTPUT_MAX_AGE": "0",
    })  # fmt: skip
    assert made.engine == "embedded" and made.device == "cuda:1" and made.output_dir == tmp_path
    assert made.prompt_dir == PROJECT / "voices"
    assert (made.queue_size, made.request_timeout, made.body_timeout) == (3, 9, 8)
    assert (made.max_prompt_bytes, made.max_text_length, made.output_max_age) == (200_000, 77, 0)
    assert made.max_body_bytes > 200_000 * 4 / 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENGINE", "cosyvoice9"),
        ("QUEUE_SIZE", "many"),
        ("QUEUE_SIZE", "0"),
        ("REQUEST_TIMEOUT", "-1"),
        ("PROMPT_DIR", "/"),
        ("OUTPUT_DIR", __file__),
    ],
)
def test_wrong_ones_are_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        from_environment({name: value})


def test_the_web_side_imports_no_model_library() -> None:
    code = "import sys, inference.app; print([m for m in ('torch', 'numpy', 'jieba', 'onnx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['numpy']"
