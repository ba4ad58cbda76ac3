"""Conditional requests against RFC 9110 section 13.2.2 read word by word, with nginx's two liberties."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.dates import http_date
from tests.gateway.livesite import Site, serving

MODIFIED = 1_000_000_000
TAG = '"3b9aca00-4"'
SERVER = """
location /exact { if_modified_since exact; }
location /before { if_modified_since before; }
location /off { if_modified_since off; }
location /untagged { etag off; }
location /weak { gzip on; gzip_min_length 1; gzip_types *; }
location /made { return 200 made; }
"""
FILES = {name: b"body" for name in ("exact", "before", "off", "untagged", "weak")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site"), SERVER, files=FILES) as made:
        yield made


@dataclass
class Conditions:
    match: str | None
    none_match: str | None
    unmodified: str | None
    modified: str | None

    def lines(self) -> list[str]:
        named = {
            "If-Match": self.match,
            "If-None-Match": self.none_match,
            "If-Unmodified-Since": self.unmodified,
            "If-Modified-Since": self.modified,
        }
        return [f"{name}: {value}" for name, value in named.items() if value is not None]


TAGS = st.sampled_from(
    [None, "*", TAG, f"W/{TAG}", '"x"', f'"x", {TAG}', f'"x" ,\t{TAG},"y"', f'W/"x", W/{TAG}', "", "x", '"3b9aca00-"']
)
DATES = st.sampled_from(
    [
        None,
        *(http_date(MODIFIED + offset).decode() for offset in (-1, 0, 1)),
        "nonsense",
        "Sunday, 09-Sep-01 01:46:40 GMT",
        "Sun Sep  9 01:46:40 2001",
    ]
)


def seconds(date: str) -> int | None:
    """The dates above, by what they were made of."""
    known = {http_date(MODIFIED + offset).decode(): MODIFIED + offset for offset in (-1, 0, 1)}
    return known.get(date, None if date == "nonsense" else MODIFIED)


def listed(value: str, *, weak: bool) -> bool:
    if value == "*":
        return True
    tags = [tag.strip() for tag in value.split(",")]
    return TAG in [tag.removeprefix("W/") if weak else tag for tag in tags]


def reference(asked: Conditions, rule: str) -> int:
    """The status. As nginx, both of If-None-Match and If-Modified-Since must hold for 304, and both of the others."""
    if asked.unmodified is not None:
        time = seconds(asked.unmodified)
        if time is None or time < MODIFIED:
            return 412
    if asked.match is not None and not listed(asked.match, weak=False):
        return 412
    if asked.modified is None and asked.none_match is None:
        return 200
    if asked.modified is not None:
        time = seconds(asked.modified)
        fresh = time is not None and (time == MODIFIED if rule == "exact" else time >= MODIFIED)
        if rule == "off" or not fresh:
            return 200
    if asked.none_match is not None and not listed(asked.none_match, weak=True):
        return 200
    return 304


@settings(max_examples=200, deadline=None)
@given(
    st.builds(Conditions, TAGS, TAGS, DATES, DATES),
    st.sampled_from(["exact", "before", "off"]),
    st.sampled_from(["GET", "HEAD"]),
)
def test_conditions(site: Site, asked: Conditions, rule: str, method: str) -> None:
    with site.connect() as client:
        answer = client.get(f"/{rule}", *asked.lines(), method=method)
        assert answer.status == reference(asked, rule)
        if answer.status == 304:
            assert (answer.get("ETag"), answer.get("Content-Length"), answer.get("Content-Type")) == (TAG, None, None)
            assert answer.get("Last-Modified") == http_date(MODIFIED).decode()
        assert client.get("/exact").body == b"body"  # the framing of the answer before was right


def test_without_a_tag(site: Site) -> None:
    assert site.get("/untagged").get("ETag") is None
    assert site.get("/untagged", f"If-None-Match: {TAG}").status == 200
    assert site.get("/untagged", f"If-Match: {TAG}").status == 412
    assert site.get("/untagged", "If-None-Match: *").status == 304
    assert site.get("/untagged", f"If-Modified-Since: {http_date(MODIFIED).decode()}").status == 304


def test_a_weak_tag_is_known_again(site: Site) -> None:
    answer = site.get("/weak", "Accept-Encoding: gzip")
    assert answer.get("ETag") == f"W/{TAG}"
    again = site.get("/weak", "Accept-Encoding: gzip", f"If-None-Match: W/{TAG}")
    assert (again.status, again.body) == (304, b"")


def test_answers_without_a_time(site: Site) -> None:
    date = http_date(MODIFIED).decode()
    assert site.get("/made", f"If-Modified-Since: {date}").status == 200
    assert site.get("/made", f"If-Unmodified-Since: {date}").status == 200
    assert site.get("/made", 'If-Match: "x"').status == 412
    assert site.get("/none", "If-None-Match: *").status == 404
