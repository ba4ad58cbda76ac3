"""Chinese text to Kokoro's symbols: numbers written out, words found, readings chosen, tones adjusted."""

import logging
import re
import warnings
from collections.abc import Callable

from inference.engines.embedded import pinyin
from inference.engines.embedded.weights import cache_folder
from inference.text import HAN

PUNCTUATION = {
    "，": ", ", "、": ", ", "。": ". ", "！": "! ", "？": "? ", "：": ": ", "；": "; ", "（": " (", "）": ") ",
    "《": " “", "》": "” ", "「": " “", "」": "” ", "『": " “", "』": "” ", "【": " “", "】": "” ",
    "“": " “", "”": "” ",
    "…": "… ", "—": "— ", "·": " ", "～": " ", ",": ", ", ".": ". ", "!": "! ", "?": "? ", ":": ": ", ";": "; ",
    "(": " (", ")": ") ", "-": " ", "\n": " ",
}  # fmt: skip
# Readings of words of one character, where a dictionary of phrases has nothing to hold on to: the particle or the
# commonest use.
PARTICLES = {"的": "de5", "地": "de5", "得": "de5", "着": "zhe5", "了": "le5", "还": "hai2", "都": "dou1", "为": "wei4"}
PIECES = re.compile(f"[{HAN}]+|[^{HAN}]")


class Mandarin:
    """Reads Chinese. Making one loads the dictionaries, about a second."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jieba's sources have escapes that newer Pythons complain of
            import jieba
            from pypinyin import Style, lazy_pinyin
            from wetext import Normalizer
        jieba.setLogLevel(logging.ERROR)
        self._words = jieba.Tokenizer()
        self._words.tmp_dir = str(cache_folder())
        cache_folder().mkdir(parents=True, exist_ok=True)
        self._words.initialize()
        self._normal = Normalizer(lang="zh", operator="tn")
        self._readings: Callable[[str], list[str]] = lambda word: lazy_pinyin(
            word, style=Style.TONE3, neutral_tone_with_five=True
        )

    def normalise(self, text: str) -> str:
        """Write out numbers, dates, units and money: ``1,250元`` -> ``一千二百五十元``."""
        return str(self._normal.normalize(text)) if re.search(r"\d", text) else text

    def read(self, text: str, unknown: Callable[[str], None]) -> str:
        """Symbols of a stretch of Chinese; ``unknown`` is told of each character that has no reading."""
        return "".join(
            self._han(piece, unknown) if re.match(f"[{HAN}]", piece) else PUNCTUATION.get(piece, " ")
            for piece in PIECES.findall(text)
        )

    def _han(self, chars: str, unknown: Callable[[str], None]) -> str:
        syllables: list[str] = []
        starts: set[int] = set()
        for word in self._words.cut(chars):
            starts.add(len(syllables))
            readings = [PARTICLES[word]] if word in PARTICLES else self._readings(word)
            syllables += [pinyin.numbered(reading) for reading in readings]
            if "得" in word[1:-1] and len(readings) == len(word):  # 跑得快; at either end it may be the verb
                syllables[len(syllables) - len(word) + word.index("得", 1)] = "de5"
        if len(syllables) != len(chars):  # should a reading ever cover two characters, do without the adjustment
            return " ".join(filter(None, map(pinyin.ipa, syllables)))
        symbols = ""
        for i, syllable in enumerate(pinyin.sandhi(chars, syllables, starts)):
            spoken = pinyin.ipa(syllable)
            if spoken is None:
                unknown(chars[i])
            symbols += (" " if i in starts and i else "") + (spoken or "")
        return symbols
