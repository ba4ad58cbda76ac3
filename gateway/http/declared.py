"""Variables that a configuration brings: named groups of patterns, and those that a block looks up (map, geo …)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.config.schema import ConfigError, Place
from gateway.http.message import Request
from gateway.http.plan import Variable

if TYPE_CHECKING:
    from gateway.http.plan import Build
    from gateway.pattern import Pattern

Find = Callable[[Request], bytes]


class Lookup:
    """A variable that `find` computes, once per request unless `volatile`; `set` may put another value in its place."""

    __slots__ = ("find", "name", "volatile")

    def __init__(self, name: str, *, volatile: bool = False) -> None:
        self.name, self.volatile = name, volatile
        self.find: Find = _nothing  # compiled once all variables are known

    def get(self, request: Request) -> bytes | None:
        """The value for this request."""
        values = request.values
        if values is not None and self.name in values:
            return values[self.name]
        value = self.find(request)
        if not self.volatile:
            request.assign(self.name, value)
        return value

    def variable(self) -> Variable:
        """To be defined under its name."""
        return Variable(self.get, kept(self.name).set)


def _nothing(_request: Request) -> bytes:
    return b""


def variable_name(word: str) -> str:
    """The name in `$name`. Raises ConfigError."""
    if not word.startswith("$") or word == "$":
        raise ConfigError(f'invalid variable name "{word}"')
    return word[1:]


def kept(name: str) -> Variable:
    """A variable that lives in the request's `values`: not found until something assigns it."""

    def get(request: Request) -> bytes | None:
        values = request.values
        return None if values is None else values.get(name)

    return Variable(get, lambda request, value: request.assign(name, value))


def overriding(name: str, known: Variable) -> Variable:
    """A variable that has the value of another one until something is assigned to it."""

    def get(request: Request) -> bytes | None:
        values = request.values
        return values[name] if values is not None and name in values else known.get(request)

    return Variable(get, lambda request, value: request.assign(name, value))


def declare(build: "Build", name: str, variable: Variable, place: Place | None = None) -> None:
    """Define a variable that the configuration may change, unless there is one already. Raises ConfigError."""
    try:
        known = build.variable(name)
    except ConfigError:
        known = None
    if known is None or known.set is None:
        if known is not None:  # one of a family ($http_NAME): until it is set it stays what it is
            variable = overriding(name, known)
        try:
            build.define(name, variable)
        except ConfigError as error:
            error.place = error.place or place
            raise


def declare_names(build: "Build", pattern: "Pattern", place: Place | None = None) -> None:
    """Define the variables that a pattern's named groups fill. Raises ConfigError."""
    for name in pattern.names:
        declare(build, name, kept(name), place)
