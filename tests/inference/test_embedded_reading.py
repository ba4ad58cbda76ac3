"""The embedded voice's front ends: pinyin, tones in company, marks, numbers, and that no symbol is unknown."""

from pathlib import Path

import pytest

from inference.engines.embedded import arpabet, pinyin, weights
from inference.engines.embedded.frontend import LONGEST, Frontend, Phrase, packed, spoken_pinyin


@pytest.fixture(scope="module")
def alphabet() -> dict[str, int]:
    return weights.symbols()


@pytest.fixture(scope="module")
def frontend(alphabet: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Frontend:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERENCE_CACHE", str(tmp_path_factory.mktemp("cache")))  # jieba leaves its dictionary there
        return Frontend(alphabet)


def read(frontend: Frontend, text: str, hint: str = "") -> tuple[str, list[str]]:
    """All symbols of a text, joined by a bar, and what was warned of."""
    told: list[str] = []
    phrases = frontend.phrases(text, hint, False, told.append)
    return "|".join(phrase.symbols for phrase in phrases), told


@pytest.mark.parametrize(
    ("written", "symbols"),
    [
        ("ma1", "ma→"), ("ma2", "ma↗"), ("ma3", "ma↓"), ("ma4", "ma↘"), ("ma5", "ma"),
        ("zhi1", "ꭧɨ→"), ("si4", "sɨ↘"), ("er4", "ɚ↘"), ("ju2", "ʨy↗"), ("lv4", "ly↘"), ("nüe4", "nɥe↘"),
        ("you3", "jou↓"), ("yuan2", "ɥɛ↗n"), ("yi1", "i→"), ("yin1", "i→n"), ("ying1", "i→ŋ"), ("yu2", "y↗"),
        ("wu3", "u↓"), ("wei4", "wei↘"), ("weng1", "wə→ŋ"), ("liu2", "ljou↗"), ("gui4", "kwei↘"), ("lun2", "lwə↗n"),
        ("bo1", "pwo→"), ("xiong2", "ɕjʊ↗ŋ"), ("chuang2", "ꭧʰwa↗ŋ"), ("qun2", "ʨʰy↗n"), ("e4", "ɤ↘"), ("ng2", "ŋ↗"),
    ],
)  # fmt: skip
def test_pinyin_to_symbols(written: str, symbols: str) -> None:
    assert pinyin.ipa(pinyin.numbered(written)) == symbols


@pytest.mark.parametrize("written", ["", "x", "bong1x", "hao6", "好", "wong4"])
def test_no_such_syllable(written: str) -> None:
    assert pinyin.ipa(written) is None


def test_every_syllable_of_the_dictionary_is_in_the_alphabet(alphabet: dict[str, int]) -> None:
    from pypinyin.constants import PINYIN_DICT

    syllables = {pinyin.numbered(reading) for readings in PINYIN_DICT.values() for reading in readings.split(",")}
    assert len(syllables) > 1500
    assert [s for s in syllables if pinyin.ipa(s) is None] == ["wong4"]  # one rare variant that is no Mandarin syllable
    assert {c for s in syllables for c in pinyin.ipa(s) or ""} <= set(alphabet)


@pytest.mark.parametrize(
    ("written", "numbered"),
    [("hǎo", "hao3"), ("ào", "ao4"), ("lǜ", "lü4"), ("lv4", "lü4"), ("ma", "ma5"), ("ér", "er2")],
)
def test_tone_marks_become_digits(written: str, numbered: str) -> None:
    assert pinyin.numbered(written) == numbered


@pytest.mark.parametrize(
    ("text", "tones"),
    [
        ("你好", "23"),
        ("展览馆", "223"),
        ("我很好", "323"),
        ("不要", "24"),
        ("不对", "24"),
        ("不好", "43"),
        ("一个", "24"),
        ("一天", "41"),
        ("一百", "43"),
        ("第一", "41"),
        ("二零一二年", "42142"),
        ("看一看", "454"),
        ("十一", "21"),
        ("好奇", "42"),
        ("爱好", "44"),
        ("行长", "23"),
        ("他跑得快", "1354"),
    ],
)
def test_tones_in_company(frontend: Frontend, text: str, tones: str) -> None:
    arrows = {"→": "1", "↗": "2", "↓": "3", "↘": "4"}
    symbols, told = read(frontend, text)
    spoken = "".join(arrows.get(symbol, "") for symbol in symbols)
    assert spoken == tones.replace("5", "")
    assert told == []


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("共1,250元", "共一千二百五十元"),
        ("比分3:2", "比分三比二"),
        ("电话13912345678", "电话幺三九幺二三四五六七八"),
        ("2024年", "二零二四年"),
        ("增长３５％", "增长百分之三十五"),
        ("100多个", "一百多个"),
    ],
)
def test_numbers_are_read_in_chinese(frontend: Frontend, text: str, same_as: str) -> None:
    assert read(frontend, text) == read(frontend, same_as)


def test_numbers_are_read_in_english(frontend: Frontend) -> None:
    assert read(frontend, "It cost $9.99.")[0] == read(frontend, "It cost nine dollars and ninety nine cents.")[0]
    assert "wˈʌn θˈWzᵊnd tˈu hˈʌndɹəd" in read(frontend, "There are 1,250 of them.")[0]


def test_numbers_are_read_in_japanese(frontend: Frontend) -> None:
    spoken = [read(frontend, text)[0].replace(" ", "") for text in ("1,250円です", "千二百五十円です")]
    assert spoken[0] == spoken[1] != ""


@pytest.mark.parametrize(
    ("marks", "symbols"),
    [
        (("h", "ào"), "xau↘"),
        (("j", "ǐ"), "ʨi↓"),
        (("n", "ǐ", "h", "ǎo"), "ni↓ xau↓"),
        (("y", "ī"), "i→"),
        (("ān",), "a→n"),
        (("h", "ao4"), "xau↘"),
        (("h",), None),
        (("h", "h", "ào"), None),
        (("h", "ao"), None),
        (("laughter",), None),
    ],
)
def test_pinyin_marks(marks: tuple[str, ...], symbols: str | None) -> None:
    assert spoken_pinyin(marks) == symbols


def test_phone_marks() -> None:
    assert arpabet.spoken(("M", "AY0", "N", "UW1", "T")) == "mInˈut"
    assert arpabet.spoken(("HH", "AH0", "L", "OW1")) == "həlˈO"
    assert arpabet.spoken(("M",)) is None
    assert arpabet.spoken(("M", "XX1")) is None


def test_marks_are_heard_in_their_place(frontend: Frontend) -> None:
    assert read(frontend, "爱[h][ǎo]音乐") == ("ai↘ xau↓ i→nɥe↘", [])
    assert read(frontend, "This is [M][AY0][N][UW1][T].") == ("ðˌɪs ɪz mInˈut.", [])
    assert read(frontend, "对报道[j][ǐ]予好评")[0].split(" ")[2] == "ʨi↓"


def test_a_breath_becomes_a_pause(frontend: Frontend) -> None:
    told: list[str] = []
    before, after = frontend.phrases("我们先停一停[breath]然后继续往前走", "", False, told.append)
    plain = frontend.phrases("我们先停一停然后继续往前走", "", False, told.append)
    assert len(plain) == 1
    assert before.pause == 0.4
    assert (before.symbols, after.symbols) == tuple(
        read(frontend, text)[0] for text in ("我们先停一停", "然后继续往前走")
    )
    assert told == []


@pytest.mark.parametrize(
    ("text", "named"), [("哈哈[laughter]", "[laughter]"), ("<strong>很</strong>好", "<strong>"), ("你好 Привет", "П")]
)
def test_what_cannot_be_spoken_is_named(frontend: Frontend, text: str, named: str) -> None:
    symbols, told = read(frontend, text)
    assert symbols
    assert len(told) == 1 and named in told[0]


@pytest.mark.parametrize("text", ["", " ", "!!!", "안녕", "☃", "[breath]", "<|endofprompt|>"])
def test_nothing_to_say(frontend: Frontend, text: str) -> None:
    assert read(frontend, text)[0] == ""


def test_languages_mix_in_one_sentence(frontend: Frontend) -> None:
    symbols, told = read(frontend, "我今天用 a new computer 写信。")
    assert symbols.startswith("wo↓ ʨi→ntʰjɛ→n") and "kəmpjˈuTəɹ" in symbols and symbols.endswith("ɕi↘n.")
    assert told == []


def test_sentences_of_two_languages_are_two_phrases(frontend: Frontend) -> None:
    phrases = frontend.phrases("Good morning, everybody. 大家早上好！", "", False, print)
    assert [phrase.language for phrase in phrases] == ["en", "zh"]


def test_hint_decides_between_chinese_and_japanese(frontend: Frontend) -> None:
    chinese, japanese = read(frontend, "東京大学", "zh")[0], read(frontend, "東京大学", "ja")[0]
    assert "↗" in chinese or "→" in chinese
    assert japanese == "toːkʲoːdaiɡakɯ"


def test_british_english(frontend: Frontend) -> None:
    american, british = (frontend.phrases("I saw the car.", "", kind, print)[0].symbols for kind in (False, True))
    assert american.endswith("kˈɑɹ.") and british.endswith("kˈɑː.")


@pytest.mark.parametrize(
    "text",
    [
        "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少？《静夜思》——“床前明月光”（李白）…嗯，哎哟！",
        "The quick brown fox — “jumps” (over) the lazy dog; really? Yes: naïve café, CosyVoice by Zhao & co., 50% off!",
        "東京タワーに行きたい、「はい」と言った。ラーメンとコーヒー？ヴァイオリン・1,250円、2024年。",
    ],
)
def test_every_symbol_is_known_before_it_is_cleaned(
    frontend: Frontend, alphabet: dict[str, int], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontend, "_clean", lambda symbols: symbols)
    symbols, told = read(frontend, text)
    assert set(symbols) - {"|"} <= set(alphabet)
    assert told == []


def test_long_text_is_cut_at_punctuation_and_the_first_phrase_is_short(frontend: Frontend) -> None:
    text = "今天我们一起去公园里散步，然后回家吃饭，" * 12 + "晚上看电影。"
    phrases = frontend.phrases(text, "", False, print)
    assert len(phrases[0].symbols) <= 70
    assert all(len(phrase.symbols) <= 160 and phrase.symbols[-1] in ",." for phrase in phrases)
    assert all(phrase.pause > 0 for phrase in phrases)


def test_text_without_punctuation_is_cut_between_words(frontend: Frontend) -> None:
    phrases = frontend.phrases("今天我们一起去公园里散步" * 30, "", False, print)
    assert all(12 <= len(phrase.symbols) <= LONGEST for phrase in phrases)


def test_packing_joins_short_sentences_of_one_language_only() -> None:
    short = [Phrase("a" * 20 + ".", "en", 0.3)] * 2 + [Phrase("b" * 20 + ".", "zh", 0.3)]
    assert [(phrase.language, len(phrase.symbols)) for phrase in packed(short)] == [("en", 43), ("zh", 21)]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(weights.MissingVoiceError, match="no-such-voice"):
        weights.package_file("no_such_voice", "part.bin")


def test_damaged_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "part.bin").write_bytes(b"not the model")
    monkeypatch.setattr(weights, "package_file", lambda package, name: tmp_path / "part.bin")
    with pytest.raises(weights.MissingVoiceError, match="do not add up"):
        weights.convert()
