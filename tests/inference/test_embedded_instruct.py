"""Instructions: what is honoured in which wording, and that everything else is named."""

import pytest

from inference.engines.embedded.instruct import HAPPY, SAD, Manner, parse


@pytest.mark.parametrize(
    ("words", "manner"),
    [
        ("用兴奋的语气说这句话", HAPPY),
        ("Please say this in a happy voice.", HAPPY),
        ("嬉しそうに話してください", HAPPY),
        ("悲伤地念出", SAD),
        ("sadly", SAD),
        ("calm and gentle", SAD),
        ("快速播报", Manner(speed=1.3)),
        ("speak faster", Manner(speed=1.3)),
        ("You are a helpful assistant. 请用尽可能快地语速说一句话。<|endofprompt|>", Manner(speed=1.7)),
        ("慢慢地说", Manner(speed=0.77)),
        ("ゆっくり話して", Manner(speed=0.77)),
        ("用机器人的声音", Manner(spread=0.0)),
        ("whisper it", Manner(whisper=True)),
        ("请大声说", Manner(gain=1.8)),
        ("softly", Manner(gain=0.45)),
        ("in a low voice", Manner(shift=-4)),
        ("用高音说", Manner(shift=4)),
        ("用英语说", Manner(language="en")),
        ("slow, loud", Manner(speed=0.77, gain=1.8)),
        ("", Manner()),
        ("请说这句话。", Manner()),
    ],
)
def test_honoured(words: str, manner: Manner) -> None:
    assert parse(words) == (manner, [])


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("用广东话说这句话", ["广东话"]),
        ("请用四川话表达", ["四川话"]),
        ("用粤语说", ["粤语"]),
        ("愤怒地说", ["愤怒"]),
        ("angry", ["angry"]),
        ("like Peppa Pig", ["Peppa", "Pig"]),
        ("以一种神秘的语气", ["神秘"]),
        ("不要太快", ["不要太快"]),
        ("don't be sad", ["don't be sad"]),
        ("唱歌", ["唱歌"]),
    ],
)
def test_refused_by_name(words: str, refused: list[str]) -> None:
    assert parse(words) == (Manner(), refused)


def test_part_honoured_part_refused() -> None:
    assert parse("用四川话快速播报") == (Manner(speed=1.3), ["四川话"])


def test_stronger_words_do_more() -> None:
    assert parse("非常快")[0].speed > parse("快")[0].speed
    assert parse("very sad")[0].shift < parse("sad")[0].shift
