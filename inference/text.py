"""What a text is made of, before anybody pronounces it: inline marks, sentences, and the languages in them.

Pure string work without any library. Languages are "zh", "en" and "ja"; a sentence has one, though words of another
may stand in it.
"""

import re
import unicodedata
from dataclasses import dataclass

Marks = list[tuple[str, ...]]

PRIVATE = 0xE000  # first of 6,400 private-use characters: each stands for one lifted mark
MOST_MARKS = 6400
BRACKETS = re.compile(r"(?:\[[^\[\]\s]{1,24}\])+")
TAG = re.compile(r"<\|?/?[A-Za-z_]{1,24}\|?>")
# Digits, letters and the per cent sign; punctuation stays, it tells sentences apart.
FULL_WIDTH = {
    code: code - 0xFEE0 for code in (0xFF05, *range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}

HAN = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002fa1f々〇"
KANA = "\u3041-\u3096\u30a1-\u30fa\u30fc\uff66-\uff9f"
LATIN = "A-Za-z\u00c0-\u024f"
IS_HAN, IS_KANA, IS_LATIN = (re.compile(f"[{kind}]") for kind in (HAN, KANA, LATIN))
ENGLISH = re.compile(f"[{LATIN}](?:[{LATIN}0-9'’&+.\\- ]*[{LATIN}0-9])?")

# Sentence enders; a full stop only before white space or the end, and not after a title or an initial.
TITLES = ("Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Jr", "Sr", "vs", "etc", "No")
ENDER = re.compile(
    r"""[。！？!?；;…]+["'”’」』）)]*\s*          # an ender and the quotes that close after it
      | \.(?=[\s"'”’)]|$)["'”’)]*\s*            # a full stop, not a decimal point
      | \n\s*""",
    re.VERBOSE,
)
ABBREVIATED = re.compile(rf"(?:\b(?:{'|'.join(TITLES)})|(?:^|[\s.])[A-Za-z])\.$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence with its closing punctuation, the language it is in, and whether a paragraph ends with it."""

    text: str
    language: str
    paragraph: bool = False


def lift(text: str) -> tuple[str, Marks, list[str]]:
    """Take out bracketed runs such as ``[h][ào]`` and tags such as ``<strong>``.

    Returns the text with one private-use character in place of each run, the parts of the runs in order, and the tags.
    """
    text = "".join(c for c in text.translate(FULL_WIDTH) if not PRIVATE <= ord(c) < PRIVATE + MOST_MARKS)
    tags = TAG.findall(text)
    marks: Marks = []

    def placeholder(found: re.Match[str]) -> str:
        if len(marks) == MOST_MARKS:
            return found[0]
        marks.append(tuple(found[0][1:-1].split("][")))
        return chr(PRIVATE + len(marks) - 1)

    return BRACKETS.sub(placeholder, TAG.sub("", text)), marks, tags


def mark_number(char: str) -> int | None:
    """Give the index of the mark that a placeholder stands for; None for any other character."""
    number = ord(char) - PRIVATE
    return number if 0 <= number < MOST_MARKS else None


def sentences(text: str, hint: str = "") -> list[Sentence]:
    """Split at the ends of sentences and lines; blank ones are left out. ``hint`` settles what the script cannot."""
    whole = language_of(text, hint)
    found, start = [], 0
    for end in (*ends(text), len(text)):
        piece = text[start:end]
        if piece.strip():
            ends_line = "\n" in piece[len(piece.rstrip()) :]
            found.append(Sentence(piece.strip(), language_of(piece, hint or whole), ends_line))
        start = end
    return found


def ends(text: str) -> list[int]:
    """Offsets just after each end of a sentence."""
    return [
        match.end()
        for match in ENDER.finditer(text)
        if not (match[0].startswith(".") and ABBREVIATED.search(text[: match.start() + 1]))
    ]


def language_of(text: str, hint: str = "") -> str:
    """Judge by the script: kana is Japanese, Han without kana Chinese unless the hint is "ja", Latin English."""
    kana, han = len(IS_KANA.findall(text)), len(IS_HAN.findall(text))
    if kana and (hint == "ja" or kana > 0.2 * (kana + han)):
        return "ja"
    if han or kana:
        return "ja" if hint == "ja" else "zh"
    return "en" if IS_LATIN.search(text) else (hint or "en")


def runs(text: str, language: str) -> list[tuple[str, str]]:
    """Split a sentence into (language, text) where words of another language, or marks ("mark"), stand in it.

    In Japanese a single foreign word stays: its readers know the common ones.
    """
    pattern = f"(?P<mark>[{chr(PRIVATE)}-{chr(PRIVATE + MOST_MARKS - 1)}])|(?P<en>{ENGLISH.pattern})"
    if language == "zh":
        pattern += f"|(?P<ja>[{KANA}]+)"
    found: list[tuple[str, str]] = []
    start = 0
    for match in re.finditer(pattern, text):
        kind = match.lastgroup or ""
        if kind == "en" and language == "ja" and " " not in match[0]:
            continue
        found += [(language, text[start : match.start()]), (kind, match[0])]
        start = match.end()
    found.append((language, text[start:]))
    return [(kind, piece) for kind, piece in found if piece.strip()]


def unreadable(text: str) -> str:
    """Letters and pictures that belong to none of our languages, each once, in order."""
    known = re.compile(f"[{HAN}{KANA}{LATIN}]")
    strange = (c for c in text if unicodedata.category(c) in {"Lo", "Ll", "Lu", "So", "Lt"} and not known.match(c))
    return "".join(dict.fromkeys(c for c in strange if mark_number(c) is None))
