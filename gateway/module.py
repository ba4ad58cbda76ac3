"""The whole contract between the core and a module."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from gateway.config.schema import Level
from gateway.http.message import Filter, Handler, Logger
from gateway.http.plan import Build, Compiled, Variable
from gateway.http.router import Listen

__all__ = ["Build", "Compiled", "Module", "Modules", "Phase", "Variable"]

C = TypeVar("C")


class Phase(Enum):
    """nginx's phases that modules may join, in running order.

    The three that they may not are code: find-config is the router, post-rewrite the engine's loop, post-access is
    folded into one handler at load where `satisfy any` asks for it.
    """

    POST_READ = auto()
    # the rewrite module's directives, at server and location level; an `if` there may choose an inner plan
    REWRITE = auto()
    LATE_REWRITE = auto()  # the end of nginx's rewrite phase, in the plan chosen (Lua)
    PREACCESS = auto()
    ACCESS = auto()
    PRECONTENT = auto()
    CONTENT = auto()


_NONE: Mapping[Any, Any] = MappingProxyType({})  # a factory below: Python 3.11 takes it for mutable
HandlerFactory = Callable[[C, Build], Handler | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module(Generic[C]):
    """One module: a table of rows and what it makes of them.

    Every hook is called at load, per level, never per request.
    """

    name: str
    conf: type[C]
    # judge directives together; raises ConfigError
    check: Callable[[C, Level], None] | None = None
    # add the variables that this level's own directives declare (set, map, geo)
    define: Callable[[C, Build], None] | None = None
    # called at http level, and for each `upstream` level, before any server is compiled
    prepare: Callable[[C, Build], None] | None = None
    handlers: Mapping[Phase, HandlerFactory[C]] = field(default_factory=lambda: _NONE)
    # sees each response's head; returns a Transform for its body, or None
    filter: Callable[[C, Build], Filter | None] | None = None
    # runs after the last byte
    logger: Callable[[C, Build], Logger | None] | None = None
    # whether what it made for this level looks at nothing but the request's head and its URI's file, with times no
    # finer than a second
    steady: Callable[[C, Build], bool] = lambda _conf, _build: False
    variables: Mapping[str, Variable] = field(default_factory=lambda: _NONE)
    # families such as $arg_NAME: prefix -> maker
    prefixes: Mapping[str, Callable[[str], Variable]] = field(default_factory=lambda: _NONE)
    # sees all listening addresses once every server is compiled, and may add to them; raises ConfigError
    listening: Callable[["Sequence[Listen]"], None] | None = None
    # called with the site's `shared` in each worker once its loop runs
    needs: tuple[str, ...] = ()  # modules that work only together with it; ("*",): scripts here may name any variable
    start: Callable[[Any], None] | None = None


Modules = Sequence[Module[Any]]
