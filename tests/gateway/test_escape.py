"""Escapings: every byte by nginx's tables, and what was escaped for a URI comes back."""

import html
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.escape import escape_component, escape_html, unescape
from gateway.http.uri import escape_args, escape_path

PLAIN = set(range(0x21, 0x7F))


@pytest.mark.parametrize(
    "escape, kept",
    [
        (escape_path, PLAIN - set(b'"#%<>?\\^`{|}')),
        (escape_args, PLAIN - set(b'"#%&+;<>?\\^`{|}')),
        (escape_component, set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")),
    ],
)
def test_each_byte(escape: object, kept: set[int]) -> None:
    for byte in range(256):
        wanted = bytes([byte]) if byte in kept else b"%%%02X" % byte
        assert escape(bytes([byte])) == wanted  # type: ignore[operator]


@given(st.binary())
def test_back(data: bytes) -> None:
    for escape in (escape_path, escape_args, escape_component):
        assert unquote_to_bytes(escape(data)) == unescape(escape(data)) == data
    assert unescape(data) == unquote_to_bytes(data)


@given(st.text("a&<>\"';é"))
def test_html(text: str) -> None:
    escaped = escape_html(text.encode())
    assert not set(b'<>"') & set(escaped)
    assert html.unescape(escaped.decode()) == text
