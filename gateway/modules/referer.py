"""Which sites may link here (`valid_referers`, `$invalid_referer`; ngx_http_referer_module).

The variable is empty if the Referer header is acceptable, else "1"; a configuration decides with `if` what follows.
Source: https://nginx.org/en/docs/http/ngx_http_referer_module.html
"""

from dataclasses import dataclass, field

from gateway.config.args import encode, integer, size
from gateway.config.merge import merged
from gateway.config.schema import Arg, ConfigError, In, Level, Place, Statement, block, directive, many
from gateway.http.message import Request
from gateway.http.settings import Addressing
from gateway.module import Build, Module, Variable
from gateway.pattern import Pattern, PatternError

SHORTEST = len(b"http://i.ru")  # nginx looks for a scheme only in what is at least so long
LONGEST = 256  # bytes of a host name

_HASH = "tables are Python dictionaries"


@block
class Referer:
    """Acceptable referrers."""

    valid_referers: tuple[tuple[tuple[str, ...], Place], ...] = many(
        In.SERVER | In.LOCATION,
        Arg(
            "none | blocked | server_names | string ...",
            1,
            None,
            lambda statement: (_checked(statement), statement.place),
        ),
        "Acceptable values of Referer: host names with an optional path, `*.name`, `name.*`, ~regex.",
    )
    referer_hash_max_size: int = directive(
        In.SERVER | In.LOCATION, integer(0), 2048, "The size of the hash table of names.", idle=_HASH
    )
    referer_hash_bucket_size: int = directive(
        In.SERVER | In.LOCATION, size(), 64, "The size of a bucket of that table.", idle=_HASH
    )


@dataclass(slots=True)
class Names:
    """What a level accepts. Host names map to the path that must follow, b"" for any."""

    none: bool = False
    blocked: bool = False
    exact: dict[bytes, bytes] = field(default_factory=dict)
    heads: dict[bytes, bytes] = field(default_factory=dict)  # ".example.com" of "*.example.com"
    tails: dict[bytes, bytes] = field(default_factory=dict)  # "www.example." of "www.example.*"
    servers: list[Pattern] = field(default_factory=list)  # of server_name: matched with the host
    patterns: list[Pattern] = field(default_factory=list)  # matched with all that follows the scheme

    @property
    def any(self) -> bool:
        """Whether it says anything about names; everything is accepted if not."""
        return bool(self.exact or self.heads or self.tails or self.servers or self.patterns)

    def accepts(self, referer: bytes | None) -> bool:
        """Judge a value of the header (ngx_http_referer_variable)."""
        if not self.any:
            return True
        if referer is None:
            return self.none
        rest = _after_scheme(referer)
        if rest is None:
            return self.blocked
        end = min((at for at in (rest.find(b"/"), rest.find(b":")) if at >= 0), default=len(rest))
        host = rest[:end].lower()
        if len(host) > LONGEST:
            return False
        path = self._path(host)
        if path is not None:
            slash = rest.find(b"/", end)
            return not path or (slash >= 0 and rest.startswith(path, slash))
        return any(pattern.matches(host) for pattern in self.servers) or any(
            pattern.matches(rest) for pattern in self.patterns
        )

    def _path(self, host: bytes) -> bytes | None:
        """What must follow the host, None if it is not known: exact, the longest `*.name`, the longest `name.*`."""
        found = self.exact.get(host)
        at = host.find(b".")
        while found is None and at >= 0:
            found = self.heads.get(host[at:])
            at = host.find(b".", at + 1)
        at = host.rfind(b".")
        while found is None and at > 0:
            found = self.tails.get(host[: at + 1])
            at = host.rfind(b".", 0, at)
        return found

    def add(self, word: str, place: Place | None, path: str = "") -> None:
        """Take a host name or wildcard. Raises ConfigError if it was taken before."""
        name = encode(word.lower())
        table, key = self.exact, name
        if name.startswith(b"*."):
            table, key = self.heads, name[1:]
        elif name.endswith(b".*"):
            table, key = self.tails, name[:-1]
        elif name.startswith(b"."):
            self.exact.setdefault(name[1:], encode(path))
            table = self.heads
        if key in table:
            raise ConfigError(f'conflicting parameter "{word}"', place)
        table[key] = encode(path)


def _after_scheme(referer: bytes) -> bytes | None:
    if len(referer) >= SHORTEST:
        for scheme in (b"http://", b"https://"):
            if referer[: len(scheme)].lower() == scheme:
                return referer[len(scheme) :]
    return None


def _checked(statement: Statement) -> tuple[str, ...]:
    for word in statement.args:
        host = word.partition("/")[0]
        if not word:
            raise ConfigError('invalid referer ""', statement.place)
        if word == "~":
            raise ConfigError('empty regex in "~"', statement.place)
        bare = host.removeprefix("*.").removesuffix(".*")
        if not word.startswith("~") and ("*" in bare or not bare or ".." in bare):
            raise ConfigError(f'invalid hostname or wildcard "{host}"', statement.place)
    return statement.args


def _pattern(word: str, place: Place | None) -> Pattern:
    try:
        return Pattern(encode(word), caseless=True)
    except PatternError as error:
        raise ConfigError(str(error), place) from None


def names(conf: Referer, level: Level) -> Names:
    """Compile what a level accepts. Raises ConfigError."""
    made = Names()
    for words, place in conf.valid_referers:
        for word in words:
            if word in ("none", "blocked"):
                setattr(made, word, True)
            elif word == "server_names":
                _add_servers(made, level)
            elif word.startswith("~"):
                made.patterns.append(_pattern(word[1:], place))
            else:
                host, slash, path = word.partition("/")
                made.add(host, place, slash + path)
    if (made.none or made.blocked) and not (made.exact or made.heads or made.tails):  # nginx does not count patterns
        said = 'the "none" or "blocked" referers are specified in the "valid_referers" directive'
        raise ConfigError(f"{said} without any valid referer")
    return made


def _add_servers(made: Names, level: Level) -> None:
    """`server_names`: the names of the server that the level belongs to."""
    at: Level | None = level
    while at is not None and at.context is not In.SERVER:
        at = at.parent
    if at is None:
        return
    given = merged(Addressing, at).server_name
    if not given:
        made.exact[b""] = b""  # nginx's own name for a server without one
    for words, place in given:
        for word in words:
            if word.startswith("~"):
                made.servers.append(_pattern(word[1:], place))
            else:
                made.add(word, place)


def remembering(conf: Referer, build: Build) -> None:
    """Leave what a level accepts with its location, where the variable finds it. No filter is needed."""
    if conf.valid_referers:
        build.notes[Referer] = names(conf, build.level)


def _invalid_referer(request: Request) -> bytes | None:
    accepted = request.location.notes.get(Referer)
    if accepted is None or accepted.accepts(request.headers.get(b"referer")):
        return b""
    return b"1"


module = Module(
    name="referer", conf=Referer, filter=remembering, variables={"invalid_referer": Variable(_invalid_referer)}
)
