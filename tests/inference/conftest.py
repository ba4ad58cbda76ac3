"""A small real engine for tests of the service (it makes tones, deterministically), prompts, and a client."""

import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from inference import audio, parts
from inference.app import create_app
from inference.engines.contract import EngineError, Pcm, Utterance
from inference.runner import Runner, State
from inference.settings import Settings

RATE = 24_000


class ToneEngine:
    """Speaks each word as 0.1 s of a tone whose pitch comes from word and seed; words in braces are orders.

    {hold}: wait until `release` is set before the next piece; {fail}: break down; {refuse}: refuse the input;
    {nan}: make samples that are no numbers; {silent}: make no sound at all.
    """

    def __init__(self) -> None:
        self.name = "tone"
        self.sample_rate = RATE
        self.loaded_in = ""
        self.heard: list[Utterance] = []
        self.stopped = threading.Event()  # a speak was closed before its end
        self.holding = threading.Event()
        self.release = threading.Event()
        self.closed = threading.Event()

    def load(self, device: str) -> None:
        self.loaded_in = threading.current_thread().name

    def close(self) -> None:
        self.closed.set()

    def speak(self, what: Utterance, warn: Callable[[str], None]) -> Iterator[Pcm]:
        self.heard.append(what)
        if "四川" in what.instruct:
            warn("方言 is not possible: 四川话, spoken as zh")
        finished = False
        try:
            for word in what.text.split():
                if word == "{silent}":
                    continue
                yield self._piece(word, what)
            finished = True
        finally:
            if not finished:
                self.stopped.set()

    def _piece(self, word: str, what: Utterance) -> Pcm:
        if word == "{hold}":
            self.holding.set()
            assert self.release.wait(20)
        elif word == "{fail}":
            raise RuntimeError("the tone generator is on fire")
        elif word == "{refuse}":
            raise EngineError("bad_pinyin", "there is no syllable qx9", "text")
        elif word == "{nan}":
            return np.full(2400, np.nan, np.float32)
        pitch = 200 + (sum(map(ord, word)) * 31 + what.seed) % 400
        time = np.arange(int(RATE * 0.1 / what.speed)) / RATE
        return (0.3 * np.sin(2 * np.pi * pitch * time)).astype(np.float32)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "prompts").mkdir()
    return Settings(output_dir=tmp_path / "outputs", prompt_dir=tmp_path / "prompts", queue_size=2, request_timeout=30)


@pytest.fixture
def engine() -> Iterator[ToneEngine]:
    made = ToneEngine()
    yield made
    made.release.set()


@pytest.fixture
def app(settings: Settings, engine: ToneEngine) -> Iterator[Flask]:
    made = create_app(settings, engine)
    runner = parts.service(made).runner
    wait_until(lambda: runner.state is State.READY)
    yield made
    engine.release.set()
    runner.close()


@pytest.fixture
def runner(app: Flask) -> Runner:
    return parts.service(app).runner


class BufferedClient(FlaskClient):
    """Reads every answer to its end, as a client on a socket does, so that files behind answers get closed."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        return super().open(*args, **{"buffered": True} | kwargs)


@pytest.fixture
def http(app: Flask) -> FlaskClient:
    app.test_client_class = BufferedClient
    return app.test_client()


def wait_until(true: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for something another thread or process does; fail when it takes unreasonably long."""
    pause = threading.Event()
    for _ in range(int(seconds * 100)):
        if true():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen in time")


def voice(seconds: float = 4.0, rate: int = RATE, level: float = 0.3) -> np.ndarray:
    """Return something that measures like speech: a gliding tone with syllables."""
    time = np.arange(int(seconds * rate)) / rate
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * 4 * time)
    return (level * syllables * np.sin(2 * np.pi * (150 * time + 10 * np.sin(2 * np.pi * time)))).astype(np.float32)


def wav(seconds: float = 4.0, rate: int = RATE, level: float = 0.3) -> bytes:
    return audio.encode_wav(voice(seconds, rate, level), rate)


def encoded(container: str, codec: str, rate: int, samples: np.ndarray | None = None) -> bytes:
    """Return a recording in another format, written by the real encoder."""
    sound = voice(4.0, rate) if samples is None else samples
    sink = io.BytesIO()
    with av.open(sink, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate, layout="mono")
        form = stream.codec_context.format.name
        frame = av.AudioFrame.from_ndarray(sound[np.newaxis], format="fltp", layout="mono")
        frame.sample_rate = rate
        turn = av.AudioResampler(format=form, layout="mono", rate=rate)
        for piece in [*turn.resample(frame), *turn.resample(None)]:
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
    return sink.getvalue()
