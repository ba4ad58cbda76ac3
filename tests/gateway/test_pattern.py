"""Regular expressions: PCRE's own dialect, on bytes, with nginx's messages."""

import pytest

from gateway.pattern import MatchError, Pattern, PatternError


def test_captures() -> None:
    pattern = Pattern(r"^/(?<kind>[a-z]+)(-\d+)?\.(php|js)$")
    assert (pattern.groups, pattern.names) == (3, {"kind": 1})
    assert pattern.search(b"/app.js") == (b"/app.js", b"app", None, b"js")
    assert pattern.spans(b"/app.js") == ((0, 7), (1, 4), (-1, -1), (5, 7))
    assert pattern.search(b"/app.css") is None
    assert pattern.spans(b"/app.css") is None
    assert pattern.matches(b"/app.php") and not pattern.matches(b"/APP.php")


def test_caseless() -> None:
    assert Pattern(r"\.php$", caseless=True).search(b"/A.PHP") == (b".PHP",)


def test_subjects_are_bytes_unless_the_pattern_asks_for_utf() -> None:
    assert Pattern("^/(.)$").search("/é".encode()) is None
    assert Pattern("(*UTF)^/(.)$").search("/é".encode()) == ("/é".encode(), "é".encode())
    assert Pattern("^/(.)$", flags="u").search("/é".encode()) is not None
    assert Pattern(r"^/(.)$").search(b"/\xff") == (b"/\xff", b"\xff")


@pytest.mark.parametrize(
    ("flags", "source", "subject", "expected"),
    [
        ("i", "A", b"xa", b"a"),
        ("a", "b", b"ab", None),
        ("m", "^b", b"a\nb", b"b"),
        ("s", "a.b", b"a\nb", b"a\nb"),
        ("x", "a b # spaced", b"ab", b"ab"),
        ("D", "(?<n>a)|(?<n>b)", b"b", b"b"),
        ("ijo", "A", b"a", b"a"),
    ],
)
def test_flags_of_ngx_re(flags: str, source: str, subject: bytes, expected: bytes | None) -> None:
    found = Pattern(source, flags=flags).search(subject)
    assert (found[0] if found else None) == expected


def test_unknown_flag() -> None:
    with pytest.raises(PatternError, match=r'unknown flag "q" \(flags "iq"\)'):
        Pattern("a", flags="iq")


def test_braces_of_hexadecimal_escapes() -> None:
    assert Pattern(r"\x{41}").matches(b"A")


def test_finditer_goes_on_after_empty_matches() -> None:
    assert [spans[0] for spans in Pattern("a*").finditer(b"baac")] == [(0, 0), (1, 3), (3, 3), (4, 4)]
    assert [spans[0] for spans in Pattern("a").finditer(b"aba", 1)] == [(2, 3)]


def test_sub() -> None:
    assert Pattern("a+").sub(b"-", b"baac a") == (b"b-c -", 2)
    assert Pattern("a").sub(b"-", b"aaa", 2) == (b"--a", 2)
    assert Pattern("x").sub(b"-", b"aaa") == (b"aaa", 0)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("(a", 'pcre2_compile() failed: missing closing parenthesis in "(a"'),
        ("a{2,1}b", 'pcre2_compile() failed: numbers out of order in {} quantifier in "a{2,1}b" at "}b"'),
    ],
)
def test_messages_are_those_of_nginx(source: str, message: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern(source)
    assert str(caught.value) == message


def test_a_runaway_match_is_given_up() -> None:
    with pytest.raises(MatchError, match=r'pcre2_match\(\) failed: -47 on "a+b" using "\(a\+\)\+\$"'):
        Pattern("(a+)+$").search(b"a" * 40 + b"b")


def test_bad_utf_under_utf() -> None:
    pattern = Pattern("(*UTF)^.$")
    with pytest.raises(MatchError):
        pattern.matches(b"\xff")
    with pytest.raises(MatchError):
        list(pattern.finditer(b"\xff"))


def test_repr() -> None:
    assert repr(Pattern("(a)")) == "<Pattern b'(a)' [groups: 1]>"
