"""One request's dealings with the cache: what it found, what it may store, which mark it holds."""

from gateway.cache.key import name_of
from gateway.cache.policy import Verdict
from gateway.cache.store import Cache, Found
from gateway.http.dates import parse_date
from gateway.http.message import Request

NOTE = "cache ticket"  # the request's note that holds it
STATUS = "upstream_cache_status"  # the variable: a value of the request where another location answers in the end
# $upstream_cache_status
MISS, BYPASS, EXPIRED, STALE = b"MISS", b"BYPASS", b"EXPIRED", b"STALE"
UPDATING, REVALIDATED, HIT = b"UPDATING", b"REVALIDATED", b"HIT"


class Ticket:
    """`name` is the one that its answer has or would have, `main` that of its key alone."""

    # what most requests never change has its value here: one is made for every request
    status = MISS
    storable = True
    reason = ""  # why it is not stored: $cache_skip_reason
    revalidated = False  # proxy_cache_revalidate: the server is asked whether what is out of date still holds
    mark = 0  # the deadline of this request's mark, 0 without one
    found: Found | None = None  # what is out of date, while something better is fetched
    forgiven = False  # stale-if-error holds
    answered: Verdict | None = None  # what the server's answer says, once it is there

    def __init__(self, cache: Cache, key: bytes) -> None:
        self.cache, self.key = cache, key
        self.main = self.name = name_of(key)

    def look(self, request: Request) -> Found | None:
        """Look for the answer."""
        self.name, found = self.cache.find(self.main, self.key, request.headers)
        return found

    def refuse(self, reason: str) -> None:
        """The answer will not be stored."""
        self.storable = False
        self.reason = self.reason or reason

    def validator(self, name: bytes) -> bytes | None:
        """A validator of what is out of date, for a conditional request; those of 200 and 206 only, as nginx."""
        if not self.revalidated or self.status is not EXPIRED or self.found is None:
            return None
        head = self.found.entry.parsed()
        if head.status not in (200, 206):
            return None
        value = head.get(name)
        if value is not None and name == b"last-modified" and parse_date(value) < 0:
            return None
        return value
