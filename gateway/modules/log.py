"""The access log (`access_log`, `log_format`, `open_log_file_cache`).

Formats are compiled in `gateway.http.logline`. Lines go to the process's log files, which write them at once or, when
busy, once per turn of the loop. Source: https://nginx.org/en/docs/http/ngx_http_log_module.html
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway import log, syslog
from gateway.config.args import bytes_of, duration, seconds_of
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Place, Statement, Text, block, directive, many
from gateway.http.logline import ESCAPES, PLAIN, Lookup, formatting
from gateway.http.message import Logger, Request
from gateway.module import Build, Module, Variable
from gateway.syslog import SYSLOG

BUFFER = 65536  # bytes: nginx's default where only gzip or flush asks for a buffer
LEVEL = 1  # nginx's default of `gzip`: fastest

COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)
_NAMED = Place("", 0)


@dataclass(frozen=True, slots=True)
class Format:
    """A `log_format`."""

    name: str
    texts: tuple[Text, ...]
    escape: str = "default"

    @property
    def place(self) -> Place | None:
        """Where it stands; None for the one that is built in."""
        return self.texts[0].place


@dataclass(frozen=True, slots=True)
class Target:
    """An `access_log`. `level` is gzip's, 0: none; `buffer` 0: none; `flush` 0: when the buffer is full."""

    path: str  # completed; "" is "off"; may hold variables
    shown: str  # as written
    format: str
    place: Place
    buffer: int = 0
    flush: float = 0.0
    level: int = 0
    condition: Text | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """`open_log_file_cache`."""

    most: int
    inactive: float = 10.0
    uses: int = 1
    valid: float = 60.0


def _format(statement: Statement) -> Format:
    name, *words = statement.args
    escape = "default"
    if words[0].startswith("escape="):
        escape = words.pop(0)[7:]
        if escape not in ESCAPES:
            raise ConfigError(f'unknown log format escaping "{escape}"', statement.place)
    return Format(name, tuple(Text(word, statement.place) for word in words or [""]), escape)


def _target(statement: Statement) -> Target:
    word, *options = statement.args
    if word == "off":
        if options:
            raise ConfigError(f'invalid parameter "{options[0]}"', statement.place)
        return Target("", word, "", statement.place)
    try:
        # other than in error_log, "stderr" is a file name here
        prefix = statement.paths.prefix
        path = log.target(word, prefix) if word.startswith(SYSLOG) else os.path.join(prefix, word)
    except log.LogError as error:
        raise ConfigError(str(error), statement.place) from None
    named = bool(options) and not options[0].startswith(("buffer=", "flush=", "gzip=", "if=")) and options[0] != "gzip"
    format_name = options.pop(0) if named else "combined"
    given: dict[str, Any] = {}
    for option in options:
        _option(given, option, statement.place)
    if given.get("level") and not given.get("buffer"):
        given["buffer"] = BUFFER
    target = Target(path, word, format_name, statement.place, **given)
    _judge(target)
    return target


def _option(given: dict[str, Any], option: str, place: Place) -> None:
    name, equals, value = option.partition("=")
    try:
        if name == "buffer" and equals:
            given["buffer"] = bytes_of(value) or int("")
        elif name == "flush" and equals:
            given["flush"] = seconds_of(value) or int("")
        elif name == "gzip":
            given["level"] = int(value) if equals else LEVEL
            if not 1 <= given["level"] <= 9:
                raise ValueError
        elif name == "if" and equals:
            given["condition"] = Text(value, place)
        else:
            raise ConfigError(f'invalid parameter "{option}"', place)
    except ValueError:
        what = {"buffer": "buffer size", "flush": "flush time", "gzip": "compression level"}[name]
        raise ConfigError(f'invalid {what} "{value}"', place) from None


def _judge(target: Target) -> None:
    if target.flush and not target.buffer:
        raise ConfigError(f'no buffer is defined for access_log "{target.shown}"', target.place)
    if target.buffer and "$" in target.path:
        raise ConfigError("buffered logs cannot have variables in name", target.place)
    if target.buffer and target.path.startswith(SYSLOG):
        raise ConfigError("logs to syslog cannot be buffered", target.place)


def _cache(statement: Statement) -> Cache | None:
    if statement.args == ("off",):
        return None
    given: dict[str, Any] = {"most": 0}
    for word in statement.args:
        name, _, value = word.partition("=")
        try:
            if name in ("max", "min_uses"):
                given["most" if name == "max" else "uses"] = int(value)
            elif name in ("inactive", "valid"):
                given[name] = duration(whole=True).parse(
                    Statement(name, (value,), None, statement.place, statement.paths)
                )
            else:
                raise ValueError
        except ValueError:
            raise ConfigError(f'invalid "open_log_file_cache" parameter "{word}"', statement.place) from None
    if given["most"] <= 0:
        raise ConfigError('"open_log_file_cache" must have "max" parameter', statement.place)
    return Cache(**given)


@block
class Log:
    """Access logging."""

    log_format: tuple[Format, ...] = many(
        In.HTTP, Arg("name [escape=default|json|none] string ...", 2, None, _format), "Name a format of log lines."
    )
    access_log: tuple[Target, ...] = many(
        ANYWHERE | In.IF_LOCATION | In.LIMIT_EXCEPT,
        Arg("off | path [format [buffer=size] [gzip[=level]] [flush=time] [if=condition]]", 1, None, _target),
        "Where requests are logged; without any: logs/access.log in the format combined.",
    )
    open_log_file_cache: Cache | None = directive(
        ANYWHERE,
        Arg("max=N [inactive=time] [min_uses=N] [valid=time] | off", 1, 4, _cache),
        None,
        "Keep files whose names hold variables open.",
        default_text="off",
    )


# --- targets

Sink = Callable[[Request, bytes], None]


def _into_file(target: Target) -> Sink:
    file = log.files.get(target.path)
    if target.level:
        from gateway.codings import encode

        file.pack = lambda data: encode("gzip", data, target.level)
    file.size, file.interval = target.buffer, target.flush
    add = file.add
    return lambda _request, line: add(line)


def _into_syslog(target: Target) -> Sink:
    server = syslog.server(target.path)
    return lambda _request, line: server.send(line)


def _by_name(target: Target, conf: Log, build: Build) -> Sink:
    """A file whose name holds variables: opened for each line, or kept open for a while.

    As in nginx nothing is logged while the folder that `root` names is not there.
    """
    path = build.text(Text(target.path, target.place))
    cache = conf.open_log_file_cache or Cache(0)
    kept = log.Opened(cache.most, cache.inactive, cache.uses, cache.valid)

    def write(request: Request, line: bytes) -> None:
        if os.path.isdir(request.location.folder(request)):
            kept.write(path(request), line)

    return write


def _sink(target: Target, conf: Log, build: Build) -> Sink:
    if target.path.startswith(SYSLOG):
        return _into_syslog(target)
    return _by_name(target, conf, build) if "$" in target.path else _into_file(target)


# --- the module


def _check(conf: Log, _level: object) -> None:
    """Formats have one meaning each, and so have files."""
    seen = {"combined"}
    for item in conf.log_format:
        if item.name in seen:
            raise ConfigError(f'duplicate "log_format" name "{item.name}"', item.place)
        seen.add(item.name)
    for target in conf.access_log:
        if target.path and target.format not in seen:
            raise ConfigError(f'unknown log format "{target.format}"', target.place)


def _prepare(conf: Log, build: Build) -> None:
    """A mistake in a format is one even if no log uses it."""
    for item in conf.log_format:
        formatting(item.texts, item.escape, _lookup(build, item.place), b"")


def _lookup(build: Build, place: Place | None) -> Lookup:
    return lambda name: build.variable(name, place).get


def _agree(target: Target, build: Build) -> None:
    known = build.shared.setdefault(Target, {})
    first = known.setdefault(target.path, target)
    if (first.buffer, first.flush, first.level) != (target.buffer, target.flush, target.level):
        message = f'access_log "{target.shown}" already defined with conflicting parameters'
        raise ConfigError(message, target.place)


def logging(conf: Log, build: Build) -> Logger | None:
    """The loggers of a level as one function."""
    targets = conf.access_log or _standard(build.prefix)
    if any(not target.path for target in targets):
        return None
    formats = {item.name: item for item in (Format("combined", (Text(COMBINED),)), *conf.log_format)}
    made = []
    for target in targets:
        if not target.path.startswith(SYSLOG):
            _agree(target, build)
        made.append(_one(target, formats[target.format], conf, build))
    if not made:
        return None
    if len(made) == 1:
        return made[0]

    def loggers(request: Request) -> None:
        for one in made:
            one(request)

    return loggers


def _one(target: Target, wanted: Format, conf: Log, build: Build) -> Logger:
    end = b"" if target.path.startswith(SYSLOG) else b"\n"
    line = formatting(wanted.texts, wanted.escape, _lookup(build, wanted.place), end)
    sink = _sink(target, conf, build)
    if target.condition is None:
        return lambda request: sink(request, line(request))
    condition = build.text(target.condition)

    def logger(request: Request) -> None:
        if condition(request) not in (b"", b"0"):
            sink(request, line(request))

    return logger


def _standard(prefix: str) -> tuple[Target, ...]:
    """The log of a configuration that names none, where there is a folder for it."""
    for folder in (prefix + "logs", "/var/log/nginx"):
        if os.path.isdir(folder) and os.access(folder, os.W_OK):
            path = folder + "/access.log"
            return (Target(path, path, "combined", _NAMED),)
    return ()


VARIABLES = {name: Variable(get) for name, get in PLAIN.items() if name != "remote_addr"}

module = Module(name="log", conf=Log, check=_check, prepare=_prepare, logger=logging, variables=VARIABLES)
