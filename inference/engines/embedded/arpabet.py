"""English phones as ``[M][AY0][N][UW1][T]`` writes them (ARPAbet, as in CMUdict) in Kokoro's American symbols."""

VOWELS = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "W", "AY": "I", "EH": "ɛ", "ER": "ɜɹ", "EY": "A", "IH": "ɪ",
    "IY": "i", "OW": "O", "OY": "Y", "UH": "ʊ", "UW": "u",
}  # fmt: skip
WEAK = {"AH": "ə", "ER": "əɹ"}  # without stress
CONSONANTS = {
    "B": "b", "CH": "ʧ", "D": "d", "DH": "ð", "F": "f", "G": "ɡ", "HH": "h", "JH": "ʤ", "K": "k", "L": "l", "M": "m",
    "N": "n", "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "V": "v", "W": "w", "Y": "j",
    "Z": "z", "ZH": "ʒ",
}  # fmt: skip
STRESS = {"0": "", "1": "ˈ", "2": "ˌ", "": ""}


def spoken(phones: tuple[str, ...]) -> str | None:
    """Symbols for a run of phones; None unless every part is one and at least one is a vowel."""
    out, vowels = "", 0
    for phone in phones:
        name, stress = phone.rstrip("012"), phone[len(phone.rstrip("012")) :]
        if name in VOWELS and stress in STRESS:
            vowels += 1
            out += STRESS[stress] + (WEAK.get(name, VOWELS[name]) if stress in {"", "0"} else VOWELS[name])
        elif phone in CONSONANTS:
            out += CONSONANTS[phone]
        else:
            return None
    return out if vowels else None
