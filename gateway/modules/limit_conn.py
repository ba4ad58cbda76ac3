"""Limit the connections that are being served at a time, by a key (`limit_conn`; ngx_http_limit_conn_module).

A connection counts from when its request's head has been read to the end of the answer; each stream of HTTP/2 is one.
Counts are kept by key and worker, so what a killed worker held is known to be void.

Source: https://nginx.org/en/docs/http/ngx_http_limit_conn_module.html
"""

from dataclasses import dataclass

from gateway import log, zones
from gateway.config.args import choice, flag, integer, number
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Level, Place, Statement, Text, block, directive, many
from gateway.http.message import Handler, HttpError, Logger, Outcome, Request
from gateway.http.report import report
from gateway.module import Build, Compiled, Module, Phase, Variable
from gateway.zones import Zone, ZoneError

KIND = "limit_conn_zone"
STATUS = "limit_conn_status"  # the variable, kept among the request's values: it outlives internal redirects
LONGEST_KEY = 65535
MOST = 65535

Held = dict[Request, list[tuple[Zone, bytes]]]  # what the requests of this worker have counted


@dataclass(frozen=True, slots=True)
class Declared:
    """One `limit_conn_zone`."""

    key: Text
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Limit:
    """One `limit_conn`."""

    name: str
    most: int
    place: Place


@dataclass(frozen=True, slots=True)
class Counted:
    """A zone with its key."""

    zone: Zone
    key: Compiled
    text: str


def _zone(statement: Statement) -> Declared:
    name, size = "", 0
    for word in statement.args[1:]:
        if not word.startswith("zone="):
            raise ConfigError(f'invalid parameter "{word}"', statement.place)
        name, size = zones.size_of(word, statement.place)
    if not name:
        raise ConfigError(f'"{statement.name}" must have "zone" parameter', statement.place)
    return Declared(Text(statement.args[0], statement.place), name, size)


def _limit(statement: Statement) -> Limit:
    try:
        most = number(statement.args[1])
    except ValueError:
        most = 0
    if not most:
        raise ConfigError(f'invalid number of connections "{statement.args[1]}"', statement.place)
    if most > MOST:
        raise ConfigError("connection limit must be less 65536", statement.place)
    return Limit(statement.args[0], most, statement.place)


@block
class LimitConn:
    """Limits of the number of connections."""

    limit_conn_zone: tuple[Declared, ...] = many(
        In.HTTP, Arg("key zone=name:size", 2, 2, _zone), "A zone that counts connections by a key."
    )
    limit_conn: tuple[Limit, ...] = many(
        ANYWHERE,
        Arg("zone number", 2, 2, _limit),
        "Serve at most so many connections at a time for each value of the zone's key.",
    )
    limit_conn_status: int = directive(ANYWHERE, integer(400, 599), 503, "The status of refused requests.")
    limit_conn_log_level: str = directive(
        ANYWHERE, choice("info", "notice", "warn", "error"), "error", "The level at which refusals are logged."
    )
    limit_conn_dry_run: bool = directive(ANYWHERE, flag(), False, "Only count and log what would be refused.")


def _check(conf: LimitConn, level: Level) -> None:
    seen: set[str] = set()
    for limit in level.values.get((LimitConn, "limit_conn"), ()):
        if limit.name in seen:
            raise ConfigError('"limit_conn" directive is duplicate', limit.place)
        seen.add(limit.name)


def declaring(conf: LimitConn, build: Build) -> None:
    """Declare the zones, with their keys compiled. Raises ConfigError."""
    if build.level.context is not In.HTTP or not conf.limit_conn_zone:
        return
    held: Held = {}
    counted: dict[str, Counted] = {}
    build.shared[LimitConn] = counted, held
    for made in conf.limit_conn_zone:
        zone = zones.declare(build.shared, Zone(made.name, made.size, KIND, made.key.raw), made.key.place)
        counted[made.name] = Counted(zone, build.text(made.key), made.key.raw)


def limiting(conf: LimitConn, build: Build) -> Handler | None:
    """The handler of a level with limits. Raises ConfigError for an unknown zone."""
    if not conf.limit_conn:
        return None
    for limit in conf.limit_conn:
        zones.find(build.shared, limit.name, KIND, limit.place)
    counted, held = build.shared[LimitConn]
    limits = tuple((limit, counted[limit.name]) for limit in conf.limit_conn)
    refusal, dry = conf.limit_conn_status, conf.limit_conn_dry_run
    level = log.LEVELS[conf.limit_conn_log_level]
    note, refused = (", dry run,", b"REJECTED_DRY_RUN") if dry else ("", b"REJECTED")

    def limit_conn(request: Request) -> Outcome:
        main = request.main
        if main.value(STATUS) is not None:
            return None
        for limit, by in limits:
            key = _key(request, by)
            if not key:
                continue
            main.assign(STATUS, b"PASSED")
            if _acquire(request, limit, by.zone, key):
                held.setdefault(main, []).append((by.zone, key))
                continue
            report(request, level, f'limiting connections{note} by zone "{limit.name}"')
            _release(main, held)
            main.assign(STATUS, refused)
            if dry:
                return None
            raise HttpError(refusal)
        return None

    return limit_conn


def _key(request: Request, by: Counted) -> bytes:
    key = by.key(request)
    if len(key) > LONGEST_KEY:
        shown = key.decode("utf-8", "surrogateescape")
        report(request, log.ERROR, f'the value of the "{by.text}" key is more than 65535 bytes: "{shown}"')
        return b""
    return key


def _acquire(request: Request, limit: Limit, zone: Zone, key: bytes) -> bool:
    try:
        return zone.store.acquire(key, limit.most)
    except ZoneError as error:
        report(request, log.ALERT, f'could not allocate node in limit_conn_zone "{limit.name}": {error}')
        return False


def _release(request: Request, held: Held) -> None:
    for zone, key in held.pop(request, ()):
        try:
            zone.store.release(key)
        except ZoneError as error:
            report(request, log.ALERT, f'limit_conn_zone "{zone.name}": {error}')


def releasing(conf: LimitConn, build: Build) -> Logger | None:
    """Wherever a request may end on a site with zones: what it has counted is given back."""
    if LimitConn not in build.shared:
        return None
    held: Held = build.shared[LimitConn][1]

    def release(request: Request) -> None:
        if request in held:
            _release(request, held)

    return release


module = Module(
    name="limit_conn",
    conf=LimitConn,
    check=_check,
    prepare=declaring,
    handlers={Phase.PREACCESS: limiting},
    logger=releasing,
    variables={STATUS: Variable(lambda request: request.main.value(STATUS))},
    start=zones.start,
)
