"""Kokoro-82M whole: symbols and a style in, a performance out, and from that, sound.

The two steps are apart so that a caller can bend durations and pitch between them. A style is 256 numbers: the first
half colours the voice (decoder), the second the manner (prosody), as in StyleTTS 2 (arXiv:2306.07691).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from inference.engines.embedded.albert import Albert, AlbertShape
from inference.engines.embedded.decoder import HARMONICS, SAMPLES_A_FRAME, Decoder
from inference.engines.embedded.prosody import ProsodyPredictor, TextEncoder

SYMBOLS = 178
LONGEST = 510  # symbols in one go: 512 positions less the two borders
STYLE = 128  # of each half
WIDTH = 512
FRAME = 0.025  # s
SPEECH_ENERGY = -3.0  # reached within 0.05 s of where speech really starts and ends
BORDER = 0  # the id before the first and after the last symbol


@dataclass(slots=True)
class Performance:
    """A sentence with its timing and melody, before it is sound. Batch of one, left out of the shapes."""

    text: Tensor  # (512, T), a frame is 25 ms
    frames: Tensor  # (N + 2,) frames each symbol lasts, borders included; they sum to T before cropping
    pitch: Tensor  # (2T,) Hz, about 0 where unvoiced
    energy: Tensor  # (2T,), from about -9 in silence to 8 in a loud vowel

    def cropped(self, before: float, after: float) -> "Performance":
        """Leave out the silence at both ends, but for the given seconds; the energy tells where speech is."""
        speech = (self.energy > SPEECH_ENERGY).nonzero().flatten()
        if not len(speech):
            return self
        start = max(0, int(speech[0]) // 2 - round(before / FRAME))
        stop = min(self.text.shape[1], int(speech[-1]) // 2 + 1 + round(after / FRAME))
        curve = slice(2 * start, 2 * stop)
        return Performance(self.text[:, start:stop], self.frames, self.pitch[curve], self.energy[curve])


class Kokoro(nn.Module):
    """The released network, for inference, one sentence at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = Albert(AlbertShape(symbols=SYMBOLS))
        self.bert_encoder = nn.Linear(768, WIDTH)
        self.text_encoder = TextEncoder(SYMBOLS, WIDTH)
        self.predictor = ProsodyPredictor(STYLE, WIDTH)
        self.decoder = Decoder(STYLE, WIDTH)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.bert_encoder.weight.device

    @torch.inference_mode()
    def perform(self, ids: list[int], manner: Tensor, speed: float = 1.0) -> Performance:
        """Plan how ``ids`` (at most 510) are spoken in the prosody style ``manner`` (128,)."""
        tokens = torch.tensor([[BORDER, *ids, BORDER]], device=self.device)  # (1, N)
        s = manner.to(self.device).unsqueeze(0)
        lengths, states = self.predictor.durations(self.bert_encoder(self.bert(tokens)), s)
        frames = (lengths[0] / speed).round().clamp(min=1).long()  # (N,)
        aligned = states.repeat_interleave(frames, dim=1)  # (1, T, 640)
        pitch, energy = self.predictor.curves(aligned, s)
        text = self.text_encoder(tokens).repeat_interleave(frames, dim=2)  # (1, 512, T)
        return Performance(text[0], frames, pitch[0], energy[0])

    @torch.inference_mode()
    def sound(self, act: Performance, colour: Tensor, generator: torch.Generator) -> Tensor:
        """Sing the performance in the voice ``colour`` (128,): samples (600T,) on the CPU, at 24 kHz."""
        # drawn on the CPU, so that a seed means the same on every device
        noise = torch.randn(1, act.pitch.shape[0] * SAMPLES_A_FRAME, HARMONICS, generator=generator)
        s = colour.to(self.device).unsqueeze(0)
        wave: Tensor = self.decoder(act.text[None], act.pitch[None], act.energy[None], s, noise.to(self.device))
        return wave[0].float().cpu()
