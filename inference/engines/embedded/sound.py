"""Plain signal work on mono float samples: resampling, silence, and the pitch of a voice."""

from math import gcd

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

FLOOR = 10 ** (-40 / 20)  # sound this far below the loudest 10 ms counts as silence
PITCH_RANGE = (60.0, 500.0)  # Hz, of speech
PITCH_FRAME = 0.025  # s; speech tones glide half an octave in 60 ms, so no longer
PITCH_STEP = 0.01  # s
APERIODIC = 0.4  # YIN's difference above which a frame has no pitch


def resample(x: Samples, old: int, new: int) -> Samples:
    """Change the rate by cutting or padding the spectrum: exact below the lower Nyquist. len -> about len*new/old."""
    if old == new:
        return x
    unit = old // gcd(old, new)  # whole numbers of samples before and after
    padded = np.pad(x, (0, -len(x) % unit))
    size = len(padded) // unit * (new // gcd(old, new))
    spectrum = np.fft.rfft(padded)[: size // 2 + 1]
    out = np.fft.irfft(spectrum, size) * (new / old)
    return out[: -(-len(x) * new // old)].astype(np.float32)


def levels(x: Samples, step: int) -> NDArray[np.float32]:
    """Root mean square of each ``step`` samples; the last frame may be short."""
    padded = np.pad(x, (0, -len(x) % step)).reshape(-1, step)
    out: NDArray[np.float32] = np.sqrt(np.mean(np.square(padded), axis=1))
    return out


def trim(x: Samples, rate: int, before: float, after: float) -> Samples:
    """Cut silence off both ends, leaving ``before`` and ``after`` seconds of it where there was as much."""
    step = rate // 100
    loud = np.flatnonzero(levels(x, step) > FLOOR * max(levels(x, step).max(initial=0), 1e-6))
    if not len(loud):
        return x[:0]
    start = max(0, loud[0] * step - round(before * rate))
    stop = (loud[-1] + 1) * step + round(after * rate)
    return x[start:stop]


def speech_only(x: Samples, rate: int, keep: float = 0.2) -> Samples:
    """Cut silence down to ``keep`` seconds on either side of speech, in the middle too; leave a silent recording."""
    step = rate * 3 // 100
    level = levels(x, step)
    loud = level > FLOOR * np.percentile(level, 95)
    reach = 2 * max(1, round(keep / 0.03)) + 1
    near = np.convolve(loud, np.ones(reach), mode="same") > 0.5
    kept = x[np.repeat(near[: len(level)], step)[: len(x)]]
    return kept if len(kept) else x


def pitch(x: Samples, rate: int, aperiodic: float = APERIODIC) -> NDArray[np.float64]:
    """Fundamental frequency in Hz every 10 ms, 0 where there is none: YIN (de Cheveigne & Kawahara 2002)."""
    low, high = (round(rate / hertz) for hertz in reversed(PITCH_RANGE))
    size, step = round(PITCH_FRAME * rate), round(PITCH_STEP * rate)
    if len(x) < size + high:
        return np.zeros(0)
    frames = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), size + high)[::step]  # (F, size + high)
    lags = np.arange(high + 1)
    spectrum = np.fft.rfft(frames, 2 * (size + high))
    head = np.fft.rfft(frames[:, :size], 2 * (size + high))
    product = np.fft.irfft(spectrum * head.conj())[:, : high + 1]  # (F, lags): sum of x[t] x[t + lag]
    energy = np.cumsum(np.pad(np.square(frames), ((0, 0), (1, 0))), axis=1)
    moved = energy[:, size + lags] - energy[:, lags]
    difference = np.maximum(moved[:, :1] + moved - 2 * product, 0)
    mean = np.cumsum(difference[:, 1:], axis=1) / lags[1:]
    normal = np.ones_like(difference)
    np.divide(difference[:, 1:], mean, out=normal[:, 1:], where=mean > 1e-9)
    loud = moved[:, 0] > FLOOR**2 * moved[:, 0].max()
    return np.array([frequency(row, low, rate, aperiodic) if ok else 0.0 for row, ok in zip(normal, loud, strict=True)])


def frequency(normal: NDArray[np.float64], low: int, rate: int, aperiodic: float) -> float:
    """Pitch of one frame from its normalised difference by lag: the first dip, refined by a parabola; 0 = none."""
    below = np.flatnonzero(normal[low:] < aperiodic)
    if not len(below):
        return 0.0
    lag = low + int(below[0])
    while lag + 1 < len(normal) and normal[lag + 1] < normal[lag]:
        lag += 1
    if lag + 1 == len(normal):
        return rate / lag
    left, centre, right = normal[lag - 1 : lag + 2]
    bend = left - 2 * centre + right
    return float(rate / (lag + (0.5 * (left - right) / bend if bend > 0 else 0.0)))


def median_pitch(x: Samples, rate: int) -> float:
    """Median pitch of the voiced frames in Hz; 0 where nothing is voiced."""
    found = pitch(x, rate, aperiodic=APERIODIC / 2)  # glides may be missed here, doubtful frames should be
    voiced = found[found > 0]
    return float(np.median(voiced)) if len(voiced) else 0.0
