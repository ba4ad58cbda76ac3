"""The page's parts fit together: every word has both languages, every element that scripts ask for exists."""

import re

from inference import audio, schema, settings
from inference.settings import PROJECT

STATIC = PROJECT / "webui" / "static"
HTML = (PROJECT / "webui" / "index.html").read_text()
SCRIPTS = {path.name: path.read_text() for path in STATIC.glob("*.js")}


def tables() -> tuple[str, str]:
    english, chinese = SCRIPTS["words.js"].split("\n  zh: {", 1)
    return english, chinese.split("\n};", 1)[0]


def test_every_word_of_the_page_is_there_in_both_languages() -> None:
    asked = set(re.findall(r'data-words(?:-label|-placeholder)?="(\w+)"', HTML))
    asked |= {key for text in SCRIPTS.values() for key in re.findall(r'\bsay\("(\w+)"', text)}
    assert len(asked) >= 40
    for table in tables():
        assert not {key for key in asked if not re.search(rf"^    {key}: ", table, re.MULTILINE)}


def test_every_check_is_worded_in_both_languages() -> None:
    names = set(re.findall(r'name: "(\w+)"', SCRIPTS["sound.js"] + SCRIPTS["prompt.js"])) | {"quiet", "loudness"}
    for table in tables():
        check = table.split("    check: {")[1].split("    },")[0]
        assert names <= set(re.findall(r"^      (\w+): ", check, re.MULTILINE))


def test_chinese_words_every_error_that_a_prompt_can_meet() -> None:
    codes = set(re.findall(r'_refuse\(\s*"(\w+)"', (PROJECT / "inference" / "audio.py").read_text()))
    assert len(codes) >= 8
    assert not {code for code in codes if f"      {code}: " not in tables()[1]}


def test_every_element_that_scripts_ask_for_exists() -> None:
    there = set(re.findall(r'\bid="([\w-]+)"', HTML))
    asked = {name for text in SCRIPTS.values() for name in re.findall(r'\$\("([\w-]+)"\)', text)}
    assert len(asked) > 20 and asked <= there
    assert set(re.findall(r'\bfor="([\w-]+)"', HTML)) <= there
    described = " ".join(re.findall(r'aria-(?:describedby|labelledby)="([^"]+)"', HTML)).split()
    assert set(described) <= there


def test_limits_shown_are_the_limits_kept() -> None:
    text = SCRIPTS["sound.js"]
    for name, value in (("shortest", audio.SHORTEST), ("longest", audio.LONGEST), ("lowestRate", audio.LOWEST_RATE),
                        ("sound", audio.SOUND), ("soundNeeded", audio.SOUND_NEEDED), ("quiet", audio.QUIET),
                        ("clippedWarn", audio.CLIPPED_WARN), ("clippedBad", audio.CLIPPED_REFUSE)):  # fmt: skip
        found = re.search(rf"\b{name}: (-?[\d.]+)", text)
        assert found is not None and float(found[1]) == value, name
    assert f'maxlength="{settings.Settings().max_text_length}"' in HTML
    assert f'max="{schema.HIGHEST_SEED}"' in HTML and f'maxlength="{schema.MAX_INSTRUCT}"' in HTML


def test_files_stay_small_and_name_no_other_host() -> None:
    for path in [PROJECT / "webui" / "index.html", *STATIC.iterdir()]:
        text = path.read_text()
        assert text.count("\n") <= 400, path
        assert not set(re.findall(r"https?://[^\s\"'<]+", text)) - {"http://www.w3.org/2000/svg", "https://"}, path
