"""A text becomes the phrases Kokoro speaks one by one: symbols, a language, and the pause that follows.

Sentences are read by the front end of their language; words of another language, and marks, are read by theirs and
joined in. Phrases are long, since each costs half a second of silence to decode, but the first is short, so that
there is soon something to hear.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace

from inference.engines.embedded import arpabet, pinyin
from inference.engines.embedded.english import English
from inference.engines.embedded.japanese import Japanese
from inference.engines.embedded.mandarin import Mandarin
from inference.text import PRIVATE, Sentence, language_of, lift, sentences, unreadable
from inference.text import runs as language_runs

Warn = Callable[[str], None]

FIRST, USUAL, LONGEST = 70, 160, 240  # symbols of the first phrase, of others, and of any; the model's limit is 510
SHORTEST = 12  # symbols; less is not spoken well alone
PAUSES = {"paragraph": 0.5, "sentence": 0.3, "clause": 0.15, "word": 0.05, "breath": 0.4}  # seconds
BREATHS = {"breath", "quick_breath", "sigh"}
EVENTS = {
    "laughter", "noise", "cough", "clucking", "accent", "hissing", "vocalized-noise", "lipsmack", "mn", "laugh", "cry",
    "gasp", "sneeze", "yawn",
}  # fmt: skip
SILENT_TAGS = ("<|", "</")  # control tokens, and the closing half of a pair that is reported by its opening half
CUTS = (r"(?<=[.!?…]) ", r"(?<=[,;:—]) ", r" ")  # where a long sentence may be cut, best first


@dataclass(frozen=True, slots=True)
class Phrase:
    """What is decoded in one go."""

    symbols: str
    language: str
    pause: float  # seconds of silence after it, at normal speed


@dataclass(slots=True)
class Given:
    """The marks of a text: what to say for a placeholder, or None for a breath."""

    symbols: dict[str, str]
    breaths: set[str]


class Frontend:
    """The three readers together. ``alphabet`` is Kokoro's; nothing outside it leaves here."""

    def __init__(self, alphabet: dict[str, int]) -> None:
        self.alphabet = alphabet
        self.mandarin = Mandarin()
        self.english = English()
        self.japanese = Japanese()

    def phrases(self, text: str, hint: str, british: bool, warn: Warn) -> list[Phrase]:
        """Read a whole text. ``hint`` is the language where the script leaves a doubt; ``british`` the kind of English.

        What cannot be spoken is told to ``warn``; nothing speakable gives an empty list.
        """
        plain, marks, tags = lift(text)
        for tag in dict.fromkeys(tag for tag in tags if not tag.startswith(SILENT_TAGS)):
            warn(f"text: {tag} cannot be honoured by this voice and was left out")
        given = Given({}, set())
        for number, parts in enumerate(marks):
            plain = self._place(plain, chr(PRIVATE + number), parts, given, warn)
        strange = unreadable(plain)
        if strange:
            warn(f"text: no reading for {' '.join(strange[:20])}; left out")
        found: list[Phrase] = []
        for stretch in re.split(f"[{''.join(given.breaths)}]", plain) if given.breaths else [plain]:
            if found:
                found[-1] = replace(found[-1], pause=PAUSES["breath"])
            for sentence in sentences(stretch, hint or language_of(plain)):
                found += self._sentence(sentence, given, british, warn)
        return packed(found)

    def _place(self, text: str, placeholder: str, parts: tuple[str, ...], given: Given, warn: Warn) -> str:
        """Give a mark its meaning; one that means nothing goes back into the text as its words."""
        symbols = arpabet.spoken(parts) or spoken_pinyin(parts)
        if symbols:
            given.symbols[placeholder] = symbols
            return text
        replacement = ""
        for part in parts:
            if part.lower() in BREATHS:
                given.breaths.add(placeholder)
                replacement = placeholder
            elif part.lower() in EVENTS:
                warn(f"text: [{part}] cannot be honoured by this voice and was left out")
            else:
                replacement += f" {part} "
        return text.replace(placeholder, replacement)

    def _sentence(self, sentence: Sentence, given: Given, british: bool, warn: Warn) -> list[Phrase]:
        """Give the sentence as one phrase, however long; none if nothing in it is spoken."""
        symbols = self._clean(self._read(sentence.text, sentence.language, given, british, warn))
        pause = PAUSES["paragraph" if sentence.paragraph else "sentence"]
        return [Phrase(symbols, sentence.language, pause)] if any(map(str.isalpha, symbols)) else []

    def _read(self, text: str, language: str, given: Given, british: bool, warn: Warn) -> str:
        if language == "en":
            inside = {mark: symbols for mark, symbols in given.symbols.items() if mark in text}
            return self.english.read(text, inside, british)
        if language == "zh":
            text = self.mandarin.normalise(text)
        spoken = (self._run(kind, piece, given, british, warn) for kind, piece in language_runs(text, language))
        return " ".join(spoken)

    def _run(self, kind: str, piece: str, given: Given, british: bool, warn: Warn) -> str:
        if kind == "mark":
            return given.symbols.get(piece, "")
        if kind == "en":
            return self.english.read(piece, {}, british)
        if kind == "ja":
            return self.japanese.read(piece)
        return self.mandarin.read(piece, lambda char: warn(f"text: no reading for {char}; left out"))

    def _clean(self, symbols: str) -> str:
        known = "".join(symbol for symbol in symbols if symbol in self.alphabet)
        known = re.sub(r" +(?=[,.;:!?])", "", re.sub(r" {2,}", " ", known))
        return known.strip(" ,;:—")


def spoken_pinyin(parts: tuple[str, ...]) -> str | None:
    """Symbols for a run of initials and toned finals, ``("h", "ào")``; None unless all of it is pinyin."""
    out, initial = [], ""
    for part in parts:
        if part.lower() in pinyin.INITIALS or part in {"y", "w"}:
            if initial:
                return None
            initial = part.lower()
            continue
        toned = any(char in pinyin.ACCENTS for char in unicodedata.normalize("NFD", part)) or part[-1] in "12345"
        symbols = pinyin.ipa(pinyin.numbered(initial + part)) if toned else None
        if symbols is None:
            return None
        out.append(symbols)
        initial = ""
    return " ".join(out) if out and not initial else None


def packed(phrases: list[Phrase]) -> list[Phrase]:
    """Cut phrases that are too long and join short ones of one language, the first kept short."""
    out: list[Phrase] = []
    for phrase in phrases:
        for piece in cut(phrase, FIRST if not out else USUAL):
            if out and joins(out[-1], piece, FIRST if len(out) == 1 else USUAL):
                out[-1] = Phrase(f"{out[-1].symbols} {piece.symbols}", piece.language, piece.pause)
            else:
                out.append(piece)
    return out


def joins(before: Phrase, after: Phrase, room: int) -> bool:
    """Whether two phrases are better spoken in one go: neither a breath nor a paragraph is between them."""
    if before.language != after.language or before.pause > PAUSES["sentence"]:
        return False
    together = len(before.symbols) + 1 + len(after.symbols)
    return together <= (room if min(len(before.symbols), len(after.symbols)) >= SHORTEST else LONGEST)


def cut(phrase: Phrase, wanted: int) -> list[Phrase]:
    """Cut a phrase of more than ``wanted`` symbols at its punctuation, and of more than LONGEST between words."""
    symbols = phrase.symbols
    pieces: list[Phrase] = []
    while len(symbols) > (wanted if not pieces else USUAL):
        at, pause = best_cut(symbols, wanted if not pieces else USUAL)
        if not at:
            break
        pieces.append(Phrase(symbols[:at].strip(), phrase.language, PAUSES[pause]))
        symbols = symbols[at:].strip()
    return [*pieces, Phrase(symbols, phrase.language, phrase.pause)]


def best_cut(symbols: str, wanted: int) -> tuple[int, str]:
    """Where to cut, and what kind of pause that is; 0 where cutting does more harm than length."""
    for pattern, kind in zip(CUTS, ("sentence", "clause", "word"), strict=True):
        if kind == "word" and len(symbols) <= LONGEST:
            break
        places = [m.end() for m in re.finditer(pattern, symbols) if SHORTEST <= m.end() <= len(symbols) - SHORTEST]
        near = [place for place in places if place <= wanted]
        if near:
            return near[-1], kind
        if kind != "word" and places and places[0] <= LONGEST:
            return places[0], kind
    return (LONGEST, "word") if len(symbols) > 2 * LONGEST else (0, "")
