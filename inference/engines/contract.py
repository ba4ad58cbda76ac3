"""What the service asks of a speech engine: three methods, and the data that passes through them.

Streaming is the primitive: an engine yields pieces of sound as they are made, and a file is their concatenation.
Nothing here imports a model library, so the web side can import this file freely.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.float32]  # mono, -1..1, at the engine's sample_rate


@dataclass(frozen=True, slots=True)
class Prompt:
    """A decoded recording of the voice to speak with."""

    samples: NDArray[np.float32]  # mono, -1..1
    sample_rate: int  # Hz
    text: str = ""  # what is said in it, where known
    digest: str = ""  # sha256 hex of the original bytes: cache key; "" = not cached


@dataclass(frozen=True, slots=True)
class Utterance:
    """One thing to say, and how."""

    text: str
    prompt: Prompt | None = None  # None: the engine's default voice
    voice: str = ""  # a named stock voice, "" = choose
    instruct: str = ""  # free words on the manner, e.g. "用兴奋的语气说这句话"
    language: str = ""  # "zh" | "en" | "ja" | "" = detect
    speed: float = 1.0  # 2.0 speaks twice as fast
    seed: int = 1  # same utterance and seed, same bytes


class Engine(Protocol):
    """A model that speaks. One thread or process owns it; it need not be safe to share."""

    name: str
    sample_rate: int  # Hz, of every Pcm it yields

    def load(self, device: str) -> None:
        """Make the model ready on ``device`` ("cpu", "cuda", ...): once, after the fork, in the runner."""
        ...

    def speak(self, what: Utterance, warn: Callable[[str], None]) -> Iterator[Pcm]:
        """Yield the sound piece by piece; ``warn`` is told, in words, of each wish that cannot be honoured.

        Raises EngineError on input that only the engine can judge. Closing the iterator stops the work.
        """
        ...

    def close(self) -> None:
        """Let go of the model."""
        ...


class EngineError(Exception):
    """Input that the engine refuses: the requester's mistake, told in a code, words, and the field at fault."""

    def __init__(self, code: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
