"""Which answers are kept and for how long, by their heads; names by key and Vary."""

import pytest

from gateway.cache.key import below, name_of, variant_of
from gateway.cache.policy import LONGEST, Verdict, judge, valid_for
from gateway.http.dates import http_date
from gateway.http.headers import headers_of

NOW = 1_700_000_000
SOON = http_date(NOW + 50)
PAST = b"Thu, 01 Jan 1970 00:00:01 GMT"


def judged(*lines: tuple[str, bytes | str], ignored: str = "") -> Verdict:
    pairs = [(name.encode(), value.encode() if isinstance(value, str) else value) for name, value in lines]
    return judge(pairs, frozenset(word.encode() for word in ignored.split()), NOW)


@pytest.mark.parametrize(
    ("lines", "valid"),
    [
        ([], 0),
        ([("expires", SOON)], NOW + 50),
        ([("cache-control", "max-age=60")], NOW + 60),
        ([("cache-control", "Max-Age=60, S-MaxAge=10")], NOW + 10),
        ([("x-accel-expires", "30")], NOW + 30),
        ([("x-accel-expires", "@60")], 60),
        ([("x-accel-expires", "x")], 0),
        ([("cache-control", "max-age=60"), ("expires", PAST)], NOW + 60),
        ([("expires", PAST), ("cache-control", "max-age=60")], NOW + 60),
        ([("expires", SOON), ("cache-control", "max-age=60")], NOW + 60),
        ([("x-accel-expires", "30"), ("cache-control", "no-cache"), ("expires", PAST)], NOW + 30),
        ([("cache-control", "no-store"), ("expires", PAST), ("x-accel-expires", "30")], NOW + 30),
        ([("x-accel-expires", "60"), ("x-accel-expires", "0")], NOW + 60),
        ([("cache-control", "max-age=9223372036854775808")], LONGEST),
    ],
)
def test_precedence(lines: list[tuple[str, bytes | str]], valid: int) -> None:
    verdict = judged(*lines)
    assert verdict.storable
    assert verdict.valid == valid


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([("cache-control", "no-cache")], "no-store"),
        ([("cache-control", "no-store")], "no-store"),
        ([("cache-control", "private, max-age=60")], "no-store"),
        ([("cache-control", "max-age=0")], "no-store"),
        ([("cache-control", "max-age=x")], "cache-control"),
        ([("cache-control", "no-cache"), ("expires", SOON)], "no-store"),
        ([("expires", PAST)], "expired"),
        ([("expires", "never")], "expired"),
        ([("x-accel-expires", "0"), ("cache-control", "max-age=60")], "x-accel-expires"),
        ([("set-cookie", "a=b"), ("cache-control", "max-age=60")], "set-cookie"),
        ([("vary", "*"), ("cache-control", "max-age=60")], "vary"),
        ([("vary", "x" * 129), ("cache-control", "max-age=60")], "vary"),
    ],
)
def test_what_is_not_kept(lines: list[tuple[str, bytes | str]], reason: str) -> None:
    verdict = judged(*lines)
    assert not verdict.storable
    assert verdict.reason == reason


def test_ignored_headers_say_nothing() -> None:
    lines: list[tuple[str, bytes | str]] = [
        ("set-cookie", "a"),
        ("cache-control", "no-store"),
        ("expires", PAST),
        ("vary", "*"),
    ]
    verdict = judged(
        *lines,
        ignored="set-cookie cache-control expires vary",
    )
    assert verdict == Verdict()


def test_stale_extensions_hold_beside_x_accel_expires() -> None:
    for order in (1, -1):
        lines = [("x-accel-expires", "@1"), ("cache-control", "no-store, stale-while-revalidate=7, stale-if-error=9")]
        verdict = judged(*lines[::order])
        assert verdict.storable
        assert verdict.valid == 1
    assert (verdict.updating, verdict.error) == (0, 0), "no-store that comes first ends the reading of its line"
    verdict = judged(("cache-control", "max-age=1, stale-while-revalidate=7"))
    assert (verdict.updating, verdict.error) == (7, 7)


def test_proxy_cache_valid_takes_the_first_rule_that_fits() -> None:
    rules = ((200, 5), (404, 1), (0, 9))
    assert [valid_for(rules, status) for status in (200, 404, 500)] == [5, 1, 9]
    assert valid_for(((200, 5),), 404) == 0


def test_names_lie_in_folders_from_their_end() -> None:
    name = name_of(b"http://a/")
    assert below((), name) == name
    assert below((1, 2), name) == f"{name[-1]}/{name[-3:-1]}/{name}"


def test_variants_by_vary() -> None:
    def variant(vary: bytes, *items: tuple[bytes, bytes]) -> str:
        return variant_of(b"key", vary, headers_of(items))

    accept = b"Accept-Encoding"
    assert variant(accept, (accept, b"foo, bar")) == variant(b",, accept-encoding , ,", (accept, b"foo,,  ,bar , "))
    assert variant(accept, (accept, b"foo")) != variant(accept, (accept, b"bar"))
    assert variant(accept) == variant(accept, (accept, b""))
    assert variant(b"A, B", (b"A", b"1"), (b"B", b"2")) != variant(b"A, B", (b"A", b"1"), (b"B", b"3"))
    assert variant(b"A", (b"A", b"1"), (b"C", b"2")) == variant(b"A", (b"A", b"1"))
