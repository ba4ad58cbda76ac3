"""HTTP dates: written in one form, read in the three of RFC 9110 section 5.6.7, refused when there is no such day."""

import email.utils
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.dates import http_date, now_date, parse_date

SECONDS = st.integers(0, 4_102_444_799)  # to the end of 2099


@given(SECONDS)
def test_written_as_the_standard_library_does(seconds: int) -> None:
    assert http_date(seconds).decode() == email.utils.formatdate(seconds, usegmt=True)


@given(SECONDS)
def test_read_back(seconds: int) -> None:
    assert parse_date(http_date(seconds)) == seconds


@given(SECONDS)
def test_the_two_old_forms(seconds: int) -> None:
    moment = time.gmtime(seconds)
    assert parse_date(time.strftime("%a %b %e %H:%M:%S %Y", moment).encode()) == seconds
    if 1970 <= moment.tm_year < 2069:  # of a year's two digits, those from 70 on are of the last century
        assert parse_date(time.strftime("%A, %d-%b-%y %H:%M:%S GMT", moment).encode()) == seconds


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"Sun",
        b"Sun, 09 Sep 2001",
        b"Sun, 09 Xyz 2001 01:46:40 GMT",
        b"Sun, 31 Feb 2001 01:46:40 GMT",
        b"Sun, 09 Sep 2001 25:46:40 GMT",
        b"Sun, 09 Sep 2001 01:60:40 GMT",
        b"Sun, 00 Sep 2001 01:46:40 GMT",
        b"Wed, 29 Feb 2001 00:00:00 GMT",
        b"\xff\xfe",
        b"Sun, 09 Sep 99999999999 01:46:40 GMT",
        b"1000000000",
    ],
)
def test_what_is_no_date(text: bytes) -> None:
    assert parse_date(text) == -1


@given(st.binary(max_size=40))
def test_no_text_raises(text: bytes) -> None:
    assert isinstance(parse_date(text), int)


def test_the_present_second_is_made_once() -> None:
    for _ in range(1000):
        first, second = now_date(), now_date()
        if first is second:
            assert abs(parse_date(first) - time.time()) < 2
            return
    raise AssertionError("made anew each time")
