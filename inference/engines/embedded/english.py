"""English text to Kokoro's symbols, by hibari's reader (misaki's rules and lexicon, and a net for unknown words)."""

import re
from typing import Protocol


class Reading(Protocol):
    """What is used of hibari's G2P."""

    def __call__(self, text: str) -> str:
        """Symbols for a line of text."""
        ...


class English:
    """Reads English, American or British. A lexicon is loaded on its first use."""

    def __init__(self) -> None:
        self._lexicons: dict[bool, Reading] = {}

    def read(self, text: str, given: dict[str, str], british: bool = False) -> str:
        """Symbols of a stretch of English. ``given`` maps single characters in the text to symbols to use for them."""
        if re.fullmatch(r"\s*[A-Z]\s*", text):
            text = text.strip() + "."  # the letter, not the article
        text = re.sub(r"[\[\]]", " ", text)  # brackets are hibari's own syntax for given symbols
        text = re.sub("|".join(map(re.escape, given)), lambda c: f" [x](/{given[c[0]]}/) ", text) if given else text
        symbols = self._lexicon(british)(text)
        return re.sub(r" +([,.;:!?])", r"\1", symbols)

    def _lexicon(self, british: bool) -> Reading:
        if british not in self._lexicons:
            from hibari.g2p import G2P

            self._lexicons[british] = G2P(british=british)
        return self._lexicons[british]
