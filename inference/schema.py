"""Reads requests into typed values: every field is checked here, and each refusal names the field that is wrong.

400 is for bodies that cannot be read at all, 415 for kinds of bodies that are not known, 422 for fields whose value is
missing, of the wrong type or out of range. What is not known is not ignored in silence: it becomes a warning.
"""

import json
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flask import Request

from inference.errors import ServiceError

LOWEST_SEED, HIGHEST_SEED = 1, 100_000_000
SLOWEST, FASTEST = 0.5, 2.0
LANGUAGES = ("zh", "en", "ja")
MAX_INSTRUCT, MAX_PROMPT_TEXT = 200, 1000  # characters
FIELDS = ("text", "prompt_audio", "prompt_text", "instruct_text", "seed", "language", "speed")
ALLOWED_CONTROLS = "\t\n\r"


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """What to say and how, as asked for; ``prompt_audio`` is still a path, base64 words, uploaded bytes, or None."""

    text: str
    prompt_audio: str | bytes | None
    prompt_text: str
    instruct_text: str
    language: str  # zh | en | ja | "" = detect
    speed: float
    seed: int


def read_speech(request: Request, limits: tuple[int, int], warn: Callable[[str], None]) -> SpeechRequest:
    """Read a JSON or form body; ``limits``: most characters of text, most bytes of an uploaded prompt.

    Raises ServiceError 400, 413, 415 or 422.
    """
    max_text, max_upload = limits
    if request.mimetype == "application/json" or request.mimetype.endswith("+json"):
        fields = _json(request.get_data(cache=False))
    elif request.mimetype in ("multipart/form-data", "application/x-www-form-urlencoded"):
        fields = _form(request, max_upload)
    else:
        kind = request.mimetype or "none"
        raise ServiceError(415, "unsupported_media_type", f"Send JSON or a form; the Content-Type was {kind}.")
    for name in fields.keys() - set(FIELDS):
        warn(f"the field {name[:40]!r} is not known and was ignored")
    return SpeechRequest(
        text=_text(fields, "text", max_text, required=True),
        prompt_audio=_audio(fields),
        prompt_text=_text(fields, "prompt_text", MAX_PROMPT_TEXT),
        instruct_text=_text(fields, "instruct_text", MAX_INSTRUCT),
        language=_language(fields),
        speed=_speed(fields),
        seed=_seed(fields),
    )


def _json(body: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise ServiceError(400, "malformed_json", "The body's JSON is nested too deeply.") from None
    except ValueError as error:
        raise ServiceError(400, "malformed_json", f"The body is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ServiceError(400, "malformed_json", "The body must be a JSON object with at least the field text.")
    return value


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


def _form(request: Request, max_upload: int) -> Mapping[str, object]:
    """Read a form: numbers come as words there, so they are turned before they are judged like JSON's."""
    fields: dict[str, object] = dict(request.form.items())
    for name, turn in (("seed", int), ("speed", float)):
        word = fields.get(name)
        if isinstance(word, str) and word.strip():
            try:
                fields[name] = turn(word)
            except ValueError:
                raise _wrong(name, f"{name} must be a number, not {word[:40]!r}.") from None
        elif word is not None:
            fields[name] = None
    for name, upload in request.files.items():
        data = upload.stream.read(max_upload + 1)
        if len(data) > max_upload:
            raise ServiceError(413, "prompt_too_large", f"{name} has more than {max_upload} bytes.", name)
        # A browser sends a file field that was left empty as a file without name and content.
        fields[name] = data if data or upload.filename else None
    return fields


def _wrong(field: str, message: str, code: str = "invalid") -> ServiceError:
    return ServiceError(422, code, message, field)


def _text(fields: Mapping[str, object], name: str, longest: int, required: bool = False) -> str:
    value = fields.get(name)
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise _wrong(name, f"{name} must be text.")
    value = value.strip()
    if required and not value:
        raise _wrong(name, f"{name} is missing: it is what shall be said.", "required")
    if len(value) > longest:
        raise _wrong(name, f"{name} has {len(value)} characters; at most {longest} are possible.", "too_long")
    # Lone surrogates (JSON can write them) are no characters and cannot be encoded later on.
    if any((sign < " " and sign not in ALLOWED_CONTROLS) or "\ud800" <= sign <= "\udfff" for sign in value):
        raise _wrong(name, f"{name} holds control characters or broken ones.", "invalid_character")
    return value


def _audio(fields: Mapping[str, object]) -> str | bytes | None:
    value = fields.get("prompt_audio")
    if value is None or value == "":
        return None
    if isinstance(value, bytes | str):
        return value
    raise _wrong("prompt_audio", "prompt_audio must be a path, base64 or an uploaded file.")


def _seed(fields: Mapping[str, object]) -> int:
    value = fields.get("seed")
    if value is None:
        return secrets.randbelow(HIGHEST_SEED) + LOWEST_SEED
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong("seed", "seed must be a whole number.")
    if not LOWEST_SEED <= value <= HIGHEST_SEED:
        raise _wrong("seed", f"seed must lie between {LOWEST_SEED} and {HIGHEST_SEED}.", "out_of_range")
    return value


def _speed(fields: Mapping[str, object]) -> float:
    value = fields.get("speed")
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong("speed", "speed must be a number.")
    if not SLOWEST <= value <= FASTEST:
        raise _wrong("speed", f"speed must lie between {SLOWEST} and {FASTEST}.", "out_of_range")
    return float(value)


def _language(fields: Mapping[str, object]) -> str:
    value = fields.get("language")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong("language", "language must be text.")
    # zh-CN and en_US name regions (RFC 5646); the engines know the primary language only.
    primary = value.strip().lower().replace("_", "-").partition("-")[0]
    if primary in ("", "auto"):
        return ""
    if primary not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise _wrong("language", f"language {value[:20]!r} is not known; use one of {known}, or auto.", "out_of_range")
    return primary
