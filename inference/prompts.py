"""Gets a prompt recording's bytes from where a request says they are: uploaded, in base64, or a file in PROMPT_DIR."""

import base64
import binascii
import os
import re
import stat
from pathlib import Path

from inference.errors import ServiceError

FIELD = "prompt_audio"
BASE64 = re.compile(r"[A-Za-z0-9+/\s_-]+={0,2}\s*")
SHORTEST_BASE64 = 256  # characters: no three seconds of audio are shorter, and no sensible path without a dot is longer
DATA_URL = re.compile(r"data:[\w.+/;=, -]{0,200}?;base64,", re.IGNORECASE)
URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
REMEDY = "put the recording there and send its name, upload it as a form's file, or send it as base64"


def fetch(source: str | bytes, folder: Path, most: int) -> bytes:
    """Return the recording's bytes, at most ``most`` of them; ``folder`` is PROMPT_DIR.

    Raises ServiceError: 403 for a path outside, 413 too large, 422 for what is not there or not a recording.
    """
    if isinstance(source, bytes):
        return _limited(source, most)
    if match := DATA_URL.match(source):
        return _decoded(source[match.end() :], most)
    if source[:5].lower() == "data:":
        raise _wrong("prompt_audio is a data: URL, but not one in base64.")
    if URL.match(source):
        raise _wrong("prompt_audio is a URL; recordings are not fetched from elsewhere, so send the recording itself.")
    if len(source) >= SHORTEST_BASE64 and BASE64.fullmatch(source):
        return _decoded(source, most)
    return _read(source, folder, most)


def _wrong(message: str, code: str = "prompt_source") -> ServiceError:
    return ServiceError(422, code, message, FIELD)


def _outside() -> ServiceError:
    return ServiceError(
        403,
        "prompt_path_forbidden",
        f"prompt_audio may only name a file inside the service's PROMPT_DIR (by default var/prompts): {REMEDY}.",
        FIELD,
    )


def _limited(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise ServiceError(413, "prompt_too_large", f"The prompt has more than {most} bytes.", FIELD)
    return data


def _decoded(words: str, most: int) -> bytes:
    compact = "".join(words.split()).translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        return _limited(base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True), most)
    except (binascii.Error, ValueError) as error:
        raise _wrong(f"prompt_audio looks like base64 but is not: {error}.", "prompt_base64") from None


def _read(name: str, folder: Path, most: int) -> bytes:
    """Read a regular file inside ``folder``; what lies outside answers alike whether it exists or not."""
    if len(name) > 4096 or any(sign < " " or "\ud800" <= sign <= "\udfff" for sign in name):
        raise _wrong("prompt_audio is neither a path nor base64.")
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, name))
    if os.path.commonpath((root, path)) != root or path == root:
        raise _outside()
    try:
        return _limited(_contents(root, os.path.relpath(path, root).split(os.sep), most + 1), most)
    except FileNotFoundError:
        raise _wrong(f"prompt_audio names no file inside PROMPT_DIR: {REMEDY}.", "prompt_not_found") from None
    except OSError as error:
        raise _wrong(f"prompt_audio cannot be read: {error.strerror}.", "prompt_unreadable") from None


def _contents(root: str, parts: list[str], most: int) -> bytes:
    """Walk down without following links: the path was resolved before, so a link met now was put there since."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = deeper
        # Looked at before it is opened, because opening a device or a pipe may already do something.
        if not stat.S_ISREG(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode):
            raise _wrong("prompt_audio names something that is no regular file.", "prompt_unreadable")
        with open(os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            return file.read(most)
    finally:
        os.close(folder)
