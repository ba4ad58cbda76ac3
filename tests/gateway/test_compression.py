"""The rules of compression that all codings share."""

from typing import Any

import pytest

from gateway.http import compression
from gateway.http.compression import Compression, announce, gzip_conditions, look
from gateway.http.dates import http_date
from gateway.pattern import Pattern
from tests.gateway.compressing import answering, asking, level

PAST, FUTURE = http_date(1_000_000_000).decode(), http_date(4_000_000_000).decode()

# gzip_proxied, request headers, response headers, whether gzip is used (ngx_http_gzip_ok)
PROXIED: list[tuple[str, dict[str, str], dict[str, str], bool]] = [
    ("off", {}, {}, False),
    ("any", {}, {"Cache_Control": "max-age=9"}, True),
    ("auth", {"Authorization": "x"}, {"Expires": FUTURE}, True),
    ("auth", {}, {"Expires": FUTURE}, False),
    ("auth", {}, {}, True),
    ("expired", {}, {"Expires": PAST}, True),
    ("expired", {}, {"Expires": FUTURE}, False),
    ("expired", {}, {"Expires": "never"}, False),
    ("expired", {}, {"Cache_Control": "no-cache"}, False),
    ("no-cache", {}, {"Expires": PAST, "Cache_Control": "no-cache"}, False),
    ("no-cache", {}, {"Cache_Control": "max-age=0, No-Cache"}, True),
    ("no-cache", {}, {"Cache_Control": "no-cache=x"}, False),
    ("no-store", {}, {"Cache_Control": "no-store"}, True),
    ("no-store", {}, {"Cache_Control": "no-storey"}, False),
    ("private", {}, {"cache_control": "private"}, True),
    ("no_etag", {}, {"ETag": '"x"'}, False),
    ("no_etag", {}, {}, True),
    ("no_last_modified", {}, {}, True),
    ("expired", {}, {}, True),
]


@pytest.mark.parametrize(("word", "sent", "answered", "used"), PROXIED)
def test_gzip_proxied(word: str, sent: dict[str, str], answered: dict[str, str], used: bool) -> None:
    admits = gzip_conditions(Compression(gzip_proxied=frozenset({word})))
    assert admits(asking(Via="1.1 x", **sent), answering(**answered)) is used
    assert admits(asking(**sent), answering(**answered)), "no Via: not asked"


def test_gzip_proxied_no_last_modified() -> None:
    admits = gzip_conditions(Compression(gzip_proxied=frozenset({"no_last_modified"})))
    response = answering()
    response.last_modified = 5
    assert not admits(asking(Via="x"), response)


def test_gzip_proxied_counts_from_an_upstreams_date() -> None:
    admits = gzip_conditions(Compression(gzip_proxied=frozenset({"expired"})))
    response = answering(Expires=FUTURE)
    response.date = http_date(4_000_000_001)
    assert admits(asking(Via="x"), response)


@pytest.mark.parametrize(("least", "http", "used"), [("1.1", 11, True), ("1.1", 10, False), ("1.0", 10, True)])
def test_gzip_http_version(least: str, http: int, used: bool) -> None:
    admits = gzip_conditions(Compression(gzip_http_version=least))
    assert admits(asking(http=http), answering()) is used


AGENTS = {
    "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)": True,
    "Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.1)": True,
    "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)": False,
    "Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 5.1)": False,
    "Opera/9.0 MSIE 6.0": False,
    "Wget/1.2": True,
}


@pytest.mark.parametrize("agent", AGENTS)
def test_gzip_disable(agent: str) -> None:
    admits = gzip_conditions(Compression(gzip_disable=(None, Pattern(b"wget", caseless=True))))
    assert admits(asking(User_Agent=agent), answering()) is not AGENTS[agent]
    assert admits(asking(), answering())


@pytest.mark.parametrize(
    ("tag", "sent"), [('"a"', 'W/"a"'), ('W/"a"', 'W/"a"'), ("bare", None), (None, None)], ids=repr
)
def test_the_head_says_so(tag: str | None, sent: str | None) -> None:
    response = answering(**({"Etag": tag} if tag else {}), X="1")
    announce(response, b"br", look(response.fields))
    assert response.find(b"etag") == (sent.encode() if sent else None)
    assert response.find(b"content-encoding") == b"br"
    assert response.find(b"x") == b"1"
    assert (response.length, response.ranges) == (-1, False)


@pytest.mark.parametrize("name", ["Content-Encoding", "content-encoding", "CONTENT-ENCODING"])
def test_an_encoded_body_is_seen(name: str) -> None:
    assert look(answering(**{name: "gzip"}).fields) == compression.ENCODED
    assert look(answering(**{name: ""}).fields) == compression.NO_ETAG


def test_offers_belong_to_their_level() -> None:
    first, second = level(), level()
    second.shared = first.shared
    offer: Any = object()
    compression.offer(first, offer)
    assert compression.offered(second) == ()
    assert compression.offered(first) == (offer,)
    assert compression.offered(first) == (), "a level is compiled once"


def test_wishes_belong_to_their_level() -> None:
    build, request = level(), asking()
    assert compression.wishes(build) is None
    compression.expect_wishes(build)
    learn = compression.wishes(build)
    assert learn is not None and learn(request, answering()) is None
    compression.wish(request, compression.Wish(("gzip",)))
    assert learn(request, answering()) == compression.Wish(("gzip",))


def test_a_policy_comes_before_wishes() -> None:
    build, request = level(), asking()
    compression.expect_wishes(build, lambda request, response: compression.Wish(()))
    learn = compression.wishes(build)
    compression.wish(request, compression.Wish(("gzip",)))
    assert learn is not None and learn(request, answering()) == compression.Wish(())


@pytest.mark.parametrize(
    ("taken", "given", "shown"),
    [(1000, 100, b"10.00"), (1000, 3, b"333.33"), (1999, 1000, b"2.00"), (10, 12, b"0.83"), (5, 0, None)],
)
def test_the_ratio(taken: int, given: int, shown: bytes | None) -> None:
    class Made:
        coding = "gzip"

    request = asking()
    assert compression.ratio("gzip")(request) is None
    made: Any = Made()
    made.taken, made.given = taken, given
    request.keep(compression.MADE, made)
    assert compression.ratio("gzip")(request) == shown
    assert compression.ratio("br")(request) is None
