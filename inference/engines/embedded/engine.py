"""The embedded engine: Kokoro-82M, its front ends and its stock voices behind the service's engine contract."""

import os
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from inference.engines.contract import EngineError, Pcm, Prompt, Utterance
from inference.engines.embedded import instruct, sound, speaker, weights
from inference.engines.embedded.decoder import RATE
from inference.engines.embedded.frontend import Frontend, Phrase, Warn
from inference.engines.embedded.instruct import Manner
from inference.engines.embedded.kokoro import Kokoro
from inference.engines.embedded.speaker import SpeakerEncoder
from inference.engines.embedded.voices import DEFAULTS, Speaker, Voices

SPEEDS = (0.5, 2.0)  # beyond, syllables are lost or smeared
VOICED = 40.0  # Hz; below, Kokoro means "unvoiced"
PITCHES = (50.0, 700.0)  # Hz, that a bent pitch is kept within
SHORTEST_PROMPT = 0.5  # s of speech
SPEAKERS_KEPT = 256  # embeddings of prompts, 2 KB each
LEAD, TAIL = 0.1, 0.2  # s of silence left at the two ends of an utterance
JOINT = 0.04  # s left at the ends of phrases within it, beside the pause
MARGINS = (0.15, 0.25)  # s decoded before and after speech; the silence beyond is a third of a short phrase's work
PEAK = 0.98


class EmbeddedEngine:
    """Speaks Chinese, English and Japanese with what the installed packages carry."""

    name = "embedded"
    sample_rate = RATE

    def __init__(self) -> None:
        self._model: Kokoro | None = None
        self._speakers: OrderedDict[str, Speaker] = OrderedDict()

    def load(self, device: str) -> None:
        """Load everything but the Japanese dictionary. Raises MissingVoiceError where a package is absent."""
        torch.set_num_threads(int(os.environ.get("INFERENCE_THREADS") or os.cpu_count() or 1))
        model = Kokoro().eval().requires_grad_(False)
        model.load_state_dict(weights.load())
        self._encoder = SpeakerEncoder.pretrained()
        self._voices = Voices()
        self._frontend = Frontend(weights.symbols())
        self._model = model.to(device)

    def close(self) -> None:
        """Let go of the model; load() makes it ready again."""
        self._model = None
        self._speakers.clear()

    @property
    def voices(self) -> list[str]:
        """Names of the stock voices."""
        return list(self._voices.names)

    def speak(self, what: Utterance, warn: Warn) -> Iterator[Pcm]:
        """Judge and plan at once, so that all warnings and errors come before the first sound; then decode lazily.

        Raises EngineError for an unknown voice or language, a prompt without speech, a text without words.
        """
        if self._model is None:
            raise RuntimeError("the embedded engine is used before load()")
        if what.language not in ("", *DEFAULTS):
            raise EngineError("unsupported_language", f"language is one of {', '.join(DEFAULTS)}", "language")
        manner, refused = instruct.parse(what.instruct)
        for words in refused:
            warn(f"instruct: this voice cannot honour {words!r}")
        wanted = what.language or manner.language
        british = what.prompt is None and what.voice.startswith("b")
        phrases = self._frontend.phrases(what.text, wanted, british, warn)
        if not phrases:
            raise EngineError("unspeakable_text", "the text has nothing to say in Chinese, English or Japanese", "text")
        if wanted and wanted not in {phrase.language for phrase in phrases}:
            warn(f"the text is not in the language {wanted!r} and is read in its own")
        speed = what.speed * manner.speed
        if not SPEEDS[0] <= speed <= SPEEDS[1]:
            speed = min(max(speed, SPEEDS[0]), SPEEDS[1])
            warn(f"speed: kept to {speed:g}; this voice speaks at {SPEEDS[0]:g} to {SPEEDS[1]:g} times its usual speed")
        who = self._speaker(what, phrases, warn)
        return self._decode(self._model, phrases, who, manner, speed, what.seed)

    def _speaker(self, what: Utterance, phrases: list[Phrase], warn: Warn) -> Speaker:
        if what.prompt is not None:
            if what.voice:
                warn(f"voice: {what.voice!r} is not used, since a prompt recording is given")
            return self._heard(what.prompt)
        if what.voice:
            return self._voices.stock(what.voice)
        amounts = dict.fromkeys(DEFAULTS, 0)
        for phrase in phrases:
            amounts[phrase.language] += len(phrase.symbols)
        return self._voices.stock(DEFAULTS[max(amounts, key=lambda language: amounts[language])])

    def _heard(self, prompt: Prompt) -> Speaker:
        """Find the voice of a prompt: its embedding and median pitch, cached by digest."""
        if prompt.digest in self._speakers:
            self._speakers.move_to_end(prompt.digest)
            return self._speakers[prompt.digest]
        narrow = sound.resample(prompt.samples.astype(np.float32), prompt.sample_rate, speaker.RATE)
        speech = sound.speech_only(narrow, speaker.RATE)
        if len(speech) < SHORTEST_PROMPT * speaker.RATE or not np.any(speech):
            raise EngineError("unusable_prompt", "the prompt recording has too little speech in it", "prompt_audio")
        pitch = sound.median_pitch(speech, speaker.RATE)
        found = self._voices.like(self._encoder.embed(speech, speaker.RATE), pitch)
        if prompt.digest:
            self._speakers[prompt.digest] = found
            if len(self._speakers) > SPEAKERS_KEPT:
                self._speakers.popitem(last=False)
        return found

    def _decode(
        self, model: Kokoro, phrases: list[Phrase], who: Speaker, manner: Manner, speed: float, seed: int
    ) -> Iterator[Pcm]:
        generator = torch.Generator().manual_seed(seed)
        roles = {phrase.language: self._voices.role(who, phrase.language) for phrase in phrases}
        for number, phrase in enumerate(phrases):
            role, last = roles[phrase.language], number + 1 == len(phrases)
            ids = [self._frontend.alphabet[symbol] for symbol in phrase.symbols]
            act = model.perform(ids, role.manner(len(ids)), speed)
            act = act.cropped(*MARGINS)
            act.pitch = bent(act.pitch, role.transpose, manner)
            wave = model.sound(act, role.colour, generator).numpy()
            wave = sound.trim(wave, RATE, JOINT if number else LEAD, TAIL if last else JOINT)
            pause = np.zeros(0 if last else round(phrase.pause / speed * RATE), np.float32)
            yield np.concatenate([amplified(wave, manner.gain), pause])


def bent(pitch: Tensor, transpose: float, manner: Manner) -> Tensor:
    """Move and stretch the pitch curve (2T,) in Hz about its median, in voiced frames only."""
    if manner.whisper:
        return torch.zeros_like(pitch)
    voiced = pitch > VOICED
    if not bool(voiced.any()):
        return pitch
    logs = pitch.clamp(min=VOICED).log2()
    median = logs[voiced].median()
    curve = median + (logs - median) * manner.spread + float(np.log2(transpose)) + manner.shift / 12
    return torch.where(voiced, curve.exp2().clamp(*PITCHES), pitch)


def amplified(wave: Pcm, gain: float) -> Pcm:
    """Scale, but never beyond full scale."""
    peak = float(np.abs(wave).max(initial=0))
    return (wave * np.float32(min(gain, PEAK / peak if peak else gain))).astype(np.float32)
