"""From a bound configuration to a compiled `Site`: the only caller of the modules' factories."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from gateway import log, modules
from gateway.config import bind, source
from gateway.config.args import encode
from gateway.config.merge import merged
from gateway.config.schema import ConfigError, In, Level, Paths, Place, Text
from gateway.http import access, hosts, paths, variables
from gateway.http.router import Location, Locations, Server, Site
from gateway.http.settings import Addressing, Blocks, Http, Idle
from gateway.http.text import compiled
from gateway.module import Compiled, Module, Modules, Phase, Variable
from gateway.pattern import Pattern, PatternError

N = TypeVar("N")
CORE_TABLES: tuple[type, ...] = (Blocks, Addressing, Http, Idle)
_PHASES = (Phase.LATE_REWRITE, Phase.PREACCESS, Phase.ACCESS, Phase.PRECONTENT, Phase.CONTENT)


@dataclass(slots=True)
class Loaded:
    """A configuration that may run: the site, and what the process layer reads for itself."""

    site: Site
    root: Level
    source: source.Source


def load(file: str, where: Paths, process: Sequence[type], extra: str = "") -> Loaded:
    """Read, judge and compile a configuration. Raises ConfigError; nothing is bound, started or written.

    `process` are the tables of the levels main and `events`: what stands there is for the process layer to read.
    """
    text = source.read(file, where, extra)
    used = modules.load(modules.needed(text.statements))
    root = bind.bind(text.statements, [*process, *tables(used)])
    site = Compiler(root, where, used).site()
    return Loaded(site, root, text)


def tables(used: Modules) -> list[type]:
    """The tables of rows of everything in `http`: the core's and the modules'."""
    return list(dict.fromkeys([*CORE_TABLES, *(module.conf for module in used)]))


@dataclass(slots=True)
class LevelBuild:
    """What one level's factories are given (see `gateway.module.Build`)."""

    compiler: "Compiler"
    level: Level
    settings: Http
    shared: dict[Any, Any]
    prefix: str
    server_name: bytes = b""
    location_prefix: bytes = b""
    location_is_pattern: bool = False
    auto_redirect: bool = False
    notes: dict[Any, Any] = field(default_factory=dict)

    def text(self, text: Text | str) -> Compiled:
        """Compile a value with variables."""
        raw, place = (text.raw, text.place) if isinstance(text, Text) else (text, None)
        return compiled(raw, self.compiler.lookup, place)

    def variable(self, name: str, place: Place | None = None) -> Variable:
        """Look up a variable."""
        return self.compiler.lookup(name, place)

    def define(self, name: str, variable: Variable) -> None:
        """Add a variable of the configuration's own. Raises ConfigError if the name belongs to nginx."""
        self.compiler.judge_name(name)
        self.compiler.defined[name] = variable

    def conf(self, table: type[N]) -> N:
        """Another table's merged values at this level."""
        return merged(table, self.level)

    def inner(self, level: Level) -> Location:
        """Compile a nested level into a plan."""
        return self.compiler.plan(self.child(level), (level.context.name or "").lower())

    def child(self, level: Level) -> "LevelBuild":
        """The build of a nested level, in the same location."""
        return LevelBuild(
            self.compiler,
            level,
            self.compiler.settings(level),
            self.shared,
            self.prefix,
            self.server_name,
            self.location_prefix,
            self.location_is_pattern,
        )


    def warn(self, message: str, place: Place | None = None) -> None:
        """Log a warning about the configuration."""
        log.main.write(log.WARN, f"{message} in {place}" if place else message)


@dataclass(slots=True)
class Compiler:
    """Compiles one bound configuration."""

    root: Level
    where: Paths
    modules: Modules
    defined: dict[str, Variable] = field(default_factory=dict)
    builtin: dict[str, Variable] = field(default_factory=dict)
    prefixes: dict[str, Callable[[str], Variable]] = field(default_factory=dict)
    logs: dict[tuple[log.Spec, ...], log.ErrorLog] = field(default_factory=dict)
    patterns: dict[tuple[str, str], Pattern] = field(default_factory=dict)
    result: Site = field(default_factory=Site)

    def site(self) -> Site:
        """Compile everything. Raises ConfigError."""
        self.builtin = dict(variables.CORE)
        self.prefixes = dict(variables.PREFIXES)
        for module in self.modules:
            self.builtin.update(module.variables)
            self.prefixes.update(module.prefixes)
        blocks = [level for level in self.root.children if level.context is In.HTTP]
        for http in blocks:
            # relative to the prefix, which its row does not know; the process layer makes every such folder
            folder = self.where.prefix + Http().client_body_temp_path
            http.values.setdefault((Http, "client_body_temp_path"), folder)
        self._walk(self.root, self._define)
        if len(blocks) > 1:
            raise ConfigError('"http" directive is duplicate', blocks[1].place)
        for http in blocks:
            self._http(http)
        self.result.starts = [module.start for module in self.modules if module.start is not None]
        return self.result

    def _http(self, http: Level) -> None:
        described = []
        self._at_http(http)
        for level in http.children:
            if level.context is In.SERVER:
                server = self._server(level)
                self.result.servers.append(server)
                described.append((server, merged(Addressing, level), level.place))
        self.result.listens = hosts.listens(described)
        for module in self.modules:
            if module.listening is not None:
                module.listening(self.result.listens)

    def _at_http(self, http: Level) -> None:
        """Levels without requests of their own (http, upstream): their modules judge and prepare there."""
        build = self._build(http)
        for module in self.modules:
            if module.prepare is not None:
                for level in (http, *(child for child in http.children if child.context is In.UPSTREAM)):
                    module.prepare(merged(module.conf, level), build if level is http else build.child(level))

    def _build(self, level: Level, server_name: bytes = b"") -> LevelBuild:
        return LevelBuild(self, level, self.settings(level), self.result.shared, self.where.prefix, server_name)

    def settings(self, level: Level) -> Http:
        """The core's values at a level, its error log opened."""
        settings = merged(Http, level)
        specs = settings.error_log
        if specs:
            if specs not in self.logs:
                self.logs[specs] = log.ErrorLog(specs)
            settings.errors = self.logs[specs]
        return settings

    def _walk(self, level: Level, visit: Callable[[Level], None]) -> None:
        visit(level)
        for child in level.children:
            self._walk(child, visit)

    def _define(self, level: Level) -> None:
        if level.context in (In.MAIN, In.EVENTS):
            return
        for pattern in self._patterns_of(level):
            for name in pattern.names:
                self.judge_name(name, level.place)
                self.defined.setdefault(name, variables.named_capture(name))
        paths.judge(level)
        build = self._build(level)
        for module in self.modules:
            conf = merged(module.conf, level)
            if module.check is not None:
                module.check(conf, level)
            if module.define is not None:
                module.define(conf, build)

    def judge_name(self, name: str, place: Place | None = None) -> None:
        """Whether a configuration may define a variable of this name. Raises ConfigError."""
        builtin = self.builtin.get(name)
        if builtin is not None and builtin.set is None:
            raise ConfigError(f'the duplicate "{name}" variable', place)

    def lookup(self, name: str, place: Place | None) -> Variable:
        """Find a variable by name. Raises ConfigError."""
        found = self.defined.get(name) or self.builtin.get(name)
        if found is not None:
            return found
        if name.isdigit():
            return variables.capture(int(name))
        for prefix, make in self.prefixes.items():
            if name.startswith(prefix):
                return make(name[len(prefix) :])
        raise ConfigError(f'unknown "{name}" variable')

    def _server(self, level: Level) -> Server:
        name = hosts.first_name(merged(Addressing, level))
        build = self._build(level, name)
        server = Server(name, self.plan(build, ""))
        server.program = self._program(build)
        server.post_read = self._handlers(build, Phase.POST_READ)
        self._locations(build, level, server.locations, server.named)
        return server

    def _locations(self, outer: LevelBuild, level: Level, into: Locations, named: dict[str, Location]) -> None:
        for child in level.children:
            if child.context is not In.LOCATION:
                continue
            modifier, pattern = child.head
            hosts.judge_nesting(level, child)
            build = outer.child(child)
            build.auto_redirect = False
            build.location_is_pattern = modifier in ("~", "~*")
            build.location_prefix = b"" if build.location_is_pattern or modifier == "@" else encode(pattern)
            compiled_pattern = self._pattern(pattern, modifier, child.place) if build.location_is_pattern else None
            location = self._location(build, child, pattern, named)
            self._add(location, modifier, pattern, compiled_pattern, build, into, named, child.place)

    def _location(self, build: LevelBuild, level: Level, name: str, named: dict[str, Location]) -> Location:
        location = self.plan(build, name)
        location.program = self._program(build)
        for child in level.children:
            if child.context is In.LIMIT_EXCEPT:
                if location.limited is not None:
                    raise ConfigError('"limit_except" directive is duplicate', child.place)
                methods = frozenset(word.encode() for word in child.head)
                spared = methods | {b"HEAD"} if b"GET" in methods else methods
                location.limited = (spared, build.inner(child))
        if any(child.context is In.LOCATION for child in level.children):
            location.inner = Locations()
            self._locations(build, level, location.inner, named)
        return location

    def _patterns_of(self, level: Level) -> list[Pattern]:
        """The regular expressions of a location or of server names: their named groups are variables."""
        if level.context is In.LOCATION and level.head[0] in ("~", "~*"):
            return [self._pattern(level.head[1], level.head[0], level.place)]
        if level.context is In.SERVER:
            return hosts.patterns(merged(Addressing, level))
        return []

    def _pattern(self, pattern: str, modifier: str, place: Place) -> Pattern:
        made = self.patterns.get((pattern, modifier))
        if made is None:
            try:
                made = self.patterns[pattern, modifier] = Pattern(encode(pattern), modifier == "~*")
            except PatternError as error:
                raise ConfigError(str(error), place) from None
        return made

    @staticmethod
    def _add(
        location: Location,
        modifier: str,
        name: str,
        pattern: Pattern | None,
        build: LevelBuild,
        into: Locations,
        named: dict[str, Location],
        place: Place,
    ) -> None:
        key = encode(name)
        if pattern is not None:
            into.patterns.append((pattern, location))
            return
        table: dict[Any, Location] = named if modifier == "@" else into.exact if modifier == "=" else into.prefixes
        if (name if modifier == "@" else key) in table:
            raise ConfigError(f'duplicate location "{name}"', place)
        if modifier == "@":
            named[name] = location
        elif modifier == "=":
            location.exact = True
            into.exact[key] = location
        else:
            location.stops = modifier == "^~"
            location.redirect = key if build.auto_redirect and key.endswith(b"/") else None
            into.add_prefix(key, location)

    def plan(self, build: LevelBuild, name: str) -> Location:
        """Compile a level's flat plan."""
        location = Location(name, build.settings)
        location.notes = build.notes
        handlers: list[Any] = []
        steady = True
        for phase in _PHASES:
            made_by = self._made(build, phase)
            steady = steady and all(module.steady(merged(module.conf, build.level), build) for module, _ in made_by)
            found = tuple(handler for _, handler in made_by)
            if phase is Phase.ACCESS:
                found = access.folded(found, build.settings)
            handlers += map(_of_client, found) if phase is Phase.ACCESS else found
        location.handlers = tuple(handlers)
        location.folder, location.mapping = paths.folder(build), paths.mapping(build)
        location.error_pages = tuple(
            (codes, answer, build.text(uri)) for codes, answer, uri in build.settings.error_page
        )
        filters, loggers, plain = [], [], True
        for module in self.modules:
            conf = merged(module.conf, build.level)
            made = module.filter(conf, build) if module.filter is not None else None
            if made is not None:
                filters.append(made)
                plain = plain and module.steady(conf, build)
            logger = module.logger(conf, build) if module.logger is not None else None
            if logger is not None:
                loggers.append(logger)
        location.filters, location.loggers = tuple(filters), tuple(loggers)
        location.plain, location.steady = plain, plain and steady
        return location

    def _program(self, build: LevelBuild) -> Any:
        found = self._handlers(build, Phase.REWRITE)
        return found[0] if found else None

    def _handlers(self, build: LevelBuild, phase: Phase) -> tuple[Any, ...]:
        return tuple(handler for _, handler in self._made(build, phase))

    def _made(self, build: LevelBuild, phase: Phase) -> list[tuple[Module[Any], Any]]:
        """The handlers of a phase, each with its module."""
        made = []
        for module in self.modules:
            factory = module.handlers.get(phase)
            if factory is not None:
                handler = factory(merged(module.conf, build.level), build)
                if handler is not None:
                    made.append((module, handler))
        return made


def _of_client(check: Any) -> Any:
    """An access check is for the client's request alone: its subrequests pass (ngx_http_core_access_phase)."""

    @wraps(check)
    def guard(request: Any) -> Any:
        return check(request) if request.main is request else None

    return guard
