"""Limit the rate of requests by a key (`limit_req`; ngx_http_limit_req_module): nginx's leaky bucket, to the ms.

Rates, excesses and bursts are counted in thousandths of a request, in whole numbers, rounded as nginx rounds: the same
requests at the same times get the same answers. A state is the time of its last change in milliseconds and the excess.

Source: https://nginx.org/en/docs/http/ngx_http_limit_req_module.html
"""

import asyncio
from dataclasses import dataclass
from struct import Struct
from typing import Any

from gateway import log, zones
from gateway.config.args import choice, flag, integer, number
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Level, Place, Statement, Text, block, directive, many
from gateway.http.message import Handler, HttpError, Request
from gateway.http.report import report
from gateway.module import Build, Compiled, Module, Phase, Variable
from gateway.zones import Zone, ZoneError

KIND = "limit_req_zone"
STATUS = "limit_req_status"  # the variable, kept among the request's values: it outlives internal redirects
LONGEST_KEY = 65535

_STATE = Struct("=qq")
_NEVER = 1 << 62  # the excess from which on `nodelay` delays
_STEPS = {
    "error": "warn",
    "warn": "notice",
    "notice": "info",
    "info": "info",
}  # a delay is logged one level below a refusal


@dataclass(frozen=True, slots=True)
class Declared:
    """One `limit_req_zone`: `rate` in thousandths of a request a second."""

    key: Text
    name: str
    size: int
    rate: int


@dataclass(frozen=True, slots=True)
class Limit:
    """One `limit_req`: `burst` and `delay` in thousandths of a request."""

    name: str
    burst: int
    delay: int
    place: Place


@dataclass(frozen=True, slots=True)
class Bucket:
    """A zone with its rate and key."""

    zone: Zone
    rate: int
    key: Compiled
    text: str


def _zone(statement: Statement) -> Declared:
    name, size, rate = "", 0, 1000
    for word in statement.args[1:]:
        if word.startswith("zone="):
            name, size = zones.size_of(word, statement.place)
        elif word.startswith("rate="):
            rate = _rate(word, statement.place)
        else:
            raise ConfigError(f'invalid parameter "{word}"', statement.place)
    if not name:
        raise ConfigError(f'"{statement.name}" must have "zone" parameter', statement.place)
    return Declared(Text(statement.args[0], statement.place), name, size, rate)


def _rate(word: str, place: Place) -> int:
    digits, scale = word[5:], 1
    if digits.endswith("r/s"):
        digits = digits[:-3]
    elif digits.endswith("r/m"):
        digits, scale = digits[:-3], 60
    try:
        rate = number(digits)
    except ValueError:
        rate = 0
    if not rate:
        raise ConfigError(f'invalid rate "{word}"', place)
    return rate * 1000 // scale


def _limit(statement: Statement) -> Limit:
    name, burst, delay = "", 0, 0
    for word in statement.args:
        if word.startswith("zone="):
            name = word[5:]
        elif word.startswith("burst="):
            burst = _count("burst", word, statement.place)
        elif word.startswith("delay="):
            delay = _count("delay", word, statement.place)
        elif word == "nodelay":
            delay = _NEVER
        else:
            raise ConfigError(f'invalid parameter "{word}"', statement.place)
    if not name:
        raise ConfigError(f'"{statement.name}" must have "zone" parameter', statement.place)
    return Limit(name, burst, delay, statement.place)


def _count(what: str, word: str, place: Place) -> int:
    try:
        count = number(word.partition("=")[2])
    except ValueError:
        count = 0
    if not count:
        raise ConfigError(f'invalid {what} value "{word}"', place)
    return count * 1000


@block
class LimitReq:
    """Limits of the rate of requests."""

    limit_req_zone: tuple[Declared, ...] = many(
        In.HTTP,
        Arg("key zone=name:size rate=rate", 3, 3, _zone),
        "A zone that counts requests by a key, and the rate it allows.",
    )
    limit_req: tuple[Limit, ...] = many(
        ANYWHERE,
        Arg("zone=name [burst=number] [nodelay | delay=number]", 1, 3, _limit),
        "Limit requests by a zone; up to `burst` in excess wait, more are refused.",
    )
    limit_req_status: int = directive(ANYWHERE, integer(400, 599), 503, "The status of refused requests.")
    limit_req_log_level: str = directive(
        ANYWHERE,
        choice("info", "notice", "warn", "error"),
        "error",
        "The level at which refusals are logged; delays one below.",
    )
    limit_req_dry_run: bool = directive(ANYWHERE, flag(), False, "Only count and log what would be refused or delayed.")


def _check(conf: LimitReq, level: Level) -> None:
    seen: set[str] = set()
    for limit in level.values.get((LimitReq, "limit_req"), ()):
        if limit.name in seen:
            raise ConfigError('"limit_req" directive is duplicate', limit.place)
        seen.add(limit.name)


def declaring(conf: LimitReq, build: Build) -> None:
    """Declare the zones, with their keys compiled. Raises ConfigError."""
    if build.level.context is not In.HTTP:
        return
    buckets: dict[str, Bucket] = build.shared.setdefault(LimitReq, {})
    for made in conf.limit_req_zone:
        zone = zones.declare(build.shared, Zone(made.name, made.size, KIND, made.key.raw), made.key.place)
        buckets[made.name] = Bucket(zone, made.rate, build.text(made.key), made.key.raw)


def drained(state: bytes | None, now: int, rate: int) -> tuple[int, int]:
    """What a state comes to with one more request at `now`: its new time and excess. A new state has no excess."""
    if state is None:
        return now, 0
    last, excess = _STATE.unpack(state)
    passed = now - last
    if passed < -60000:  # nginx: the clock went round
        passed = 1
    elif passed < 0:
        passed = 0
    return (now if passed else last), max(excess - rate * passed // 1000 + 1000, 0)


class Judged:
    """The judgement of one request by one level's limits, as nginx makes it (ngx_http_limit_req_handler).

    Only the last limit takes account at once; the others do when none has refused. `waited` is the delay in ms.
    """

    __slots__ = ("excess", "passed", "refused", "request", "waited", "zone")

    def __init__(self, request: Request, limits: "tuple[tuple[Limit, Bucket], ...]") -> None:
        """Raises ZoneError."""
        self.request = request
        self.refused = False
        self.waited = self.excess = 0
        self.zone = ""
        self.passed = False  # at least one limit had something to count
        pending: list[tuple[Limit, Bucket, bytes]] = []
        for index, (limit, bucket) in enumerate(limits):
            key = bucket.key(request)
            if not key:
                continue
            if len(key) > LONGEST_KEY:
                report(
                    request, log.ERROR, f'the value of the "{bucket.text}" key is more than 65535 bytes: "{_text(key)}"'
                )
                continue
            self.passed = True
            last = index == len(limits) - 1
            excess = self._look(limit, bucket, key, account=last)
            if excess > limit.burst:
                self.refused, self.excess, self.zone = True, excess, limit.name
                return
            if last:
                self._wait(limit, bucket, excess)
            else:
                pending.append((limit, bucket, key))
        for limit, bucket, key in reversed(pending):
            self._wait(limit, bucket, self._look(limit, bucket, key, account=True, force=True))

    def _look(self, limit: Limit, bucket: Bucket, key: bytes, *, account: bool, force: bool = False) -> int:
        """The excess that this request makes; kept if it is to be counted and not too much."""
        found = 0

        def change(state: bytes | None) -> bytes | None:
            nonlocal found
            last, found = drained(state, zones.milliseconds(), bucket.rate)
            return _STATE.pack(last, found) if account and (force or found <= limit.burst) else None

        bucket.zone.store.update(key, change)
        return found

    def _wait(self, limit: Limit, bucket: Bucket, excess: int) -> None:
        if excess > limit.delay:
            waited = (excess - limit.delay) * 1000 // bucket.rate
            if waited > self.waited:
                self.waited, self.excess, self.zone = waited, excess, limit.name


def limiting(conf: LimitReq, build: Build) -> Handler | None:
    """The handler of a level with limits. Raises ConfigError for an unknown zone."""
    if not conf.limit_req:
        return None
    buckets = build.shared.get(LimitReq, {})
    limits = []
    for limit in conf.limit_req:
        zones.find(build.shared, limit.name, KIND, limit.place)
        limits.append((limit, buckets[limit.name]))
    return _handler(conf, tuple(limits))


def _handler(conf: LimitReq, limits: tuple[tuple[Limit, Bucket], ...]) -> Handler:
    refusal, dry = conf.limit_req_status, conf.limit_req_dry_run
    level, lower = log.LEVELS[conf.limit_req_log_level], log.LEVELS[_STEPS[conf.limit_req_log_level]]
    note, mark = (", dry run", b"_DRY_RUN") if dry else ("", b"")

    def limit_req(request: Request) -> Any:
        main = request.main
        if main.value(STATUS) is not None:
            return None
        try:
            judged = Judged(request, limits)
        except ZoneError as error:
            report(request, log.ALERT, f"could not allocate node in limit_req zone: {error}")
            main.assign(STATUS, b"REJECTED" + mark)
            return _refuse(refusal, dry)
        if judged.refused:
            report(
                request, level, f'limiting requests{note}, excess: {_count_of(judged.excess)} by zone "{judged.zone}"'
            )
            main.assign(STATUS, b"REJECTED" + mark)
            return _refuse(refusal, dry)
        if not judged.waited:
            if judged.passed:
                main.assign(STATUS, b"PASSED")
            return None
        report(request, lower, f'delaying request{note}, excess: {_count_of(judged.excess)}, by zone "{judged.zone}"')
        main.assign(STATUS, b"DELAYED" + mark)
        return None if dry else _delay(request, judged.waited / 1000)

    return limit_req


def _refuse(status: int, dry: bool) -> None:
    if not dry:
        raise HttpError(status)


async def _delay(request: Request, seconds: float) -> None:
    """Wait, and notice if the client goes meanwhile."""
    peer: Any = request.main.peer
    peer.abort_on_eof = True
    try:
        await asyncio.sleep(seconds)
    finally:
        peer.abort_on_eof = False


def _count_of(excess: int) -> str:
    return f"{excess // 1000}.{excess % 1000:03d}"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


module = Module(
    name="limit_req",
    conf=LimitReq,
    check=_check,
    prepare=declaring,
    handlers={Phase.PREACCESS: limiting},
    variables={STATUS: Variable(lambda request: request.main.value(STATUS))},
    start=zones.start,
)
