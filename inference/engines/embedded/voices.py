"""The 54 stock voices, and how one is cast for a speaker and a language.

A voice is a style of two halves. The colour (decoder half) may be mixed from several, which is how a prompt's voice is
approached; the manner (prosody half) is always one voice's of the language spoken, for it carries tones and rhythm. It
depends on the length of a phrase, as the training material did; the bank leaves out the hasty manners of short ones,
which speak up to twice as fast and flatten the tones.
"""

from bisect import bisect
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.engines.contract import EngineError

Floats = NDArray[np.float32]

BANK = Path(__file__).with_name("voices.npz")  # made by bank.py
LANGUAGES = {"z": "zh", "a": "en", "b": "en", "j": "ja"}  # by a name's first letter; the others lend their colour only
DEFAULTS = {"zh": "zf_xiaobei", "en": "af_heart", "ja": "jf_alpha"}
NEIGHBOURS = 5
SHARPNESS = 15.0  # of the softmax over cosines: the nearest weighs most, and all of the five count


@dataclass(frozen=True, slots=True)
class Speaker:
    """Somebody to sound like."""

    colour: Tensor  # (128,)
    embedding: Floats  # (256,) of length one
    pitch: float  # median in Hz; 0 = unknown, leave it as it comes
    name: str = ""  # of the stock voice, "" for a prompt's


@dataclass(frozen=True, slots=True)
class Role:
    """A speaker in one language."""

    colour: Tensor  # (128,)
    manners: Tensor  # (R, 128), for phrases of the bank's R lengths
    lengths: tuple[int, ...]  # R, in symbols, rising
    transpose: float  # factor on the pitch that the manner gives

    def manner(self, symbols: int) -> Tensor:
        """(128,) for a phrase of so many symbols: between the two nearest lengths of the bank."""
        after = min(max(bisect(self.lengths, symbols), 1), len(self.lengths) - 1)
        low, high = self.lengths[after - 1], self.lengths[after]
        share = min(max((symbols - low) / (high - low), 0.0), 1.0)
        return torch.lerp(self.manners[after - 1], self.manners[after], share)


class Voices:
    """The bank in memory."""

    def __init__(self, path: Path = BANK) -> None:
        with np.load(path) as bank:
            self.names: list[str] = bank["names"].tolist()
            self.colours: Floats = bank["colours"].astype(np.float32)  # (54, 128)
            self.manners: Floats = bank["manners"].astype(np.float32)  # (54, R, 128)
            self.lengths: tuple[int, ...] = tuple(bank["lengths"].tolist())  # (R,) symbols
            self.embeddings: Floats = bank["embeddings"].astype(np.float32)  # (54, 256)
            self.pitches: Floats = bank["pitches"].astype(np.float32)  # (54,) Hz
        self.embeddings /= np.linalg.norm(self.embeddings, axis=1, keepdims=True)

    def stock(self, name: str) -> Speaker:
        """Give a voice by its name, or by what follows the underscore where that is one voice's only.

        Raises EngineError for an unknown name.
        """
        fits = [i for i, known in enumerate(self.names) if name in (known, known.partition("_")[2])]
        if len(fits) != 1:
            wrong = "is several voices" if fits else "is not a voice"
            listed = ", ".join(self.names[i] for i in fits) if fits else ", ".join(self.names)
            raise EngineError("unknown_voice", f"{name!r} {wrong} of this engine; choose from: {listed}", "voice")
        i = fits[0]
        return Speaker(torch.from_numpy(self.colours[i]), self.embeddings[i], float(self.pitches[i]), self.names[i])

    def like(self, embedding: Floats, pitch: float) -> Speaker:
        """Mix the colours of the nearest voices, of any language, by their likeness to ``embedding`` (256,)."""
        cosines = self.embeddings @ embedding
        nearest = np.argsort(cosines)[-NEIGHBOURS:]
        weights = np.exp(SHARPNESS * (cosines[nearest] - cosines[nearest].max()))
        colour = (weights / weights.sum()) @ self.colours[nearest]
        return Speaker(torch.from_numpy(colour.astype(np.float32)), embedding, pitch)

    def role(self, speaker: Speaker, language: str) -> Role:
        """Let a speaker speak ``language``, in their own manner if it is theirs, else in the most similar voice's."""
        own = LANGUAGES.get(speaker.name[:1]) == language
        i = self.names.index(speaker.name) if own else self._nearest(speaker.embedding, language)
        transpose = speaker.pitch / float(self.pitches[i]) if speaker.pitch else 1.0
        return Role(speaker.colour, torch.from_numpy(self.manners[i]), self.lengths, transpose)

    def _nearest(self, embedding: Floats, language: str) -> int:
        # American only: the English front end reads so unless a British voice was named
        letters = [letter for letter, spoken in LANGUAGES.items() if spoken == language and letter != "b"]
        of_language = [i for i, name in enumerate(self.names) if name[0] in letters]
        return of_language[int(np.argmax(self.embeddings[of_language] @ embedding))]
