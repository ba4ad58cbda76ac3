"""Prompts are judged by decoding them: every container people send, and every way in which a recording is unfit."""

import io
import math
import struct

import av
import numpy as np
import pytest

from inference import audio
from inference.errors import ServiceError
from tests.inference.conftest import RATE, encoded, voice, wav


def refusal(data: bytes) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        audio.read_prompt(data, lambda word: None)
    assert caught.value.field == "prompt_audio"
    return caught.value


def read(data: bytes) -> tuple[audio.Recording, list[str]]:
    warnings: list[str] = []
    return audio.read_prompt(data, warnings.append), warnings


def test_wav_round_trip_is_exact_to_16_bits() -> None:
    recording, warnings = read(wav())
    assert warnings == []
    assert recording.sample_rate == RATE
    assert np.abs(recording.samples - voice()).max() < 1 / 32000
    assert recording.duration == 4.0
    assert len(recording.digest) == 64


@pytest.mark.parametrize(
    ("container", "codec", "rate"),
    [
        ("flac", "flac", 24000),
        ("mp3", "libmp3lame", 24000),
        ("ogg", "libopus", 48000),
        ("webm", "libopus", 48000),
        ("mp4", "aac", 44100),
        ("adts", "aac", 44100),
        ("wav", "pcm_f32le", 16000),
        ("wav", "pcm_s24le", 48000),
        ("wav", "pcm_mulaw", 16000),
    ],
)
def test_every_container_is_told_by_its_content(container: str, codec: str, rate: int) -> None:
    recording, warnings = read(encoded(container, codec, rate))
    assert recording.sample_rate == rate
    assert math.isclose(recording.duration, 4.0, abs_tol=0.15)
    assert warnings == []


def test_stereo_is_mixed_down() -> None:
    left = np.rint(voice() * 32767).astype("<i2")
    both = np.column_stack([left, left]).tobytes()
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(both), b"WAVE", b"fmt ", 16, 1, 2, RATE,
                         RATE * 4, 4, 16, b"data", len(both))  # fmt: skip
    recording, _ = read(header + both)
    assert np.abs(recording.samples - voice()).max() < 1 / 16000


def test_below_16_khz_is_resampled_with_a_warning() -> None:
    recording, warnings = read(wav(rate=8000))
    assert recording.sample_rate == 16000
    assert math.isclose(recording.duration, 4.0, abs_tol=0.01)
    assert len(warnings) == 1 and "8000 Hz" in warnings[0]


def test_lengths() -> None:
    assert read(wav(3.0))[0].duration == 3.0
    assert read(wav(30.0))[0].duration == 30.0
    assert refusal(wav(2.9)).code == "prompt_too_short"
    assert refusal(wav(30.2)).code == "prompt_too_long"


def test_a_bomb_costs_no_more_than_thirty_seconds() -> None:
    hours = np.zeros(16000 * 3600, np.float32)
    bomb = encoded("flac", "flac", 16000, hours)
    assert len(bomb) < 1_000_000
    assert refusal(bomb).code == "prompt_too_long"


def test_silence_quiet_and_overdriven() -> None:
    assert refusal(wav(level=0.0)).code == "prompt_silent"
    assert refusal(wav(level=0.001)).code == "prompt_silent"
    assert "quiet" in read(wav(level=0.015))[1][0]
    assert refusal(audio.encode_wav(np.clip(voice() * 30, -1, 1), RATE)).code == "prompt_clipped"
    slightly = voice() * 3.4
    assert "overdriven" in read(audio.encode_wav(np.clip(slightly, -1, 1), RATE))[1][0]


def test_nan_samples_are_damage() -> None:
    sound = voice()
    sound[1000] = np.nan
    assert refusal(encoded("wav", "pcm_f32le", RATE, sound)).code == "prompt_damaged"


@pytest.mark.parametrize(("container", "codec"), [("wav", "pcm_s16le"), ("flac", "flac"), ("mp3", "libmp3lame"),
                                                  ("mp4", "aac"), ("webm", "libopus")])  # fmt: skip
def test_truncated_files_are_refused(container: str, codec: str) -> None:
    whole = encoded(container, codec, 48000, voice(10.0, 48000))
    assert read(whole)[0].duration == pytest.approx(10.0, abs=0.15)
    assert refusal(whole[: len(whole) // 2]).code in ("prompt_truncated", "prompt_damaged")


def test_a_wav_written_to_a_pipe_states_no_length() -> None:
    piped = bytearray(wav())
    piped[4:8] = piped[40:44] = b"\xff\xff\xff\xff"
    assert read(bytes(piped))[0].duration == 4.0


def test_what_is_no_audio() -> None:
    assert refusal(b"").code == "prompt_empty"
    for other in (b"#EXTM3U\n", b"\x89PNG\r\n\x1a\n" + b"\0" * 100, b"%PDF-1.7", b"hello", b"PK\x03\x04", b"\0" * 5000):
        error = refusal(other)
        assert (error.status, error.code) == (415, "prompt_type")


@pytest.mark.parametrize(
    "data",
    [
        b"RIFF\xff\xff\xff\xffWAVE" + b"\0" * 1000,
        b"RIFF\x24\0\0\0WAVEfmt \xff\xff\xff\xff" + b"\1" * 3000,
        b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + b"\0" * 5000,
        b"ID3" + b"\xff" * 3000,
        b"OggS" + b"x" * 5000,
        b"\xff\xfb" + b"\x90" * 10000,
        b"\0\0\0\x20ftypM4A " + b"a" * 500,
        b"\x1a\x45\xdf\xa3" + b"c" * 500,
        b"fLaC" + b"\0" * 1000,
        wav()[:44],
        b"RIFF",
        b"\xff",
    ],
)
def test_hostile_headers_are_refused(data: bytes) -> None:
    assert refusal(data).status in (415, 422)


def test_header_with_senseless_rate_or_channels() -> None:
    good = bytearray(wav())
    for offset, form, value in ((22, "<H", 60000), (24, "<I", 0), (24, "<I", 4_000_000_000), (34, "<H", 0)):
        bad = bytearray(good)
        struct.pack_into(form, bad, offset, value)
        assert refusal(bytes(bad)).status == 422


def test_a_video_without_sound_is_refused() -> None:
    sink = io.BytesIO()
    with av.open(sink, "w", format="mp4") as output:
        stream = output.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        output.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")))
        output.mux(stream.encode(None))
    assert refusal(sink.getvalue()).code == "prompt_no_audio"


def test_a_huge_tag_does_no_harm() -> None:
    body = b"T" * 3_000_000
    frame = b"TXXX" + bytes([(len(body) >> s) & 0x7F for s in (21, 14, 7, 0)]) + b"\0\0" + body
    tag = b"ID3\x04\0\0" + bytes([(len(frame) >> s) & 0x7F for s in (21, 14, 7, 0)]) + frame
    plain = encoded("mp3", "libmp3lame", 24000)
    size = 10 + sum(b << s for b, s in zip(plain[6:10], (21, 14, 7, 0), strict=True))
    recording, _ = read(tag + plain[size:])
    assert math.isclose(recording.duration, 4.0, abs_tol=0.15)


def test_encode_refuses_nan_and_clips() -> None:
    with pytest.raises(ServiceError, match="no numbers"):
        audio.encode_wav(np.array([np.nan], np.float32), RATE)
    out = audio.encode_wav(np.array([2.0, -2.0, 0.5], np.float32), RATE)
    assert np.frombuffer(out[44:], "<i2").tolist() == [32767, -32767, 16384]
    assert out[:4] == b"RIFF" and out[8:16] == b"WAVEfmt " and struct.unpack("<I", out[40:44])[0] == 6
