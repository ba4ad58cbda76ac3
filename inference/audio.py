"""Reads prompt recordings by really decoding them, judges them, and writes WAV; the sole owner of the audio library.

The type is told from the content, never from a name or a header, and decides which single demuxer may look at the
bytes. Decoding stops soon after the longest length allowed, so a small file that unpacks to hours costs no more than
an honest one.
"""

import hashlib
import io
import struct
from collections.abc import Callable
from dataclasses import dataclass

import av  # noqa: TID251
import numpy as np
from av import AudioFrame, AudioResampler  # noqa: TID251
from av.audio.stream import AudioStream  # noqa: TID251
from av.container import InputContainer  # noqa: TID251
from numpy.typing import NDArray

from inference.errors import ServiceError

Samples = NDArray[np.float32]  # mono, -1..1

FIELD = "prompt_audio"
SHORTEST, LONGEST = 3.0, 30.0  # seconds
LOWEST_RATE, HIGHEST_RATE = 16_000, 384_000  # Hz; below the first the engines' speaker encoders have too little
CHANNELS = 8
WAV_HEADER = 44  # bytes
FRAME = 0.02  # seconds of one loudness measurement
SOUND, QUIET = -50.0, -35.0  # dBFS: what counts as sound at all; below which speech is called quiet
SOUND_NEEDED = 1.0  # seconds
FULL_SCALE = 0.999  # where 16-bit recorders and lossy codecs put a cut-off peak
CLIPPED_WARN, CLIPPED_REFUSE = 0.001, 0.03  # share of all samples that lie in cut-off peaks
DAMAGED = 0.05  # share of packets that may fail to decode
STREAMED = 0x7F00_0000  # bytes; a WAV that states more was written to a pipe, its length unknown
MISSING = 0.5  # seconds that may lack of the length the header promises (encoder delay, last frame)


@dataclass(frozen=True, slots=True)
class Recording:
    """A prompt that passed: mono samples, at no less than 16 kHz, and the sha256 (hex) of the bytes it came from."""

    samples: Samples
    sample_rate: int  # Hz
    digest: str

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.sample_rate


@dataclass(frozen=True, slots=True)
class _Decoded:
    samples: Samples
    sample_rate: int
    promised: float  # seconds, by the header; 0 = not said
    packets: int
    damaged: int


def read_prompt(data: bytes, warn: Callable[[str], None]) -> Recording:
    """Decode and judge a prompt; ``warn`` is told in words what is usable but not good.

    Raises ServiceError: 415 for what is no audio, 422 for audio that cannot serve as a prompt. (Size is judged where
    bytes are received.)
    """
    if not data:
        raise _refuse("prompt_empty", "The prompt recording is empty (0 bytes).")
    kind = demuxer(data)
    if kind == "wav":
        _judge_riff(data)
    decoded = _decode(data, kind)
    samples, rate = decoded.samples, decoded.sample_rate
    _judge_wholeness(decoded)
    _judge_length(len(samples) / rate)
    if rate < LOWEST_RATE:
        warn(f"the prompt has {rate} Hz; 16000 Hz or more sounds better (it was resampled)")
        samples, rate = resample(samples, rate, LOWEST_RATE), LOWEST_RATE
    _judge_loudness(samples, rate, warn)
    _judge_clipping(samples, warn)
    return Recording(samples, rate, hashlib.sha256(data).hexdigest())


def demuxer(data: bytes) -> str:
    """Name the one demuxer for these bytes by their magic numbers. Raises ServiceError 415."""
    head = data[:16]
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return "wav"
    if head[:4] == b"fLaC":
        return "flac"
    if head[:4] == b"OggS":
        return "ogg"
    if head[4:8] == b"ftyp":
        return "mov"
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "matroska"
    # An MPEG frame begins with eleven ones; layer bits 00 there mean AAC in ADTS (ISO 13818-7), not MP3.
    if head[:3] == b"ID3" or (head[:1] == b"\xff" and len(head) > 1 and head[1] & 0xE0 == 0xE0 and head[1] & 0x06):
        return "mp3"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        return "aac"
    raise ServiceError(
        415,
        "prompt_type",
        "The prompt is no audio of a kind known here: WAV, FLAC, Ogg (Vorbis, Opus), MP3, M4A, AAC or WebM.",
        FIELD,
    )


def _decode(data: bytes, kind: str) -> _Decoded:
    """Decode until the end or just past LONGEST; whatever the library stumbles over is a refusal."""
    try:
        with av.open(io.BytesIO(data), mode="r", format=kind, metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise _refuse("prompt_no_audio", "The file holds no audio.")
            stream = container.streams.audio[0]
            if stream.codec_context is None:
                raise _refuse("prompt_format", "The prompt is coded in a way that cannot be decoded here.")
            stream.codec_context.thread_count = 1
            return _drain(container, stream, _promised(data, kind, container, stream))
    except (av.FFmpegError, ValueError, OverflowError, MemoryError) as error:
        raise _refuse("prompt_damaged", f"The prompt cannot be decoded as {kind}: {_words(error)}.") from None


def _drain(container: InputContainer, stream: AudioStream, promised: float) -> _Decoded:
    pieces: list[Samples] = []
    rate = packets = damaged = got = 0
    floats: AudioResampler | None = None
    for packet in container.demux(stream):
        packets += 1
        try:
            frames = packet.decode()
        except av.InvalidDataError:
            damaged += 1
            continue
        for frame in frames:
            if floats is None:
                rate = _supported(frame.sample_rate, frame.layout.nb_channels)
                floats = AudioResampler(format="fltp", rate=rate)
            for piece in floats.resample(frame):
                # A plain mean: the library's own mix to mono adds channels up, and then peaks look cut off.
                pieces.append(piece.to_ndarray().mean(axis=0))
                got += piece.samples
        if rate and got > (LONGEST + MISSING) * rate:
            break
    samples = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
    return _Decoded(samples.astype(np.float32, copy=False), rate or LOWEST_RATE, promised, packets, damaged)


def _supported(rate: int, channels: int) -> int:
    if 0 < rate <= HIGHEST_RATE and 0 < channels <= CHANNELS:
        return rate
    raise _refuse("prompt_format", f"A prompt of {rate} Hz with {channels} channels is not supported.")


def _promised(data: bytes, kind: str, container: InputContainer, stream: AudioStream) -> float:
    """Return the length in seconds that the file's own header states, 0 where the library only estimates it.

    WAV was judged before; Ogg and ADTS state none; MP3 does in a Xing, Info or VBRI frame, the first one behind an
    ID3 tag.
    """
    if kind in ("wav", "ogg", "aac"):
        return 0.0
    if kind == "mp3":
        start = 10 + sum((byte & 0x7F) << shift for byte, shift in zip(data[6:10], (21, 14, 7, 0), strict=False))
        first = data[start : start + 256] if data[:3] == b"ID3" else data[:256]
        if not any(mark in first for mark in (b"Xing", b"Info", b"VBRI")):
            return 0.0
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return container.duration / av.time_base if container.duration else 0.0


def _words(error: Exception) -> str:
    return error.strerror if isinstance(error, av.FFmpegError) and error.strerror else str(error)


def _refuse(code: str, message: str) -> ServiceError:
    return ServiceError(422, code, message, FIELD)


def _judge_riff(data: bytes) -> None:
    """Compare a WAV's size with the one it states; a recorder that could not know it wrote a very large one, or 0."""
    stated = int.from_bytes(data[4:8], "little") + 8
    if len(data) * 1.02 < stated < STREAMED:
        raise _refuse("prompt_truncated", f"The prompt is cut off: {len(data)} of {stated} bytes are there.")


def _judge_wholeness(decoded: _Decoded) -> None:
    if decoded.damaged > DAMAGED * decoded.packets:
        raise _refuse("prompt_damaged", f"{decoded.damaged} of {decoded.packets} packets of the prompt are damaged.")
    duration = len(decoded.samples) / decoded.sample_rate
    if duration <= LONGEST and decoded.promised - duration > MISSING:
        raise _refuse(
            "prompt_truncated",
            f"The prompt is cut off: its header says {decoded.promised:.1f} s, {duration:.1f} s are there.",
        )
    if not np.isfinite(decoded.samples).all():
        raise _refuse("prompt_damaged", "The prompt holds samples that are no numbers (NaN or infinity).")


def _judge_length(duration: float) -> None:
    if duration < SHORTEST:
        raise _refuse("prompt_too_short", f"The prompt is {duration:.1f} s long; at least {SHORTEST:.0f} s are needed.")
    if duration > LONGEST:
        raise _refuse("prompt_too_long", f"The prompt is longer than {LONGEST:.0f} s; cut it, 5 to 10 s are best.")


def _judge_loudness(samples: Samples, rate: int, warn: Callable[[str], None]) -> None:
    frame = int(rate * FRAME)
    whole = samples[: len(samples) // frame * frame].reshape(-1, frame).astype(np.float64)
    levels = 10 * np.log10(np.mean(whole**2, axis=1) + 1e-12)
    sound = levels[levels > SOUND]
    heard = len(sound) * FRAME
    if heard < SOUND_NEEDED:
        raise _refuse("prompt_silent", f"The prompt is silent: only {heard:.1f} s of it are above {SOUND:.0f} dBFS.")
    level = 10 * np.log10(np.mean(10 ** (sound / 10)))
    if level < QUIET:
        warn(f"the prompt is quiet ({level:.0f} dBFS); record closer to the microphone")


def _judge_clipping(samples: Samples, warn: Callable[[str], None]) -> None:
    """Count samples in cut-off peaks: three or more at full scale in a row, which honest peaks hardly ever are."""
    high = np.abs(samples) >= FULL_SCALE
    middle = high[1:-1] & high[:-2] & high[2:]
    share = float(np.mean(middle)) if len(middle) else 0.0
    if share > CLIPPED_REFUSE:
        raise _refuse("prompt_clipped", f"The prompt is overdriven: {share:.0%} of it is cut off; record softer.")
    if share > CLIPPED_WARN:
        warn(f"the prompt is slightly overdriven ({share:.1%} of it is cut off)")


def resample(samples: Samples, rate: int, wanted: int) -> Samples:
    """Return mono ``samples`` taken at ``rate`` Hz as they would be at ``wanted`` Hz."""
    if rate == wanted:
        return samples
    frame = AudioFrame.from_ndarray(np.ascontiguousarray(samples[np.newaxis]), format="flt", layout="mono")
    frame.sample_rate = rate
    swift = AudioResampler(format="flt", layout="mono", rate=wanted)
    pieces = [piece.to_ndarray()[0] for given in (frame, None) for piece in swift.resample(given)]
    return np.concatenate(pieces)


def encode_wav(samples: Samples, sample_rate: int) -> bytes:
    """Return mono 16-bit PCM as a WAV file. Raises ServiceError 500 on NaN, which must never pass for silence."""
    if not np.isfinite(samples).all():
        raise ServiceError(500, "engine_nan", "The engine made samples that are no numbers; please report this.")
    pcm = np.rint(np.clip(samples, -1.0, 1.0) * 32767).astype("<i2").tobytes()
    return wav_header(len(pcm), sample_rate) + pcm


def wav_header(size: int, sample_rate: int) -> bytes:
    """Return the 44 bytes before ``size`` bytes of mono 16-bit PCM (Microsoft's RIFF specification, format 1)."""
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", WAV_HEADER - 8 + size, b"WAVE", b"fmt ", 16, 1, 1, sample_rate, sample_rate * 2, 2, 16),
        *(b"data", size),
    )
