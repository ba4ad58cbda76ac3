"""The whole contract between the core and a module."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from gateway.config.schema import Level, Place, Text
from gateway.http.message import Filter, Getter, Handler, Logger, Request

if TYPE_CHECKING:
    from gateway.http.router import Location
    from gateway.http.settings import Http

C = TypeVar("C")
N = TypeVar("N")


class Phase(Enum):
    """nginx's phases that modules may join, in running order.

    The three that they may not are code: find-config is the router, post-rewrite the engine's loop, post-access is folded
    into one handler at load where `satisfy any` asks for it.
    """

    POST_READ = auto()
    REWRITE = auto()  # the rewrite module's directives, at server and location level; an `if` there may choose an inner plan
    LATE_REWRITE = auto()  # the end of nginx's rewrite phase, in the plan chosen (Lua)
    PREACCESS = auto()
    ACCESS = auto()
    PRECONTENT = auto()
    CONTENT = auto()


@dataclass(frozen=True, slots=True)
class Variable:
    """How a `$name` is read, and set if it can be. A getter answers None for nginx's "not found" (empty in text, "-" in logs)."""

    get: Getter
    set: Callable[[Request, bytes | None], None] | None = None


class Build(Protocol):
    """What a module's factories may ask for while one level of one site is compiled."""

    level: Level  # the level being compiled
    settings: "Http"  # the core's settings at this level
    shared: dict[Any, Any]  # one per site: a module's own state shared by its levels, by a key of the module
    notes: dict[Any, Any]  # becomes `location.notes`: what a module's variables read at this level
    prefix: str  # the `-p` prefix: relative roots and logs are below it
    server_name: bytes  # the first name of the server being compiled, b"" at http level
    location_prefix: bytes  # the URI prefix of the location being compiled, b"" for other kinds
    location_is_pattern: bool
    auto_redirect: bool  # a content handler sets it: nginx then answers "/dir" with a redirect to the location "/dir/"

    def text(self, text: Text | str) -> "Compiled":
        """Compile a value with variables. Raises ConfigError for an unknown variable."""

    def variable(self, name: str, place: Place | None = None) -> Variable:
        """Look up a variable by its name without the dollar. Raises ConfigError if there is none."""

    def define(self, name: str, variable: Variable) -> None:
        """Add a variable (from a `define` hook only, so that every level can use it)."""

    def conf(self, table: type[N]) -> N:
        """The merged values of another table at this level."""

    def inner(self, level: Level) -> "Location":
        """Compile a nested level (`if`, `limit_except`) into a plan of its own."""

    def warn(self, message: str, place: Place | None = None) -> None:
        """Tell the operator, at level warn, as nginx does while it reads a configuration."""


class Compiled(Protocol):
    """A compiled text: call it with a request. `constant` holds the bytes if no variable is in it, else None."""

    constant: bytes | None

    def __call__(self, request: Request) -> bytes: ...


_NONE: Mapping[Any, Any] = MappingProxyType({})  # a factory below: Python 3.11 takes it for mutable
HandlerFactory = Callable[[C, Build], Handler | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module(Generic[C]):
    """One module: a table of rows and what it makes of them. Every hook is called at load, per level, never per request."""

    name: str
    conf: type[C]
    check: Callable[[C, Level], None] | None = None  # judge directives together; raises ConfigError
    define: Callable[[C, Build], None] | None = None  # add the variables that this level's own directives declare (set, map, geo)
    prepare: Callable[[C, Build], None] | None = None  # called at http level, and for each `upstream` level, before any server is compiled
    handlers: Mapping[Phase, HandlerFactory[C]] = field(default_factory=lambda: _NONE)
    filter: Callable[[C, Build], Filter | None] | None = None  # sees each response's head; returns a Transform for its body, or None
    logger: Callable[[C, Build], Logger | None] | None = None  # runs after the last byte
    # whether what it made for this level looks at nothing but the request's head and its URI's file, with times no finer than a second
    steady: Callable[[C, Build], bool] = lambda _conf, _build: False
    variables: Mapping[str, Variable] = field(default_factory=lambda: _NONE)
    prefixes: Mapping[str, Callable[[str], Variable]] = field(default_factory=lambda: _NONE)  # families such as $arg_NAME: prefix -> maker
    start: Callable[[Any], None] | None = None  # called with the site's `shared` in each worker once its loop runs


Modules = Sequence[Module[Any]]
