"""The embedded engine whole: real weights, durations against the export's own graph, tones, likeness, repetition."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from inference.engines import ENGINES, create
from inference.engines.contract import EngineError, Prompt, Utterance
from inference.engines.embedded import EmbeddedEngine, sound, weights
from inference.engines.embedded.decoder import RATE
from inference.engines.embedded.engine import amplified, bent
from inference.engines.embedded.instruct import Manner
from inference.engines.embedded.kokoro import Kokoro, Performance
from inference.engines.embedded.voices import DEFAULTS, LANGUAGES, Role

Samples = NDArray[np.float32]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEngine]:
    """Loaded twice, so that what the tests hear comes out of the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERENCE_CACHE", str(tmp_path_factory.mktemp("cache")))
        weights.load()
        patch.setattr(weights, "convert", lambda: pytest.fail("the second start converted again"))
        made = create("embedded")
        assert isinstance(made, EmbeddedEngine)
        made.load("cpu")
        yield made
        made.close()


def say(engine: EmbeddedEngine, text: str, **how: object) -> tuple[Samples, list[str]]:
    told: list[str] = []
    return np.concatenate(list(engine.speak(Utterance(text, **how), told.append))), told  # type: ignore[arg-type]


def acted(engine: EmbeddedEngine, symbols: str, voice: str) -> Performance:
    assert engine._model is not None
    ids = [engine._frontend.alphabet[symbol] for symbol in symbols]
    return engine._model.perform(ids, role(engine, voice).manner(len(ids)))


def role(engine: EmbeddedEngine, voice: str) -> Role:
    """A stock voice in its own language."""
    return engine._voices.role(engine._voices.stock(voice), LANGUAGES[voice[0]])


def likeness(engine: EmbeddedEngine, one: Samples, other: Samples) -> float:
    return float(engine._encoder.embed(one, RATE) @ engine._encoder.embed(other, RATE))


def test_engine_is_listed() -> None:
    assert "embedded" in ENGINES
    with pytest.raises(KeyError):
        create("no such engine")


def test_speaking_before_load_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="before load"):
        EmbeddedEngine().speak(Utterance("hello"), print)


@pytest.mark.parametrize(
    ("text", "voice"),
    [
        ("The quick brown fox jumps over the lazy dog, and then it runs away.", "af_heart"),
        ("今天天气很好。", "zf_xiaobei"),
    ],
)
def test_durations_are_those_of_the_export(engine: EmbeddedEngine, text: str, voice: str) -> None:
    """One wrong axis in the conversion gives fluent nonsense; the durations show it. onnxruntime is the reference."""
    phrase = engine._frontend.phrases(text, "", False, print)[0]
    ids = [engine._frontend.alphabet[symbol] for symbol in phrase.symbols]
    own = role(engine, voice)
    expected = export_frames(ids, torch.cat([own.colour, own.manner(len(ids))]).numpy())
    got = acted(engine, phrase.symbols, voice).frames.numpy()
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 1  # the export rounds its activations to 8 bits
    assert abs(got.sum() - expected.sum()) <= 0.02 * expected.sum()


def export_frames(ids: list[int], voice: Samples) -> NDArray[np.int64]:
    """Frames a symbol, out of the int8 graph run as it is."""
    import onnx
    import onnxruntime

    with tempfile.NamedTemporaryFile(suffix=".onnx") as whole:
        for package in weights.PARTS:
            whole.write(weights.package_file(package, "part.bin").read_bytes())
        whole.flush()
        graph = onnx.load(whole.name)
    name = "/encoder/Cast_output_0"  # round, clip, cast: the durations
    graph.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, None))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {"tokens": np.array([[0, *ids, 0]]), "style": voice[None], "speed": np.ones(1, np.float32)}
    return np.asarray(session.run([name], given)[0]).reshape(-1)


def test_a_frame_is_six_hundred_samples(engine: EmbeddedEngine) -> None:
    act = acted(engine, "həlˈO wˈɜɹld.", "af_heart")
    assert engine._model is not None
    wave = engine._model.sound(act, role(engine, "af_heart").colour, torch.Generator().manual_seed(1))
    assert len(wave) == 600 * int(act.frames.sum())
    assert 0.5 * RATE < len(sound.trim(wave.numpy(), RATE, 0, 0)) < 2 * RATE
    assert act.pitch.shape == act.energy.shape == (2 * int(act.frames.sum()),)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half a file"])
def test_damaged_cache_is_made_again(damage: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFERENCE_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "convert", lambda: {"a": torch.ones(2)})
    weights.load()
    (cached,) = tmp_path.iterdir()
    cached.write_bytes(damage)
    assert torch.equal(weights.load()["a"], torch.ones(2))
    assert torch.equal(torch.load(cached, weights_only=True)["a"], torch.ones(2).half())


def test_a_start_without_a_writable_cache_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("INFERENCE_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(weights, "convert", lambda: {"a": torch.ones(2)})
    assert list(weights.load()) == ["a"]
    assert "every start will convert" in caplog.text


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("你好，欢迎使用语音合成服务。", 2.0, 5.0),
        ("Good morning, everybody.", 1.0, 2.6),
        ("今日はいい天気ですね。", 1.2, 3.2),
    ],
)
def test_length_of_speech_is_plausible_in_each_language(
    engine: EmbeddedEngine, text: str, low: float, high: float
) -> None:
    wave, told = say(engine, text)
    assert low < len(wave) / RATE < high
    assert wave.dtype == np.float32 and 0.05 < np.abs(wave).max() <= 1
    assert told == []


def test_silence_is_trimmed_at_both_ends(engine: EmbeddedEngine) -> None:
    wave, _ = say(engine, "你好，再见。")
    speech = sound.trim(wave, RATE, 0, 0)
    assert len(wave) - len(speech) <= 0.32 * RATE


def test_same_seed_same_bytes_other_seed_other_bytes(engine: EmbeddedEngine) -> None:
    first, again, other = (say(engine, "你好。", seed=seed)[0] for seed in (7, 7, 8))
    assert first.tobytes() == again.tobytes()
    assert first.shape == other.shape and first.tobytes() != other.tobytes()


def test_global_random_state_is_neither_used_nor_moved(engine: EmbeddedEngine) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = say(engine, "Hello.")[0]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert say(engine, "Hello.")[0].tobytes() == one.tobytes()


@pytest.mark.parametrize("voice", ["zf_xiaobei", "zf_xiaoxiao"])
def test_tones_are_spoken(engine: EmbeddedEngine, voice: str) -> None:
    """The syllable ma in a carrier sentence (我说 … 这个字): high and level, rising, low, falling."""
    level, rising, low, falling = (ma_contour(engine, voice, arrow) for arrow in "→↗↓↘")
    assert abs(change(level)) < 2
    assert change(rising) > 2
    assert change(falling) < -3
    assert np.mean(level) - np.mean(low) > 3
    assert np.mean(low) == min(np.mean(curve) for curve in (level, rising, low, falling))


def ma_contour(engine: EmbeddedEngine, voice: str, arrow: str) -> NDArray[np.float64]:
    """Pitch of the vowel in semitones, every 10 ms."""
    before, after = "wo↓ ʂwo→ ", " ꭧɤ↘kɤ ʦɨ↘."
    act = acted(engine, f"{before}ma{arrow}{after}", voice)
    m_ends, a_ends, tone_ends = np.cumsum(act.frames.numpy())[len(before) + 1 : len(before) + 4] * 600
    assert engine._model is not None
    wave = engine._model.sound(act, role(engine, voice).colour, torch.Generator().manual_seed(1)).numpy()
    window = round((sound.PITCH_FRAME + 1 / sound.PITCH_RANGE[0]) * RATE)  # that one value of the tracker looks at
    # the second half of the tone symbol already leans to the next syllable
    curve = sound.pitch(wave[m_ends - window // 2 : (a_ends + tone_ends) // 2 + window // 2], RATE)
    assert np.count_nonzero(curve) >= 6
    return 12 * np.log2(curve[curve > 0])


def change(semitones: NDArray[np.float64]) -> float:
    """From the first to the last 30 ms."""
    return float(np.median(semitones[-3:]) - np.median(semitones[:3]))


@pytest.fixture(scope="module")
def stranger(engine: EmbeddedEngine) -> Prompt:
    """A prompt recording: a low British voice, unlike each default voice."""
    samples = say(engine, "Please close the window, it is rather windy outside today.", voice="bm_george")[0]
    return Prompt(samples, RATE, digest="stranger")


@pytest.mark.parametrize(
    "text", ["收到好友从远方寄来的生日礼物。", "I have never said this sentence before.", "明日は雨が降るでしょう。"]
)
def test_cloned_voice_is_nearer_to_the_prompt_than_the_stock_voice(
    engine: EmbeddedEngine, stranger: Prompt, text: str
) -> None:
    cloned, told = say(engine, text, prompt=stranger)
    stock, _ = say(engine, text)
    assert told == []
    assert likeness(engine, cloned, stranger.samples) > likeness(engine, stock, stranger.samples) + 0.1
    target = sound.median_pitch(stranger.samples, RATE)
    assert abs(12 * np.log2(sound.median_pitch(cloned, RATE) / target)) < 3


def test_prompt_at_another_rate_is_the_same_speaker(engine: EmbeddedEngine, stranger: Prompt) -> None:
    other = sound.resample(stranger.samples, RATE, 44_100)
    one, two = (engine._encoder.embed(x, rate) for x, rate in ((stranger.samples, RATE), (other, 44_100)))
    assert float(one @ two) > 0.98


def test_embeddings_of_the_bank_are_those_of_its_voices(engine: EmbeddedEngine) -> None:
    """The bank fits the weights in use: a voice heard now is nearest to its own entry."""
    wave, _ = say(engine, "The weather is lovely today, so let us walk to the park.", voice="am_michael")
    cosines = engine._voices.embeddings @ engine._encoder.embed(wave, RATE)
    assert engine._voices.names[int(np.argmax(cosines))] == "am_michael"
    assert len(engine.voices) == 54 and set(DEFAULTS.values()) <= set(engine.voices)


def test_instructions_bend_length_and_pitch(engine: EmbeddedEngine) -> None:
    plain, fast, happy, sad, whisper = (
        say(engine, "我们明天去公园散步。", instruct=words)[0]
        for words in ("", "快速播报", "用兴奋的语气说这句话", "悲伤地念出", "whisper")
    )
    assert len(fast) < 0.9 * len(plain) < 0.95 * len(sad)
    middle = sound.median_pitch(plain, RATE)
    assert sound.median_pitch(happy, RATE) > 1.1 * middle
    assert sound.median_pitch(sad, RATE) < 0.95 * middle
    voiced = [np.mean(sound.pitch(wave, RATE, aperiodic=0.15) > 0) for wave in (plain, whisper)]
    assert voiced[1] < 0.25 * voiced[0]


def test_speed_divides_the_length(engine: EmbeddedEngine) -> None:
    plain, double = (sound.trim(say(engine, "今天我们一起去公园里散步。", speed=s)[0], RATE, 0, 0) for s in (1.0, 2.0))
    assert 0.42 < len(double) / len(plain) < 0.68


def test_speed_beyond_the_voice_is_kept_within_and_told(engine: EmbeddedEngine) -> None:
    assert any("speed" in words for words in say(engine, "很好。", speed=1.9, instruct="快速播报")[1])


def test_what_cannot_be_honoured_is_told(engine: EmbeddedEngine, stranger: Prompt) -> None:
    _, told = say(
        engine, "好[laughter]。", instruct="用四川话愤怒地说", voice="af_heart", prompt=stranger, language="ja"
    )
    for named in ("四川话", "愤怒", "[laughter]", "af_heart"):
        assert any(named in words for words in told), named


@pytest.mark.parametrize(
    ("how", "code", "field"),
    [
        ({"text": "안녕"}, "unspeakable_text", "text"),
        ({"text": "hi", "voice": "nobody"}, "unknown_voice", "voice"),
        ({"text": "hi", "voice": "santa"}, "unknown_voice", "voice"),
        ({"text": "hi", "language": "fr"}, "unsupported_language", "language"),
        ({"text": "hi", "prompt": Prompt(np.zeros(48_000, np.float32), RATE)}, "unusable_prompt", "prompt_audio"),
    ],
)
def test_refused_input_names_its_field(engine: EmbeddedEngine, how: dict[str, object], code: str, field: str) -> None:
    with pytest.raises(EngineError) as caught:
        engine.speak(Utterance(**how), print)  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.field) == (code, field)


def test_long_text_comes_piece_by_piece(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    monkeypatch.setattr(Kokoro, "sound", lambda self, act, colour, generator: decoded.append(1) or torch.ones(24_000))
    pieces = engine.speak(Utterance("今天我们一起去公园里散步，然后回家吃饭。" * 8), print)
    assert decoded == []
    next(pieces)
    assert decoded == [1]
    assert len(list(pieces)) >= 3


def test_manner_is_taken_between_the_lengths_of_the_bank(engine: EmbeddedEngine) -> None:
    own = role(engine, "af_heart")
    assert torch.equal(own.manner(own.lengths[2]), own.manners[2])
    assert torch.equal(own.manner(1), own.manners[0]) and torch.equal(own.manner(500), own.manners[-1])
    between = own.manner((own.lengths[1] + own.lengths[2]) // 2)
    assert torch.allclose(between, (own.manners[1] + own.manners[2]) / 2, atol=1e-6)


def test_voice_may_be_named_without_its_prefix(engine: EmbeddedEngine) -> None:
    assert engine._voices.stock("alloy").name == "af_alloy"


def test_a_voice_of_another_language_keeps_its_pitch(engine: EmbeddedEngine) -> None:
    low = engine._voices.stock("am_onyx")
    assert not torch.equal(engine._voices.role(low, "zh").manners, role(engine, "am_onyx").manners)
    wave, _ = say(engine, "今天我们一起去公园里散步。", voice="am_onyx")
    assert abs(12 * np.log2(sound.median_pitch(wave, RATE) / low.pitch)) < 4


def test_bending_leaves_unvoiced_frames_alone() -> None:
    curve = torch.tensor([0.0, 100.0, 200.0, 400.0, 3.0])
    assert torch.allclose(bent(curve, 1.0, Manner()), curve)
    assert torch.allclose(bent(curve, 1.0, Manner(spread=0)), torch.tensor([0.0, 200.0, 200.0, 200.0, 3.0]))
    assert torch.allclose(bent(curve, 0.5, Manner(shift=12)), curve)
    assert not bent(curve, 1.0, Manner(whisper=True)).any()


def test_loudness_is_a_gain_that_never_clips() -> None:
    assert np.allclose(amplified(np.array([0.1, -0.2], np.float32), 1.8), [0.18, -0.36])
    assert np.abs(amplified(np.array([0.9, -0.5], np.float32), 3.0)).max() <= 1


def test_pitch_tracker_and_resampler_on_known_tones() -> None:
    t = np.arange(RATE) / RATE
    for hertz in (80.0, 150.0, 262.0, 400.0):
        tone = sum(np.sin(2 * np.pi * hertz * k * t) / k for k in range(1, 6)).astype(np.float32)
        assert abs(sound.median_pitch(tone, RATE) - hertz) < 0.01 * hertz
        moved = sound.resample(tone, RATE, 16_000)
        assert len(moved) == 16_000 and abs(sound.median_pitch(moved, 16_000) - hertz) < 0.01 * hertz
    noise = np.random.default_rng(1).standard_normal(RATE).astype(np.float32)
    assert np.mean(sound.pitch(noise, RATE) > 0) < 0.05


def test_english_is_read_back_word_for_word(engine: EmbeddedEngine, stranger: Prompt) -> None:
    pytest.importorskip("faster_whisper", reason="the recogniser is for checks only")
    from tests.inference.recognise import SENTENCES, recogniser, words

    transcribe = recogniser()
    ways = ({}, {"voice": "am_michael"}, {"voice": "zf_xiaobei"}, {"prompt": stranger}, {"instruct": "快速播报"})
    for text, way in zip(SENTENCES, ways, strict=True):
        assert words(transcribe(say(engine, text, **way)[0], RATE)) == words(text)
