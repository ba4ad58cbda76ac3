"""Who speaks: a 256-number embedding of a voice, trained with the GE2E loss (Wan et al. 2018, arXiv:1710.10467).

The network and its features are those of Resemblyzer, whose package supplies the weights; ours, so that librosa and a
C compiler are not needed. Embeddings have length one: the cosine of two voices is their dot product.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from inference.engines.embedded import sound
from inference.engines.embedded.weights import package_file

RATE = 16_000  # Hz
N_FFT, HOP, BANDS = 400, 160, 40
WINDOW, STEP = 160, 77  # frames of 10 ms: 1.6 s, 1.3 times a second
LEVEL = -30.0  # dB full scale that quieter recordings are raised to


class SpeakerEncoder(nn.Module):
    """Three LSTM layers over mel frames; the last state, projected, rectified and normalised."""

    filters: Tensor
    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(BANDS, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.register_buffer("filters", torch.from_numpy(mel_filters()), persistent=False)
        self.register_buffer("window", torch.hann_window(N_FFT), persistent=False)

    @classmethod
    def pretrained(cls, path: Path | None = None) -> "SpeakerEncoder":
        """Load the weights that the resemblyzer package carries. Raises MissingVoiceError."""
        path = path or package_file("resemblyzer", "pretrained.pt")
        stored = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
        encoder = cls()
        encoder.load_state_dict({name: stored[name] for name in encoder.state_dict()})
        return encoder.eval().requires_grad_(False)

    def forward(self, mels: Tensor) -> Tensor:
        """Mels (B, 160, 40) -> embeddings (B, 256)."""
        _, (state, _) = self.lstm(mels)
        return nn.functional.normalize(torch.relu(self.linear(state[-1])), dim=-1)

    def mel(self, wave: Tensor) -> Tensor:
        """Samples (T,) at 16 kHz -> power mels (T // 160 + 1, 40); not logarithmic."""
        spectrum = torch.stft(wave, N_FFT, HOP, window=self.window, pad_mode="constant", return_complex=True)
        return (self.filters @ spectrum.abs().square()).mT

    @torch.inference_mode()
    def embed(self, samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
        """Embed a recording of any length above nothing: the mean over overlapping windows, (256,)."""
        speech = sound.speech_only(sound.resample(samples, rate, RATE), RATE)
        power = 10 * np.log10(float(np.mean(np.square(speech))) + 1e-12)
        wave = torch.from_numpy(speech * np.float32(10 ** (max(0.0, LEVEL - power) / 20)))
        starts = window_starts(len(wave) // HOP + 1)
        wave = nn.functional.pad(wave, (0, max(0, (starts[-1] + WINDOW) * HOP - len(wave))))
        mels = self.mel(wave)
        mean = self(torch.stack([mels[start : start + WINDOW] for start in starts])).mean(0)
        out: NDArray[np.float32] = nn.functional.normalize(mean, dim=0).numpy()
        return out


def window_starts(frames: int) -> list[int]:
    """First frames of the windows; a last one that would be more than a quarter empty is left out."""
    starts = list(range(0, max(1, frames - WINDOW + STEP + 1), STEP))
    if len(starts) > 1 and frames - starts[-1] < 0.75 * WINDOW:
        starts.pop()
    return starts


def mel_filters() -> NDArray[np.float32]:
    """Triangular filters of unit area on Slaney's mel scale (linear to 1 kHz, then logarithmic): (40, 201)."""
    steps = np.linspace(0, mel_of(RATE / 2), BANDS + 2)
    edges = np.where(steps < 15, steps * 200 / 3, 1000 * np.exp((steps - 15) * np.log(6.4) / 27))  # Hz
    bins = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    height = 2 / (edges[2:] - edges[:-2])
    filters: NDArray[np.float32] = (np.maximum(0, np.minimum(rise, fall)) * height[:, None]).astype(np.float32)
    return filters


def mel_of(hertz: float) -> float:
    """Slaney's mel of a frequency at or above 1 kHz."""
    return float(15 + 27 * np.log(hertz / 1000) / np.log(6.4))
