"""Grammars, with real nginx as the judge of which values are good."""

from pathlib import Path
from typing import Any

import pytest

from gateway.config import args
from gateway.config.schema import Arg, ConfigError, Paths, Place, Statement, Text
from tests.gateway.nginx import needs_nginx, verdict

PATHS = Paths("prefix/", "conf/")
PLACE = Place("f", 3)


def parsed(arg: Arg[Any], *words: str) -> Any:
    """What a grammar makes of words."""
    return arg.parse(Statement("name", words, None, PLACE, PATHS))


def test_encode_gives_back_the_bytes() -> None:
    assert args.encode("é\udcff") == b"\xc3\xa9\xff"


def test_flag() -> None:
    assert [parsed(args.flag(), word) for word in ("on", "off", "ON", "Off")] == [True, False, True, False]
    with pytest.raises(ConfigError, match=r'^invalid value "yes" in "name" directive, it must be "on" or "off"$'):
        parsed(args.flag(), "yes")


def test_integer() -> None:
    assert parsed(args.integer(), "010") == 10
    assert parsed(args.integer(1, 9), "9") == 9
    for grammar, word, message in (
        (args.integer(), "x", '"name" directive invalid number'),
        (args.integer(), "-1", '"name" directive invalid number'),
        (args.integer(), "", '"name" directive invalid number'),
        (args.integer(), "9223372036854775808", '"name" directive invalid number'),
        (args.integer(1, 9), "10", "value must be between 1 and 9"),
        (args.integer(1), "0", "value must be equal to or greater than 1"),
    ):
        with pytest.raises(ConfigError) as caught:
            parsed(grammar, word)
        assert caught.value.message == message


GOOD_SIZES = {"0": 0, "1": 1, "8k": 8192, "8K": 8192, "1m": 1 << 20, "2M": 2 << 20}
GOOD_OFFSETS = {**GOOD_SIZES, "1g": 1 << 30, "3G": 3 << 30}
BAD_SIZES = ["", "k", "1kk", "-1", "1.5k", "x", "1 k", "1t", "9223372036854775808", "9007199254740993k"]


@pytest.mark.parametrize(("word", "value"), GOOD_OFFSETS.items())
def test_offset(word: str, value: int) -> None:
    assert parsed(args.offset(), word) == value


@pytest.mark.parametrize(("word", "value"), GOOD_SIZES.items())
def test_size(word: str, value: int) -> None:
    assert parsed(args.size(), word) == value


@pytest.mark.parametrize("word", BAD_SIZES)
def test_bad_size(word: str) -> None:
    for grammar in (args.size(), args.offset()):
        with pytest.raises(ValueError):
            parsed(grammar, word)


def test_size_in_gigabytes_is_for_files_only() -> None:
    with pytest.raises(ValueError):
        parsed(args.size(), "1g")
    assert parsed(args.size({"off": 0}), "off") == 0


TIMES = {
    "0": 0.0,
    "30": 30.0,
    "30s": 30.0,
    "5m": 300.0,
    "1h 30m": 5400.0,
    "1h30m": 5400.0,
    "1h30": 3630.0,
    "1d  2h ": 93600.0,
    "1w": 604800.0,
    "30 ": 30.0,
    " 30": 30.0,
}
FINE_TIMES = {"500ms": 0.5, "1s500ms": 1.5, "1m5ms": 60.005, "5ms 3": 3.005}
LONG_TIMES = {"1y": 31536000.0, "1y 1M": 34128000.0, "2M": 5184000.0}
BAD_TIMES = ["", "s", "1x", "1m1h", "1s1s", "1m 1m", "30 1h", "-1", "1.5s", " 1h", "1ms1s", "30 5ms"]


@pytest.mark.parametrize(("word", "value"), (TIMES | FINE_TIMES).items())
def test_duration(word: str, value: float) -> None:
    assert parsed(args.duration(), word) == pytest.approx(value)


@pytest.mark.parametrize(("word", "value"), (TIMES | LONG_TIMES).items())
def test_duration_in_whole_seconds(word: str, value: float) -> None:
    assert parsed(args.duration({"max": -1.0}, whole=True), word) == value


@pytest.mark.parametrize("word", BAD_TIMES)
def test_bad_duration(word: str) -> None:
    for whole in (False, True):
        with pytest.raises(ValueError):
            parsed(args.duration(whole=whole), word)


def test_duration_words() -> None:
    assert parsed(args.duration({"max": -1.0}, whole=True), "max") == -1.0
    for word in FINE_TIMES:
        with pytest.raises(ValueError):
            parsed(args.duration(whole=True), word)
    for word in LONG_TIMES:
        with pytest.raises(ValueError):
            parsed(args.duration(), word)


def test_words_and_texts() -> None:
    assert parsed(args.string(), "a") == "a"
    assert parsed(args.strings(), "a", "b") == ("a", "b")
    assert parsed(args.text(), "a$b") == Text("a$b", PLACE)
    assert parsed(args.texts(), "a", "$b") == (Text("a", PLACE), Text("$b", PLACE))
    assert parsed(args.nothing()) is True
    assert (args.strings(2, 3).least, args.strings(2, 3).most, args.texts(0).least) == (2, 3, 0)
    assert parsed(args.one("x", int), "12") == 12


def test_choice_and_bits() -> None:
    assert parsed(args.choice("off", "exact"), "Exact") == "exact"
    assert parsed(args.bits("a", "b", "c"), "b", "A") == {"a", "b"}
    for grammar in (args.choice("off"), args.bits("off")):
        with pytest.raises(ConfigError, match=r'^invalid value "on"$'):
            parsed(grammar, "on")
    assert args.choice("off", "exact").syntax == "off | exact"


def test_paths() -> None:
    assert parsed(args.path(), "a/b") == "prefix/a/b"
    assert parsed(args.path(conf=True), "a/b") == "conf/a/b"
    assert parsed(args.path(), "/a/b") == "/a/b"


def test_mime_types() -> None:
    assert parsed(args.mime_types(), "text/CSS", "text/css") == {b"text/html", b"text/css"}
    assert parsed(args.mime_types(), "text/css", "*") == {b"*"}
    assert parsed(args.mime_types(""), "text/css") == {b"text/css"}


def test_buffers() -> None:
    assert parsed(args.buffers(), "4", "8k") == (4, 8192)
    for words in (("0", "8k"), ("4", "0"), ("x", "8k"), ("4", "8x")):
        with pytest.raises(ValueError):
            parsed(args.buffers(), *words)


def test_network() -> None:
    assert str(args.network("10.1.2.3/8")) == "10.0.0.0/8"
    assert str(args.network("::1")) == "::1/128"
    for word in ("10.0.0.0/255.0.0.0", "10.0.0.0/33", "10.0.0", "x"):
        with pytest.raises(ValueError):
            args.network(word)


@needs_nginx
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("client_header_buffer_size", GOOD_SIZES, [word for word in BAD_SIZES if word]),
        ("client_max_body_size", GOOD_OFFSETS, [*BAD_SIZES, "1kg"]),
        ("send_timeout", TIMES | FINE_TIMES, [*BAD_TIMES, *LONG_TIMES]),
        ("resolver_timeout", {}, [*BAD_TIMES, *LONG_TIMES]),
        ("proxy_next_upstream_tries", {"0": 0, "010": 10}, ["x", "-1", "", "9223372036854775808"]),
    ],
)
def test_nginx_agrees(tmp_path: Path, name: str, good: dict[str, Any], bad: list[str]) -> None:
    """One run with every good value (a server each), one run for each bad value."""

    def accepts(conf: str) -> bool:
        conf = f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{ access_log off; {conf} }}\n"
        return verdict(tmp_path, conf) is None

    assert accepts("".join(f'server {{ {name} "{word}"; }}\n' for word in good if word != "0"))
    assert [word for word in bad if accepts(f'{name} "{word}";')] == []
