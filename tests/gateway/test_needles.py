"""Replacing texts in a stream: against a plain reading of the rule, whatever way the stream is cut."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.http.needles import Replacing

LETTERS = st.text("abAB", max_size=30).map(str.encode)
TEXTS = st.lists(st.text("ab", min_size=1, max_size=5).map(str.encode), min_size=1, max_size=4)


def replaced(data: bytes, texts: list[bytes], *, once: bool) -> bytes:
    """The rule, byte by byte: the first text that is here, or may begin here at the end, which then stays as it is."""
    out, at, used = b"", 0, set()
    lower = data.lower()
    while at < len(data):
        if once and len(used) == len(texts):
            return out + data[at:]
        rest = lower[at:]
        for index, text in enumerate(texts):
            if once and index in used:
                continue
            if rest.startswith(text):
                out, at = out + b"<%d>" % index, at + len(text)
                used.add(index)
                break
            if text.startswith(rest):
                return out + data[at:]
        else:
            out, at = out + data[at : at + 1], at + 1
    return out


def through(pieces: list[bytes], texts: list[bytes], *, once: bool) -> bytes:
    values = [lambda index=index: b"<%d>" % index for index in range(len(texts))]
    stream = Replacing(tuple(texts), values, once)  # type: ignore[arg-type]
    return b"".join([stream.feed(piece) + stream.flush() for piece in pieces]) + stream.finish()


@given(st.lists(LETTERS, max_size=8), TEXTS, st.booleans())
def test_any_cut_gives_what_the_rule_gives(pieces: list[bytes], texts: list[bytes], once: bool) -> None:
    assert through(pieces, texts, once=once) == replaced(b"".join(pieces), texts, once=once)


def test_only_what_may_be_a_beginning_is_held_back() -> None:
    stream = Replacing((b"abc",), [lambda: b"!"], False)
    assert [stream.feed(piece) for piece in (b"xyzab", b"d", b"aab", b"c")] == [b"xyz", b"abd", b"a", b"!"]
    assert stream.feed(b"ab") == b"" and stream.finish() == b"ab"


def test_a_value_is_asked_once_and_only_when_needed() -> None:
    asked: list[str] = []

    def value() -> bytes:
        asked.append("a")
        return b"x"

    stream = Replacing((b"a", b"b"), [value, lambda: 1 / 0], False)  # type: ignore[list-item, return-value]
    assert stream.feed(b"aca") == b"xcx" and asked == ["a"]


def test_bytes_that_are_no_text_are_left_alone() -> None:
    data = bytes(range(256))
    assert through([data], [b"\xff\x00"], once=False) == data
    assert through([data[:128], data[128:]], [b"\x7f\x80"], once=False) == data.replace(b"\x7f\x80", b"<0>")
