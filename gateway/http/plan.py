"""What a plan is compiled with: variables, texts that hold them, and the `Build` that makes both for one level."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gateway.config.schema import Level, Place, Text
from gateway.http.message import Getter, Request

if TYPE_CHECKING:
    from gateway.http.router import Location
    from gateway.http.settings import Http

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Variable:
    """How a `$name` is read, and set if it can be.

    A getter answers None for nginx's "not found" (empty in text, "-" in logs).
    """

    get: Getter
    set: Callable[[Request, bytes | None], None] | None = None


class Compiled(Protocol):
    """A compiled text: call it with a request. `constant` holds the bytes if no variable is in it, else None."""

    constant: bytes | None

    def __call__(self, request: Request) -> bytes: ...


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
    # a content handler sets it: nginx then answers "/dir" with a redirect to the location "/dir/"
    auto_redirect: bool

    def text(self, text: Text | str) -> Compiled:
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
