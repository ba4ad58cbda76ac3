"""Says something now: `POST /generate_audio` answers the WAV, `POST /infer` its address; `/outputs/` serves it."""

import logging
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

import numpy as np
from flask import Blueprint, Response, g, jsonify, request
from werkzeug.exceptions import HTTPException
from werkzeug.wsgi import wrap_file

from inference import audio, client, parts, prompts, schema
from inference.engines.contract import Prompt, Utterance
from inference.errors import ServiceError
from inference.storage import NoSuchKeyError, put_named

log = logging.getLogger(__name__)
routes = Blueprint("speech", __name__)

FASTEST_SPEECH = 30.0  # characters a second; nobody talks faster, so a longer prompt_text is not the prompt's
WARNINGS_SIZE = 1500  # bytes of X-Warnings: gateways commonly read a whole head into 4 KiB
# What stays readable of a warning in its header; the comma separates warnings, the percent sign escapes.
PLAIN = " !#$&'()*+-./:;<=>?@[]^_`{|}~\""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A finished recording: its WAV, the name it is kept under, and what headers and JSON tell about it."""

    wav: bytes
    name: str
    seed: int
    engine: str
    sample_rate: int  # Hz
    duration: float  # seconds
    rtf: float  # seconds of work per second of sound
    warnings: list[str]


@routes.post("/generate_audio")
def generate_audio() -> Response:
    """Answer the recording itself."""
    spoken = _speak()
    response = Response(spoken.wav, mimetype="audio/wav")
    response.headers["Content-Disposition"] = f'attachment; filename="{spoken.name}"'
    response.headers["Content-Location"] = f"/outputs/{spoken.name}"
    return _described(response, spoken)


@routes.post("/infer")
def infer() -> Response:
    """Answer where the recording is, and all there is to say about it, as JSON."""
    spoken = _speak()
    response = jsonify(
        url=f"/outputs/{spoken.name}",
        name=spoken.name,
        seed=spoken.seed,
        engine=spoken.engine,
        sample_rate=spoken.sample_rate,
        duration=round(spoken.duration, 3),
        rtf=round(spoken.rtf, 3),
        warnings=spoken.warnings,
        request_id=g.request_id,
    )
    return _described(response, spoken)


@routes.get("/outputs/<name>")
def output(name: str) -> Response:
    """Serve a recording again, with ranges and conditional requests; recordings never change under one name."""
    service = parts.service()
    try:
        blob = service.storage.stream(name)
    except NoSuchKeyError:
        raise ServiceError(404, "not_found", "There is no recording of that name.") from None
    response = Response(wrap_file(request.environ, blob.file), mimetype="audio/wav", direct_passthrough=True)
    response.call_on_close(blob.file.close)
    response.content_length = blob.size
    response.last_modified = datetime.fromtimestamp(int(blob.modified)).astimezone()
    response.set_etag(f"{int(blob.modified):x}-{blob.size:x}")
    # A recording may hold somebody's voice: shared caches keep it only where the operator arranges that.
    response.headers["Cache-Control"] = f"private, max-age={service.settings.output_max_age}, immutable"
    try:
        response.make_conditional(request.environ, accept_ranges=True, complete_length=blob.size)
    except HTTPException:
        response.close()
        raise
    return response


def _speak() -> Spoken:
    """Do the whole work of one request: read, check, queue, collect, keep. Raises ServiceError."""
    service = parts.service()
    warnings: list[str] = []
    service.runner.require_room()
    settings = service.settings
    asked = schema.read_speech(request, (settings.max_text_length, settings.max_prompt_bytes), warnings.append)
    utterance = Utterance(
        text=asked.text,
        prompt=_prompt(asked, warnings),
        instruct=asked.instruct_text,
        language=asked.language,
        speed=asked.speed,
        seed=asked.seed,
    )
    job = service.runner.submit(utterance, g.request_id, settings.request_timeout)
    pieces = list(job.pieces(client.watch(request.environ)))
    if not sum(map(len, pieces)):
        raise ServiceError(422, "nothing_to_say", "The text holds nothing that can be spoken.", "text")
    samples = np.concatenate(pieces)
    rate = service.runner.sample_rate
    wav = audio.encode_wav(samples, rate)
    duration = len(samples) / rate
    name = _keep(wav)
    log.info("%s kept %s: %.2f s of sound in %.2f s", g.request_id, name, duration, job.seconds)
    told = list(dict.fromkeys(warnings + job.warnings))
    return Spoken(wav, name, asked.seed, service.runner.name, rate, duration, job.seconds / duration, told)


def _prompt(asked: schema.SpeechRequest, warnings: list[str]) -> Prompt | None:
    """Fetch, decode and check the recording to speak like; None = the engine's default voice."""
    if asked.prompt_audio is None:
        if asked.prompt_text:
            warnings.append("prompt_text was ignored: there is no prompt_audio that it could be the text of")
        return None
    settings = parts.service().settings
    data = prompts.fetch(asked.prompt_audio, settings.prompt_dir, settings.max_prompt_bytes)
    recording = audio.read_prompt(data, warnings.append)
    if len(asked.prompt_text) > FASTEST_SPEECH * recording.duration:
        warnings.append(f"prompt_text is too long to be what is said in {recording.duration:.1f} s of prompt_audio")
    return Prompt(recording.samples, recording.sample_rate, asked.prompt_text, recording.digest)


def _keep(wav: bytes) -> str:
    """Make the recording durable under output_YYYYMMDD_HHMMSS.wav and return that name."""
    stem = datetime.now().strftime("output_%Y%m%d_%H%M%S")
    try:
        return put_named(parts.service().storage, stem, ".wav", wav)
    except OSError as error:
        log.error("%s the recording cannot be kept: %s", g.request_id, error)
        raise ServiceError(507, "storage_failed", "The recording was made but cannot be stored.") from error


def _described(response: Response, spoken: Spoken) -> Response:
    response.headers["X-Seed"] = str(spoken.seed)
    response.headers["X-Engine"] = spoken.engine
    response.headers["X-Audio-Duration"] = f"{spoken.duration:.3f}"
    response.headers["X-RTF"] = f"{spoken.rtf:.3f}"
    if spoken.warnings:
        response.headers["X-Warnings"] = _header(spoken.warnings)
    response.headers["Cache-Control"] = "no-store"
    return response


def _header(warnings: list[str]) -> str:
    """Join warnings for a header: each percent-encoded UTF-8, a comma and a space between; cut at whole warnings."""
    words: list[str] = []
    for number, warning in enumerate(warnings):
        word = quote(warning, safe=PLAIN)
        if sum(map(len, words)) + len(word) > WARNINGS_SIZE:
            return ", ".join([*words, f"and {len(warnings) - number} more"])
        words.append(word)
    return ", ".join(words)
