"""`map`: a variable whose value is looked up by a text (ngx_http_map_module)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway import log
from gateway.config.args import encode, integer, size
from gateway.config.schema import Arg, ConfigError, In, Merge, Place, Statement, Text, block, directive, many
from gateway.http.condition import compiled
from gateway.http.declared import Find, Lookup, declare, declare_names, variable_name
from gateway.http.message import Request
from gateway.http.report import report
from gateway.http.router import captured
from gateway.module import Build, Compiled, Module
from gateway.pattern import MatchError, Pattern

_HASHES = "tables are Python dictionaries"


@dataclass(slots=True)
class Table:
    """One `map` block as written."""

    source: Text
    name: str
    place: Place
    hostnames: bool = False
    volatile: bool = False
    default: Text | None = None
    texts: dict[str, Text] = field(default_factory=dict)
    heads: dict[str, Text] = field(default_factory=dict)  # ".example.com" of "*.example.com" and of ".example.com"
    tails: dict[str, Text] = field(default_factory=dict)  # "www.example." of "www.example.*"
    patterns: list[tuple[Pattern, Text]] = field(default_factory=list)


def map_argument(statement: Statement) -> Table:
    """`map string $variable { … }`."""
    source, name = statement.args
    entries = statement.block or ()
    table = Table(Text(source, statement.place), variable_name(name), statement.place)
    for entry in entries:
        try:
            _enter(table, entry)
        except ConfigError as error:
            error.place = error.place or entry.place
            raise
    return table


def _enter(table: Table, entry: Statement) -> None:
    if entry.block is not None:
        raise ConfigError('unexpected "{"')
    if not entry.args and entry.name in ("hostnames", "volatile"):
        setattr(table, entry.name, True)
        return
    if len(entry.args) != 1:
        raise ConfigError("invalid number of the map parameters")
    key, value = entry.name, Text(entry.args[0], entry.place)
    if key == "default":
        if table.default is not None:
            raise ConfigError("duplicate default map parameter")
        table.default = value
    elif key.startswith("~"):
        caseless = key.startswith("~*")
        table.patterns.append((compiled(key[1 + caseless :], caseless), value))
    else:
        _enter_text(table, key.removeprefix("\\").lower(), value)


def _enter_text(table: Table, key: str, value: Text) -> None:
    """An exact text or, after `hostnames`, a name with a wildcard (ngx_hash_add_key)."""
    target, plain = table.texts, key
    if table.hostnames and ("*" in key or key.startswith(".")):
        if key.startswith("*.") and "*" not in key[1:] and ".." not in key:
            target, plain = table.heads, key[1:]
        elif key.startswith(".") and "*" not in key and ".." not in key and len(key) > 1:
            target = table.heads
            if key[1:] in table.texts:
                raise ConfigError(f'conflicting parameter "{key}"')
            table.texts[key[1:]] = value
        elif key.endswith(".*") and "*" not in key[:-1] and ".." not in key and len(key) > 2:
            target, plain = table.tails, key[:-1]
        else:
            raise ConfigError(f'invalid hostname or wildcard "{key}"')
    if plain in target:
        raise ConfigError(f'conflicting parameter "{key}"')
    target[plain] = value


@block
class Map:
    """The maps of a configuration."""

    map: tuple[Table, ...] = many(
        In.HTTP,
        Arg("string $variable { … }", 2, 2, map_argument, block=True),
        "A variable by lookup: texts without regard to case, wildcard names after `hostnames`, `~` patterns, "
        "`default`; with `volatile` looked up at each use.",
        merge=Merge.OWN,
    )
    map_hash_max_size: int = directive(In.HTTP, integer(1), 2048, "Size of a hash table.", idle=_HASHES)
    map_hash_bucket_size: int = directive(In.HTTP, size(), 64, "Size of a hash bucket.", idle=_HASHES)


def defining(conf: Map, build: Build) -> None:
    """Declare the variables, and those of the patterns' named groups."""
    lookups: dict[int, Lookup] = build.shared.setdefault("map", {})
    for table in conf.map:
        lookup = lookups[id(table)] = Lookup(table.name, volatile=table.volatile)
        declare(build, table.name, lookup.variable(), table.place)
        for pattern, _ in table.patterns:
            declare_names(build, pattern, table.place)


def preparing(conf: Map, build: Build) -> None:
    """Compile the tables: their texts may use variables that are defined anywhere."""
    lookups: dict[int, Lookup] = build.shared["map"]
    for table in conf.map:
        lookups[id(table)].find = _finding(table, build)


def _finding(table: Table, build: Build) -> Find:
    source = build.text(table.source)
    default = build.text(table.default if table.default is not None else "")
    texts = _compiled(table.texts, build)
    match = _matching(table, build)
    hostnames = table.hostnames

    def find(request: Request) -> bytes:
        subject = source(request)
        if hostnames:
            subject = subject.removesuffix(b".")
        found = texts.get(subject.lower())
        if found is None:
            found = match(request, subject)
        return (default if found is None else found)(request)

    return find


def _compiled(texts: dict[str, Text], build: Build) -> dict[bytes, Compiled]:
    return {encode(key): build.text(value) for key, value in texts.items()}


def _matching(table: Table, build: Build) -> Callable[[Request, bytes], Compiled | None]:
    """Wildcards, the longest first, then patterns in the order written."""
    heads, tails = _compiled(table.heads, build), _compiled(table.tails, build)
    patterns = [(pattern, build.text(value)) for pattern, value in table.patterns]

    def match(request: Request, subject: bytes) -> Compiled | None:
        found = _by_wildcard(subject.lower(), heads, tails) if heads or tails else None
        if found is not None:
            return found
        for pattern, value in patterns:
            try:
                groups = pattern.search(subject)
            except MatchError as error:
                report(request, log.ALERT, str(error))
                return None  # ngx_http_map_find: the default, without trying the other patterns
            if groups is not None:
                captured(request, pattern, groups)
                return value
        return None

    return match


def _by_wildcard(name: bytes, heads: dict[bytes, Compiled], tails: dict[bytes, Compiled]) -> Compiled | None:
    at = name.find(b".")
    while at >= 0 and heads:
        found = heads.get(name[at:])
        if found is not None and at:
            return found
        at = name.find(b".", at + 1)
    at = name.rfind(b".")
    while at > 0 and tails:
        found = tails.get(name[: at + 1])
        if found is not None:
            return found
        at = name.rfind(b".", 0, at)
    return None


module = Module(name="map", conf=Map, define=defining, prepare=preparing)
