"""Which answers may be kept, and for how long: nginx's reading of the answer's head.

Precedence: X-Accel-Expires, then Cache-Control, then Expires, then `proxy_cache_valid`. Set-Cookie, `Vary: *`,
no-store, no-cache and private keep an answer out. Source: ngx_http_upstream_process_cache_control and its kin;
https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_cache_valid; RFC 5861 (stale-…).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gateway.cache.key import VARY_BYTES
from gateway.http.dates import parse_date

LONGEST = 2**63 - 1
_FORBIDDING = (b"no-cache", b"no-store", b"private")

Rules = tuple[tuple[int, int], ...]  # status (0: any) and seconds, in the order configured


@dataclass(slots=True)
class Verdict:
    """What a head says: times are seconds since the epoch and seconds beyond them."""

    storable: bool = True
    valid: int = 0  # until when it is fresh; 0: the head does not say
    updating: int = 0  # stale-while-revalidate
    error: int = 0  # stale-if-error
    vary: bytes = b""
    # why not, in one word, "" if storable
    reason: str = ""
    forbidden: bool = False  # nginx's no_cache
    expired: bool = False
    accelerated: bool = False  # an X-Accel-Expires has been seen

    def refuse(self, reason: str) -> None:
        """It is not kept, whatever else the head says."""
        self.storable = False
        self.reason = self.reason or reason


def judge(pairs: Iterable[tuple[bytes, bytes]], ignored: frozenset[bytes], now: int) -> Verdict:
    """Read a head (lower-case names). `ignored`: names of proxy_ignore_headers."""
    verdict = Verdict()
    for name, value in pairs:
        read = _READERS.get(name)
        if read is not None and name not in ignored:
            read(verdict, value, now)
    if verdict.storable and (verdict.forbidden or verdict.expired):
        verdict.refuse("no-store" if verdict.forbidden else "expired")
    if len(verdict.vary) > VARY_BYTES:
        verdict.refuse("vary")
    return verdict


def valid_for(rules: Rules, status: int) -> int:
    """`proxy_cache_valid`: the seconds for a status, 0 if none; the first rule that fits."""
    for wanted, seconds in rules:
        if wanted in (0, status):
            return seconds
    return 0


def _accel_expires(verdict: Verdict, value: bytes, now: int) -> None:
    if verdict.accelerated:
        return  # nginx ignores the second
    verdict.accelerated = True
    absolute = value.startswith(b"@")
    digits = value[1:] if absolute else value
    if not digits.isdigit() or int(digits) > LONGEST:
        return
    number = int(digits)
    if not number and not absolute:
        verdict.refuse("x-accel-expires")
        return
    verdict.valid = number if absolute else now + number
    verdict.forbidden = verdict.expired = False


def _cache_control(verdict: Verdict, value: bytes, now: int) -> None:
    value = value.lower()
    if not (verdict.valid and verdict.accelerated):
        if any(word in value for word in _FORBIDDING):
            verdict.forbidden = True
            return
        age = _seconds(value, b"s-maxage=")
        if age is None:
            age = _seconds(value, b"max-age=")
        if age == 0:
            verdict.forbidden = True
            return
        if age is not None and age < 0:
            verdict.refuse("cache-control")
            return
        if age is not None:
            verdict.valid = min(now + age, LONGEST)
            verdict.expired = False
    _extensions(verdict, value)


def _extensions(verdict: Verdict, value: bytes) -> None:
    """RFC 5861."""
    for word in (b"stale-while-revalidate=", b"stale-if-error="):
        seconds = _seconds(value, word)
        if seconds is None:
            continue
        if seconds < 0:
            verdict.refuse("cache-control")
            return
        if word == b"stale-while-revalidate=":
            verdict.updating = seconds
        verdict.error = seconds


def _seconds(value: bytes, word: bytes) -> int | None:
    """The number after a word: None without the word, -1 for what is no number."""
    at = value.find(word)
    if at < 0:
        return None
    digits = value[at + len(word) :].replace(b";", b",").replace(b" ", b",").partition(b",")[0]
    if not digits:
        return 0
    return min(int(digits), LONGEST) if digits.isdigit() and len(digits) < 4000 else -1


def _expires(verdict: Verdict, value: bytes, now: int) -> None:
    if verdict.valid:
        return
    stated = parse_date(value)
    if stated < now:
        verdict.expired = True
    else:
        verdict.valid = stated


def _set_cookie(verdict: Verdict, _value: bytes, _now: int) -> None:
    verdict.refuse("set-cookie")


def _vary(verdict: Verdict, value: bytes, _now: int) -> None:
    if value == b"*":
        verdict.refuse("vary")
    verdict.vary = verdict.vary + b", " + value if verdict.vary else value


_READERS: Mapping[bytes, Callable[[Verdict, bytes, int], None]] = {
    b"x-accel-expires": _accel_expires,
    b"cache-control": _cache_control,
    b"expires": _expires,
    b"set-cookie": _set_cookie,
    b"vary": _vary,
}
