"""Splitting a text into marks, sentences and languages: pure string work, by cases."""

import pytest

from inference.text import Sentence, language_of, lift, runs, sentences, unreadable

A, B = "\ue000", "\ue001"


def test_marks_are_lifted_in_order_and_tags_taken_out() -> None:
    plain, marks, tags = lift("你[h][ào]，<strong>see</strong> [breath]<|endofprompt|>")
    assert plain == f"你{A}，see {B}"
    assert marks == [("h", "ào"), ("breath",)]
    assert tags == ["<strong>", "</strong>", "<|endofprompt|>"]


def test_private_characters_of_the_sender_cannot_pose_as_marks() -> None:
    assert lift(f"a{A}b[M]") == (f"ab{A}", [("M",)], [])


@pytest.mark.parametrize("text", ["[]", "[two words]", "[unclosed", "a < b > c", f"[{'x' * 25}]"])
def test_what_is_no_mark_stays(text: str) -> None:
    assert lift(text) == (text, [], [])


def test_full_width_letters_and_digits_become_plain() -> None:
    assert lift("ＡＢｃ１２，")[0] == "ABc12，"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好。再见！", ["你好。", "再见！"]),
        ("He paid 3.14 to Dr. Smith. Really?", ["He paid 3.14 to Dr. Smith.", "Really?"]),
        ("J. K. Rowling wrote it.", ["J. K. Rowling wrote it."]),
        ('"Stop!" she said.', ['"Stop!"', "she said."]),
        ("他说：“好。”然后走了", ["他说：“好。”", "然后走了"]),
        ("first\n\n  second", ["first", "second"]),
        ("Wait... what", ["Wait...", "what"]),
        ("  \n ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [sentence.text for sentence in sentences(text)] == expected


def test_a_line_end_makes_a_paragraph() -> None:
    assert sentences("一。\n二。") == [Sentence("一。", "zh", paragraph=True), Sentence("二。", "zh")]


@pytest.mark.parametrize(
    ("text", "hint", "expected"),
    [
        ("你好", "", "zh"),
        ("東京", "ja", "ja"),
        ("東京へ行く", "", "ja"),
        ("可爱の小猫咪在睡觉", "", "zh"),
        ("hello 你好", "", "zh"),
        ("hello", "zh", "en"),
        ("12345", "", "en"),
        ("12345", "ja", "ja"),
    ],
)
def test_language_is_judged_by_script(text: str, hint: str, expected: str) -> None:
    assert language_of(text, hint) == expected


def test_a_sentence_of_characters_alone_follows_the_text_around_it() -> None:
    assert [s.language for s in sentences("これは何ですか。東京。")] == ["ja", "ja"]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("我用 a new computer 写", "zh", [("zh", "我用 "), ("en", "a new computer"), ("zh", " 写")]),
        (f"你{A}吗", "zh", [("zh", "你"), ("mark", A), ("zh", "吗")]),
        ("可爱の猫", "zh", [("zh", "可爱"), ("ja", "の"), ("zh", "猫")]),
        ("iPhoneを買う", "ja", [("ja", "iPhoneを買う")]),
        ("the big oneを買う", "ja", [("en", "the big one"), ("ja", "を買う")]),
    ],
)
def test_runs_of_other_languages(text: str, language: str, expected: list[tuple[str, str]]) -> None:
    assert runs(text, language) == expected


def test_scripts_without_a_reader_are_named_once_each() -> None:
    assert unreadable(f"Да, да 你好 あ é 1 ☃☃{A}") == "Дад☃"
