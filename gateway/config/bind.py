"""Bind statements to the rows of tables: judge them in nginx's order and words, parse them, build the levels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.config.schema import ConfigError, Directive, In, Item, Level, Place, Statement, rows_of
from gateway.config.source import broken

_PLACES = (Level, "places")  # under this key a level keeps the place of each value, for `place_of`
_IDLE = (Level, "idle")  # and here its directives without effect, for `idle`


@dataclass(frozen=True, slots=True)
class _Rule:
    """A row with its table; `key` is where a level keeps its value."""

    row: Directive
    key: tuple[type, str]


Rules = dict[str, list[_Rule]]


def bind(statements: Sequence[Statement], tables: Sequence[type]) -> Level:
    """The main level of a configuration.

    Raises ConfigError with nginx's message for the first mistake.
    """
    place = Place(statements[0].place.file, 1) if statements else Place("", 0)
    level = Level(In.MAIN, place)
    _fill(level, statements, index(tables))
    return level


def place_of(level: Level, table: type, field: str) -> Place | None:
    """Where the (last) value of a field was set on this very level, None if it was not."""
    places: dict[tuple[type, str], Place] = level.values.get(_PLACES, {})
    return places.get((table, field))


def idle(level: Level) -> list[tuple[Directive, Place]]:
    """The directives at this level and inside it that are accepted without effect; the reason is the row's `idle`."""
    found: list[tuple[Directive, Place]] = list(level.values.get(_IDLE, ()))
    for child in level.children:
        found += idle(child)
    return found


def index(tables: Sequence[type]) -> Rules:
    """The rows of all tables by name. Raises TypeError if two tables declare a name in the same context."""
    rules: Rules = {}
    for table in tables:
        for row in rows_of(table):
            known = rules.setdefault(row.name, [])
            for other in known:
                if other.row.contexts & row.contexts:
                    raise TypeError(f"{row.name}: declared by {other.key[0].__name__} and by {table.__name__}")
            known.append(_Rule(row, (table, row.field)))
    return rules


def _fill(level: Level, statements: Sequence[Statement], rules: Rules) -> None:
    for statement in statements:
        try:
            _one(level, statement, rules)
        except ConfigError as error:
            if error.place is None:
                error.place = statement.place
            raise


def _one(level: Level, statement: Statement, rules: Rules) -> None:
    rule = _rule(level, statement, rules)
    row = rule.row
    _check_shape(row, statement)
    if not row.repeat and rule.key in level.values and not isinstance(level.values[rule.key], frozenset):
        raise ConfigError(f'"{row.name}" directive is duplicate')
    if row.arg.block and (mistake := broken(statement)):
        raise ConfigError(mistake.args[0], mistake.place)
    try:
        value = row.arg.parse(statement)
    except ValueError:
        raise ConfigError(f'"{row.name}" directive invalid value') from None
    if row.opens is not None:
        value = _opened(level, row.opens, statement, value)
    _store(level, rule, Item(row.name, value, statement.place) if row.program else value)
    level.values.setdefault(_PLACES, {})[rule.key] = statement.place
    if row.idle:
        level.values.setdefault(_IDLE, []).append((row, statement.place))
    if row.opens is not None:
        _fill(level.children[-1], statement.block or (), rules)


def _rule(level: Level, statement: Statement, rules: Rules) -> _Rule:
    known = rules.get(statement.name)
    if known is None:
        if mistake := broken(statement) if not statement.block else None:
            raise ConfigError(mistake.args[0], mistake.place)
        raise ConfigError(f'unknown directive "{statement.name}"')
    for rule in known:
        if rule.row.contexts & level.context:
            return rule
    raise ConfigError(f'"{statement.name}" directive is not allowed here')


def _check_shape(row: Directive, statement: Statement) -> None:
    """Whether a block follows, and the number of arguments: nginx judges them before the values."""
    wants_block = row.arg.block or row.opens is not None
    if statement.block is not None and not wants_block:
        raise ConfigError(f'directive "{row.name}" is not terminated by ";"')
    if statement.block is None and wants_block:
        raise ConfigError(f'directive "{row.name}" has no opening "{{"')
    count = len(statement.args)
    if count < row.arg.least or (row.arg.most is not None and count > row.arg.most):
        raise ConfigError(f'invalid number of arguments in "{row.name}" directive')


def _opened(level: Level, opens: Callable[[In], In], statement: Statement, head: Any) -> Level:
    child = Level(opens(level.context), statement.place, head, level)
    level.children.append(child)
    return child


def _store(level: Level, rule: _Rule, value: Any) -> None:
    if rule.row.repeat:
        level.values.setdefault(rule.key, []).append(value)
    elif rule.key in level.values:  # nginx adds up repeated sets of words and of types
        level.values[rule.key] |= value
    else:
        level.values[rule.key] = value
