"""The codings: what goes in comes out, whatever the pieces; limits hold; Accept-Encoding is read as RFC 9110 has it."""

import itertools
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import codings

ROOT = Path(__file__).parents[2]
CODINGS = sorted(codings.LEVELS)
bodies = st.one_of(st.binary(max_size=4000), st.text("ab <>\n", max_size=4000).map(str.encode))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("coding", CODINGS)
@settings(max_examples=60, deadline=None)
@given(data=bodies, cuts=st.lists(st.integers(0, 5000), max_size=6), level=st.integers(-3, 30), flush=st.booleans())
def test_what_goes_in_comes_out(coding: str, data: bytes, cuts: list[int], level: int, flush: bool) -> None:
    stream = codings.encoder(coding, min(level, 6))
    encoded = b""
    for piece in pieces(data, cuts):
        encoded += stream.feed(piece)
        encoded += stream.flush() if flush else b""
    encoded += stream.finish()
    assert (stream.taken, stream.given) == (len(data), len(encoded))
    decoder = codings.decoder(coding)
    assert b"".join(decoder.feed(piece) for piece in pieces(encoded, cuts)) + decoder.finish() == data


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("level", ["FAST", "BEST"])
def test_a_whole_body(coding: str, level: str) -> None:
    data = b"var answer = 42;\n" * 1000
    encoded = codings.encode(coding, data, getattr(codings, level)[coding])
    assert len(encoded) < 200
    assert codings.decode(coding, encoded) == data


@pytest.mark.parametrize("coding", CODINGS)
def test_a_flush_shows_all_that_was_fed(coding: str) -> None:
    stream, decoder = codings.encoder(coding, 5), codings.decoder(coding)
    for number in range(3):
        event = b"data: %d\n\n" % number
        assert decoder.feed(stream.feed(event) + stream.flush()) == event
        assert stream.flush() == b"", "nothing new, nothing sent"


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_of_known_length_is_not_flushed(coding: str) -> None:
    stream = codings.encoder(coding, 5)
    stream.prompt = False
    encoded = stream.feed(b"abc") + stream.flush()
    assert codings.decode(coding, encoded + stream.finish()) == b"abc"


@pytest.mark.parametrize("coding", CODINGS)
def test_a_window_may_be_named(coding: str) -> None:
    stream = codings.encoder(coding, 4, 12)
    assert codings.decode(coding, stream.feed(b"a" * 9000) + stream.finish()) == b"a" * 9000


@pytest.mark.parametrize("coding", CODINGS)
def test_a_decoder_gives_no_more_than_allowed(coding: str) -> None:
    bomb = codings.encode(coding, bytes(20_000_000), codings.FAST[coding])
    with pytest.raises(codings.CodingError, match="larger than 100000 bytes"):
        codings.decode(coding, bomb, 100_000)
    assert len(codings.decode(coding, codings.encode(coding, bytes(1000), 1), 1000)) == 1000


@pytest.mark.parametrize("coding", CODINGS)
def test_a_cut_or_spoilt_body_is_an_error(coding: str) -> None:
    encoded = codings.encode(coding, b"Some text to be cut short. " * 20, 5)
    with pytest.raises(codings.CodingError):
        codings.decode(coding, encoded[:-4])
    with pytest.raises(codings.CodingError):
        codings.decode(coding, b"\xff\xfe\xfd" + encoded)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_several_members_in_a_row(coding: str) -> None:
    assert codings.decode(coding, codings.encode(coding, b"one ", 5) + codings.encode(coding, b"two", 5)) == b"one two"


def test_gzip_is_the_format_that_zlib_reads() -> None:
    for level in range(1, 10):
        stream = codings.encoder("gzip", level)
        assert zlib.decompress(stream.feed(b"abc" * 99) + stream.finish(), 31) == b"abc" * 99


def test_zstd_keeps_to_the_window_that_clients_must_have() -> None:
    zstandard = pytest.importorskip("zstandard")
    data = bytes(range(256)) * 60_000
    stream = codings.encoder("zstd", 22)
    frame = zstandard.get_frame_parameters(stream.feed(data) + stream.finish())
    assert frame.window_size <= 8 << 20


def test_unknown_codings() -> None:
    assert not codings.installed("x-rle")
    with pytest.raises(ValueError, match="unknown coding"):
        codings.encoder("x-rle", 1)


ACCEPTED = {
    b"gzip": ["gzip"],
    b"gzip, deflate, br, zstd": ["br", "zstd", "gzip"],
    b"br;q=0.5, gzip;q=0.8": ["gzip", "br"],
    b"GZIP;Q=1.0 , Br ; q=0.001": ["gzip", "br"],
    b"gzip;q=0": [],
    b"gzip;q=0.000, br": ["br"],
    b"gzip;q=1.001": [],
    b"gzip;q=2": [],
    b"gzip;q=0.1234": [],
    b"gzip;x=1": [],
    b"gzip;q=": [],
    b"gzip, gzip;q=0": ["gzip"],
    b"x-gzip, gzipped": [],
    b"*": [],
    b"*;q=0": [],
    b"*;q=0.5, identity;q=0": ["br", "zstd", "gzip"],
    b"identity;q=0, *, br;q=0": ["zstd", "gzip"],
    b"identity;q=1, *;q=0": [],
    b"gzip, *;q=0": ["gzip"],
    b"": [],
    b",,;;,": [],
    b"\xff\xfe": [],
}


@pytest.mark.parametrize("header", ACCEPTED, ids=repr)
def test_accept_encoding(header: bytes) -> None:
    found = codings.accepts(header)
    assert found.ordered(codings.FOR_FILES) == ACCEPTED[header]
    assert found.choose(codings.FOR_FILES) == (ACCEPTED[header] or [None])[0]


def test_no_accept_encoding() -> None:
    assert codings.accepts(None).choose(codings.FOR_FILES) is None


@given(st.binary(max_size=60))
def test_any_accept_encoding_can_be_read(header: bytes) -> None:
    assert set(codings.accepts(header).ordered(CODINGS)) <= set(CODINGS)


@given(st.dictionaries(st.sampled_from(["br", "gzip", "zstd", "deflate"]), st.integers(0, 1000), min_size=1))
def test_the_heaviest_is_chosen(weights: dict[str, int]) -> None:
    header = ", ".join(f"{coding};q={weight / 1000:.3f}" for coding, weight in weights.items())
    chosen = codings.accepts(header.encode()).choose(CODINGS)
    assert (weights[chosen] if chosen else 0) == max(weights.values())


def test_memos_do_not_grow_without_end() -> None:
    for number in range(codings.ACCEPTS_KEPT * 2):
        codings.accepts(b"x%d" % number)
    assert len(codings._ACCEPTS) <= codings.ACCEPTS_KEPT


def test_libraries_are_imported_on_first_use() -> None:
    script = (
        "import sys; from gateway import codings, variants; import gateway.modules\n"
        "late = {'brotli', 'zstandard', 'zlib_ng', 'isal'}\n"
        "codings.installed('br'); codings.accepts(b'br').choose(['br']); print(sorted(late & set(sys.modules)))\n"
        "codings.encoder('gzip', 6); print(sorted(late & set(sys.modules)))\n"
        "codings.encoder('br', 6); print(sorted(late & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["[]", "['zlib_ng']", "['brotli', 'zlib_ng']"]
