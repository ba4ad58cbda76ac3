"""Keep the answers of upstream servers and give them again: `proxy_cache` (ngx_http_proxy_module, ngx_http_file_cache).

Source: https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_cache. All workers share the files of a cache;
nothing has to be loaded at start, and there is no process of its own to keep a cache within its bounds.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway import log, zones
from gateway.cache.marks import Marks
from gateway.cache.passage import WRAP, Passage
from gateway.cache.serving import Rules, Serving
from gateway.cache.store import Cache
from gateway.cache.sweep import Sweep
from gateway.cache.ticket import NOTE, STATUS, Ticket
from gateway.config.args import (
    bits,
    bytes_of,
    duration,
    encode,
    flag,
    integer,
    number,
    offset,
    resolved,
    seconds_of,
    text,
    texts,
)
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Place, Statement, Text, block, directive, many
from gateway.http.dates import http_date, parse_date
from gateway.http.message import Handler, HttpError, Request
from gateway.http.report import report
from gateway.http.service import Service
from gateway.module import Build, Module, Phase, Variable
from gateway.zones import Zone

KIND = "proxy_cache"  # of its zones
_METHODS = ("get", "head", "post", "put", "delete", "mkcol", "copy", "move", "options", "propfind", "proppatch",
            "lock", "unlock", "patch", "trace")  # fmt: skip
_STALE = (
    "error", "timeout", "invalid_header", "non_idempotent", "updating", "http_500", "http_502", "http_503",
    "http_504", "http_403", "http_404", "http_429", "off",
)  # fmt: skip
_USUAL = (200, 301, 302)  # what `proxy_cache_valid time;` is for
_MOST_LEVELS = 3
_LEAST = 2 * os.sysconf("SC_PAGESIZE")  # of a zone
_BETWEEN = (100, 599)  # statuses


@dataclass(slots=True)
class Declared:
    """One `proxy_cache_path`; sizes in bytes, times in seconds."""

    path: str
    place: Place
    levels: tuple[int, ...] = ()
    name: str = ""
    zone: int = 0
    inactive: float = 600.0
    max_size: int = -1
    min_free: int = 0


def _declared(statement: Statement) -> Declared:
    place = statement.place
    made = Declared(resolved(statement, statement.args[0]).rstrip("/") or "/", place)
    for word in statement.args[1:]:
        name, equals, value = word.partition("=")
        read = _PARAMETERS.get(name) if equals else None
        if read is None:
            raise ConfigError(f'invalid parameter "{word}"', place)
        read(made, value, word)
    if not made.name:
        raise ConfigError(f'"{statement.name}" must have "keys_zone" parameter', place)
    return made


def _levels(made: Declared, value: str, word: str) -> None:
    levels = value.split(":")
    if len(levels) > _MOST_LEVELS or any(level not in ("1", "2") for level in levels):
        raise ConfigError(f'invalid "levels" "{word}"', made.place)
    made.levels = tuple(map(int, levels))


def _keys_zone(made: Declared, value: str, word: str) -> None:
    name, colon, size = value.partition(":")
    try:
        made.zone = bytes_of(size) if colon and name else -1
    except ValueError:
        made.zone = -1
    if made.zone < 0:
        raise ConfigError(f'invalid keys zone size "{word}"', made.place)
    if made.zone < _LEAST:
        raise ConfigError(f'keys zone "{word}" is too small', made.place)
    made.name = name


def _parameter(name: str, convert: Callable[[str], Any], kept: bool = True) -> Callable[[Declared, str, str], None]:
    def read(made: Declared, value: str, word: str) -> None:
        try:
            converted = convert(value)
        except ValueError:
            raise ConfigError(f'invalid {name} value "{word}"', made.place) from None
        if kept:
            setattr(made, name, converted)

    return read


def _use_temp_path(made: Declared, value: str, word: str) -> None:
    if value not in ("on", "off"):
        raise ConfigError(f'invalid use_temp_path value "{word}", it must be "on" or "off"', made.place)


_PARAMETERS: dict[str, Callable[[Declared, str, str], None]] = {
    "levels": _levels,
    "keys_zone": _keys_zone,
    "use_temp_path": _use_temp_path,  # files are always written within the cache's own folder, and renamed there
    "inactive": _parameter("inactive", lambda value: seconds_of(value, whole=True)),
    "max_size": _parameter("max_size", lambda value: bytes_of(value, "kKmMgG")),
    "min_free": _parameter("min_free", lambda value: bytes_of(value, "kKmMgG")),
    # there is nothing to load, and the sweep goes at its own pace
    "loader_files": _parameter("loader_files", number, kept=False),
    "loader_sleep": _parameter("loader_sleep", seconds_of, kept=False),
    "loader_threshold": _parameter("loader_threshold", seconds_of, kept=False),
    "manager_files": _parameter("manager_files", number, kept=False),
    "manager_sleep": _parameter("manager_sleep", seconds_of, kept=False),
    "manager_threshold": _parameter("manager_threshold", seconds_of, kept=False),
}


def _valid(statement: Statement) -> tuple[tuple[int, int], ...]:
    *words, last = statement.args
    try:
        seconds = int(seconds_of(last, whole=True))
    except ValueError:
        raise ConfigError(f'invalid time value "{last}"', statement.place) from None
    rules = []
    for word in words:
        status = 0 if word == "any" else int(word) if word.isdigit() else -1
        if word != "any" and not _BETWEEN[0] <= status <= _BETWEEN[1]:
            raise ConfigError(f'invalid status "{word}"', statement.place)
        rules.append((status, seconds))
    return tuple(rules) if words else tuple((status, seconds) for status in _USUAL)


@block
class ProxyCache:
    """What is kept, under which key, for how long, and who may have what is out of date."""

    proxy_cache_path: tuple[Declared, ...] = many(
        In.HTTP,
        Arg(
            "path [levels=levels] [use_temp_path=on|off] keys_zone=name:size [inactive=time] [max_size=size]"
            " [min_free=size] [manager_files=number] [manager_sleep=time] [manager_threshold=time]"
            " [loader_files=number] [loader_sleep=time] [loader_threshold=time]",
            2,
            None,
            _declared,
        ),
        "A cache: its folder, its bounds, and a zone for what workers tell each other. `use_temp_path`, `manager_…` and"
        " `loader_…` have no effect: files are written within the folder and renamed, there is nothing to load, and the"
        " sweep that keeps the bounds paces itself.",
    )
    proxy_cache: Text | None = directive(ANYWHERE, text("zone | off"), None, "The cache to use.", default_text="off")
    proxy_cache_key: Text | None = directive(
        ANYWHERE,
        text("string"),
        None,
        "What an answer is kept under.",
        default_text="$scheme$proxy_host$request_uri",
    )
    proxy_cache_valid: tuple[tuple[tuple[int, int], ...], ...] = many(
        ANYWHERE,
        Arg("[code ...] time", 1, None, _valid),
        "For how long answers are kept that do not say it themselves.",
    )
    proxy_cache_methods: frozenset[str] = directive(
        ANYWHERE, bits(*_METHODS), frozenset(("get", "head")), "Methods whose answers are kept.",
        default_text="GET HEAD",
    )  # fmt: skip
    proxy_cache_min_uses: int = directive(ANYWHERE, integer(), 1, "After how many requests an answer is kept.")
    proxy_cache_bypass: tuple[tuple[Text, ...], ...] = many(
        ANYWHERE, texts(), "Conditions on which an answer is not taken from the cache."
    )
    proxy_no_cache: tuple[tuple[Text, ...], ...] = many(
        ANYWHERE, texts(), "Conditions on which an answer is not put into the cache."
    )
    proxy_cache_lock: bool = directive(
        ANYWHERE, flag(), False, "Let one request fetch an answer; others have it from there, as it comes."
    )
    proxy_cache_lock_timeout: float = directive(ANYWHERE, duration(), 5.0, "How long others wait.", default_text="5s")
    proxy_cache_lock_age: float = directive(
        ANYWHERE, duration(), 5.0, "When another one may fetch too.", default_text="5s"
    )
    proxy_cache_use_stale: frozenset[str] = directive(
        ANYWHERE, bits(*_STALE), frozenset(), "When an answer that is out of date is given.", default_text="off"
    )
    proxy_cache_background_update: bool = directive(
        ANYWHERE, flag(), False, "Fetch anew after the client has had the old answer."
    )
    proxy_cache_revalidate: bool = directive(ANYWHERE, flag(), False, "Ask the server whether it still holds.")
    proxy_cache_convert_head: bool = directive(ANYWHERE, flag(), True, "Fetch by GET what is asked for by HEAD.")
    proxy_cache_max_range_offset: int = directive(
        ANYWHERE, offset(), -1, "Ranges that begin further on are fetched alone, and not kept.", default_text="-"
    )


def declaring(conf: ProxyCache, build: Build) -> None:
    """Make the caches. Raises ConfigError."""
    if build.level.context is not In.HTTP:
        return
    caches: dict[bytes, Cache] = build.shared.setdefault(ProxyCache, {})
    for made in conf.proxy_cache_path:
        name = encode(made.name)
        if name in caches:
            raise ConfigError(f'duplicate zone "{made.name}"', made.place)
        zone = zones.declare(build.shared, Zone(made.name, made.zone, KIND, made.path), made.place)
        caches[name] = Cache(
            made.name, made.path, made.levels, made.inactive, made.max_size, made.min_free, Marks(zone)
        )


def caching(conf: ProxyCache, build: Build) -> Handler | None:
    """Stand before `proxy` where there is a cache: its factory, which comes next, asks for it. Raises ConfigError."""
    if conf.proxy_cache is None or conf.proxy_cache.raw == "off":
        return None
    rules = Rules(
        cache=_chosen(conf.proxy_cache, build),
        key=None if conf.proxy_cache_key is None else build.text(conf.proxy_cache_key),
        methods=frozenset(encode(word.upper()) for word in conf.proxy_cache_methods | {"get", "head"}),
        bypass=tuple(build.text(word) for words in conf.proxy_cache_bypass for word in words),
        no_cache=tuple(build.text(word) for words in conf.proxy_no_cache for word in words),
        valid=tuple(rule for rules in conf.proxy_cache_valid for rule in rules),
        use_stale=frozenset() if "off" in conf.proxy_cache_use_stale else conf.proxy_cache_use_stale,
        min_uses=conf.proxy_cache_min_uses,
        lock=conf.proxy_cache_lock,
        lock_timeout=conf.proxy_cache_lock_timeout,
        lock_age=conf.proxy_cache_lock_age,
        background=conf.proxy_cache_background_update,
        revalidate=conf.proxy_cache_revalidate,
        convert_head=conf.proxy_cache_convert_head,
        max_range_offset=conf.proxy_cache_max_range_offset,
    )

    def wrap(passage: Passage) -> Handler:
        return Serving(rules, passage).handle

    build.notes[WRAP] = wrap
    return None


def _chosen(name: Text, build: Build) -> Callable[[Request], Cache | None]:
    caches: dict[bytes, Cache] = build.shared.get(ProxyCache, {})
    compiled = build.text(name)
    if compiled.constant is not None:
        fixed = caches.get(compiled.constant)
        if fixed is None:
            raise ConfigError(f'"proxy_cache" zone "{name.raw}" is unknown', name.place)
        return lambda _request: fixed

    def choose(request: Request) -> Cache | None:
        chosen = compiled(request)
        if chosen in (b"", b"off"):
            return None
        found = caches.get(chosen)
        if found is None:
            report(request, log.ERROR, f'cache "{chosen.decode("utf-8", "surrogateescape")}" not found')
            raise HttpError(500)
        return found

    return choose


def starting(shared: dict[Any, Any]) -> None:
    """In a worker: open the zones, and begin to keep the caches within their bounds."""
    zones.start(shared)
    service = shared.get(Service)
    if service is not None:
        shared[Sweep] = [Sweep(cache, service.loop) for cache in shared.get(ProxyCache, {}).values()]


# --- variables


def _ticket(read: Callable[[Ticket], bytes | None]) -> Variable:
    def get(request: Request) -> bytes | None:
        ticket = request.note(NOTE)
        return None if ticket is None else read(ticket)

    return Variable(get)


def _status(request: Request) -> bytes | None:
    ticket = request.note(NOTE)
    return request.value(STATUS) if ticket is None else ticket.status


def _last_modified(ticket: Ticket) -> bytes | None:
    value = ticket.validator(b"last-modified")
    return None if value is None else http_date(parse_date(value))


module = Module(
    name="proxy_cache",
    conf=ProxyCache,
    prepare=declaring,
    handlers={Phase.CONTENT: caching},
    variables={
        STATUS: Variable(_status),
        "upstream_cache_last_modified": _ticket(_last_modified),
        "upstream_cache_etag": _ticket(lambda ticket: ticket.validator(b"etag")),
        "cache_skip_reason": _ticket(lambda ticket: encode(ticket.reason) or None),
    },
    start=starting,
)
