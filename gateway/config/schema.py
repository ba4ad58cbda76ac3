"""Rows: what a directive is, and how a module declares a table of them.

A table is a class decorated with `@block`; each of its fields is one row. The annotation of the field, the grammar and
the default must agree, or mypy objects:

    @block
    class Gzip:
        gzip: bool = directive(ANYWHERE | In.IF_LOCATION, flag(), False, "Compress responses.")
        gzip_comp_level: int = directive(ANYWHERE, integer(1, 9), 1, "Effort, 1 (fast) to 9 (small).")

After binding and merging, a module receives an instance of its class that holds plain values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntFlag, auto
from inspect import get_annotations
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class In(IntFlag):
    """The blocks in which a directive may stand (nginx's NGX_*_CONF bits)."""

    MAIN = auto()
    EVENTS = auto()
    HTTP = auto()
    SERVER = auto()
    LOCATION = auto()
    IF_SERVER = auto()
    IF_LOCATION = auto()
    LIMIT_EXCEPT = auto()
    UPSTREAM = auto()


ANYWHERE = In.HTTP | In.SERVER | In.LOCATION


class Merge(Enum):
    """How a value reaches inner levels."""

    INHERIT = auto()  # the innermost level that sets it wins
    OWN = auto()  # counts only where it stands
    LOCATION = auto()  # as OWN, but `if` blocks in a location see it (nginx's "noname" locations)
    APPEND = auto()  # inner values are added after outer ones


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in the configuration; printed as nginx prints it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class ConfigError(Exception):
    """A mistake of the operator, in nginx's words, with its place (None: no place is printed)."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.message, self.place = message, place

    def __str__(self) -> str:
        return f"{self.message} in {self.place}" if self.place else self.message


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders that relative names in a configuration are resolved against, each with a trailing slash."""

    prefix: str  # `-p`: root, logs, temp paths
    conf_prefix: str  # the folder of the main configuration file: includes, certificates, password files


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a configuration: quotes and escapes are gone, includes are resolved, nothing is typed yet."""

    name: str
    args: tuple[str, ...]
    block: tuple["Statement", ...] | None
    place: Place
    paths: Paths


@dataclass(frozen=True, slots=True)
class Text:
    """A value that may hold `$variables`; compiled to a getter by `Build.text`."""

    raw: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Arg(Generic[T_co]):
    """The grammar of a directive's arguments.

    `syntax` is what the manual prints after the name. `least`/`most` count the words (most None: any number). `parse`
    sees the whole statement, its nested block too, and raises `ConfigError` or, for nginx's "invalid value",
    `ValueError`.
    """

    syntax: str
    least: int
    most: int | None
    parse: Callable[[Statement], T_co]
    block: bool = False  # a `{ … }` follows, read by `parse` itself (map, types, geo …)


@dataclass(frozen=True, slots=True)
class Directive:
    """One row.

    `field` is its attribute in the table; `opens` names the level that its block starts, if it starts one.
    """

    name: str
    contexts: In
    arg: Arg[Any]
    default: Any
    merge: Merge
    doc: str
    field: str = ""
    repeat: bool = False  # every occurrence counts; the value is a tuple of them
    program: bool = False  # several names share the field, in the order written: its values are `Item`s
    opens: Callable[[In], In] | None = None
    idle: str = ""  # accepted without effect, for this reason
    default_text: str = ""  # the default as the manual prints it, where `default` itself does not say it


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """One occurrence of a directive declared with `many` under several names: which one, its value, its place."""

    name: str
    value: T
    place: Place


@dataclass(slots=True)
class Level:
    """One bound block.

    `values` maps a row's table and field to what was set right here, `children` are the inner blocks in order.
    """

    context: In
    place: Place
    head: Any = None  # the parsed arguments of the statement that opened it
    parent: "Level | None" = None
    values: dict[tuple[type, str], Any] = field(default_factory=dict)
    children: list["Level"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: tuple[Directive, ...]
    default: Any
    merge: Merge


def directive(
    contexts: In,
    arg: Arg[T],
    default: T,
    doc: str,
    *,
    name: str = "",
    merge: Merge = Merge.INHERIT,
    idle: str = "",
    default_text: str = "",
) -> T:
    """Declare a row that holds one value; given twice on one level it is a "duplicate" error.

    `name` is needed only where the directive's name cannot be the attribute's (`return`, `if`).
    """
    row = Directive(name, contexts, arg, default, merge, doc, idle=idle, default_text=default_text)
    return cast(T, _Rows((row,), default, merge))


def many(
    contexts: In,
    args: Arg[T] | Mapping[str, Arg[Any]],
    doc: str | Mapping[str, str],
    *,
    name: str = "",
    merge: Merge = Merge.INHERIT,
    opens: Mapping[str, Callable[[In], In]] | None = None,
    idle: str = "",
) -> tuple[T, ...]:
    """Declare a row that may be repeated; inner levels inherit only if they have none of their own (nginx's rule).

    With a mapping of names to grammars it is an ordered program in one field: the value is a tuple of `Item`. A name in
    `opens` starts a level: its item's value is the `Level`, whose `head` holds the parsed arguments.
    """
    table: Mapping[str, Arg[Any]] = {name: args} if isinstance(args, Arg) else args
    program = not isinstance(args, Arg)
    rows = []
    for row_name, arg in table.items():
        text = doc if isinstance(doc, str) else doc[row_name]
        opener = (opens or {}).get(row_name)
        row = Directive(row_name, contexts, arg, (), merge, text, opens=opener, idle=idle)
        rows.append(replace(row, repeat=True, program=program))
    return cast("tuple[T, ...]", _Rows(tuple(rows), (), merge))


def block(cls: type[T]) -> type[T]:
    """Make a class of rows into a table: a slotted dataclass of plain values with `__rows__`, the declared directives.

    Raises TypeError for a row without documentation.
    """
    rows: list[Directive] = []
    for attribute in [name for name in get_annotations(cls) if isinstance(cls.__dict__.get(name), _Rows)]:
        declared = cast(_Rows, cls.__dict__[attribute])
        for row in declared.rows:
            if not row.doc:
                raise TypeError(f"{cls.__name__}.{attribute}: a row needs documentation")
            name = row.name or (attribute if len(declared.rows) == 1 else "")
            rows.append(replace(row, name=name, field=attribute))
        setattr(cls, attribute, _default(declared.default))
    made = dataclass(slots=True, repr=False, eq=False, match_args=False)(cls)
    made.__rows__ = tuple(rows)  # type: ignore[attr-defined]  # a table is known by it, see `rows_of`
    return made


def _default(value: Any) -> Any:
    """A field's default; dataclasses want a factory for what can be changed."""
    return value if value.__hash__ else field(default_factory=lambda: value)


def rows_of(table: type) -> Sequence[Directive]:
    """The rows that a table declares, in the order written."""
    return cast("Sequence[Directive]", table.__rows__)  # type: ignore[attr-defined]  # set by `block`
