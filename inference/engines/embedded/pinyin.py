"""Mandarin syllables: written pinyin to Kokoro's phonetic symbols, and the tones that change in company.

Kokoro was trained on misaki's transcription, so its choices are followed: one symbol string per syllable, the tone
arrow after the main vowel, no arrow for the neutral tone. Values after Duanmu (2007) and Lin (2007).
"""

import re
import unicodedata
from itertools import pairwise

INITIALS = {
    "b": "p", "p": "pʰ", "m": "m", "f": "f", "d": "t", "t": "tʰ", "n": "n", "l": "l", "g": "k", "k": "kʰ", "h": "x",
    "j": "ʨ", "q": "ʨʰ", "x": "ɕ", "zh": "ꭧ", "ch": "ꭧʰ", "sh": "ʂ", "r": "ɻ", "z": "ʦ", "c": "ʦʰ", "s": "s",
}  # fmt: skip
# "0" is where the tone goes
FINALS = {
    "a": "a0", "ai": "ai0", "an": "a0n", "ang": "a0ŋ", "ao": "au0", "e": "ɤ0", "ei": "ei0", "en": "ə0n", "eng": "ə0ŋ",
    "i": "i0", "ia": "ja0", "ian": "jɛ0n", "iang": "ja0ŋ", "iao": "jau0", "ie": "je0", "in": "i0n", "iou": "jou0",
    "ing": "i0ŋ", "iong": "jʊ0ŋ", "ong": "ʊ0ŋ", "ou": "ou0", "u": "u0", "uei": "wei0", "ua": "wa0", "uai": "wai0",
    "uan": "wa0n", "uen": "wə0n", "uang": "wa0ŋ", "ueng": "wə0ŋ", "uo": "wo0", "o": "wo0",
    "ü": "y0", "üe": "ɥe0", "üan": "ɥɛ0n", "ün": "y0n",
}  # fmt: skip
# whole syllables that the rules would get wrong: interjections and syllabic consonants
ALONE = {"o": "ɔ0", "yo": "jɔ0", "er": "ɚ0", "ê": "ɛ0", "m": "m0", "n": "n0", "ng": "ŋ0", "hm": "hm0", "hng": "hŋ0"}
WRITTEN_SHORT = {"iu": "iou", "ui": "uei", "un": "uen"}
TONES = {"1": "→", "2": "↗", "3": "↓", "4": "↘", "5": ""}
ACCENTS = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
SYLLABLE = re.compile(r"([a-zêü]+)([1-5])")
INITIAL = re.compile(r"zh|ch|sh|[bpmfdtnlgkhjqxrzcs]")


def numbered(pinyin: str) -> str:
    """Write the tone as a digit at the end: ``hǎo`` -> ``hao3``, ``lv4`` -> ``lü4``, ``ma`` -> ``ma5``."""
    tone, letters = "", ""
    for char in unicodedata.normalize("NFD", pinyin.lower()):
        if char in ACCENTS:
            tone = ACCENTS[char]
        elif char in "12345":
            tone = char
        else:
            letters += char
    letters = unicodedata.normalize("NFC", letters).replace("v", "ü").replace("u:", "ü")
    return letters + (tone or "5")


def ipa(syllable: str) -> str | None:
    """Kokoro's symbols for a numbered syllable, ``hao4`` -> ``xau↘``; None if there is no such syllable."""
    match = SYLLABLE.fullmatch(syllable)
    if match is None:
        return None
    letters, tone = match[1], TONES[match[2]]
    if letters in ALONE:
        return ALONE[letters].replace("0", tone)
    initial, final = parts(letters)
    if final == "i" and initial in {"zh", "ch", "sh", "r", "z", "c", "s"}:
        symbols = "ɨ0"
    elif final in FINALS:
        symbols = FINALS[final]
    else:
        return None
    return INITIALS.get(initial, "") + symbols.replace("0", tone)


def parts(letters: str) -> tuple[str, str]:
    """Split into initial and full final, undoing the spelling: ``you`` -> ("", "iou"), ``ju`` -> ("j", "ü")."""
    if letters.startswith("y"):
        final = re.sub(r"^yu(?=$|e|an|n)", "ü", letters)
        return "", re.sub(r"^y(?=i)|^y", lambda m: "" if letters[1:2] == "i" else "i", final)
    if letters.startswith("w"):
        final = letters[1:] if letters[1:2] == "u" else "u" + letters[1:]
        return "", WRITTEN_SHORT.get(final, final)
    match = INITIAL.match(letters)
    initial = match[0] if match else ""
    final = letters[len(initial) :]
    if initial in {"j", "q", "x"} and final.startswith("u"):
        final = "ü" + final[1:]
    return initial, WRITTEN_SHORT.get(final, final)


DIGITS = set("零〇一二三四五六七八九幺两")


def sandhi(chars: str, syllables: list[str], breaks: set[int]) -> list[str]:
    """Change tones as speech does: 不 and 一 by what follows, a third tone before a third.

    ``chars`` and numbered ``syllables`` go together one to one; ``breaks`` holds the indices where a word starts.
    """
    out = list(syllables)
    for i, char in enumerate(chars):
        after = out[i + 1][-1] if i + 1 < len(out) else ""
        if char == "不":
            out[i] = "bu2" if after == "4" else out[i]
        elif char == "一":
            out[i] = "yi" + tone_of_one(chars, i, after)
    for start, stop in words(len(out), breaks):
        third_tones(out, start, stop, joins=stop < len(out))
    return out


def words(count: int, breaks: set[int]) -> list[tuple[int, int]]:
    """Word spans, last first: a third tone looks at what its successor became."""
    edges = sorted({0, count} | {b for b in breaks if 0 < b < count})
    return list(pairwise(edges))[::-1]


def third_tones(out: list[str], start: int, stop: int, joins: bool) -> None:
    """Raise third tones before third tones in one word; its last is raised by the next word only if it stands alone."""
    low = [syllable[-1] == "3" for syllable in out]
    if joins and stop - start == 1 and low[start] and low[stop]:
        out[start] = out[start][:-1] + "2"
    for i in range(stop - 2, start - 1, -1):
        if low[i] and low[i + 1] and (out[i + 1][-1] == "3" or stop - start == 3):
            out[i] = out[i][:-1] + "2"


def tone_of_one(chars: str, i: int, after: str) -> str:
    """Tone of 一 at ``i`` when a syllable of tone ``after`` ("" = none) follows."""
    before, following = chars[i - 1 : i], chars[i + 1 : i + 2]
    if before and before == following:
        return "5"  # 看一看
    counted = before in DIGITS or following in DIGITS or before in set("第十点初") or following in set("月号")
    if counted or not after:
        return "1"
    return {"4": "2", "5": "2"}.get(after, "4")  # a neutral tone here was a fourth: 一个
