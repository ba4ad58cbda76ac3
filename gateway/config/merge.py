"""Merge the levels of a configuration: what a table holds at a level, by each row's `Merge` rule.

A level that sets nothing of a table shares its parent's instance: of hundreds of locations, most never touch most
tables. Instances are shared and must not be changed.
"""

from functools import cache
from typing import Any, TypeVar, cast

from gateway.config.schema import In, Level, Merge, rows_of

T = TypeVar("T")

_MERGED = (Level, "merged")  # under this key a level keeps its instance of each table
_TABLES = (Level, "tables")  # and here the tables of which it sets something
_UNSET = object()
_NONAME = In.IF_LOCATION | In.LIMIT_EXCEPT


def merged(table: type[T], level: Level) -> T:
    """The values of a table at a level, those of outer levels included. Call it only once the level is bound whole."""
    instances: dict[type, Any] = level.values.setdefault(_MERGED, {})
    made = instances.get(table)
    if made is None:
        made = instances[table] = _made(table, level)
    return cast(T, made)


def _made(table: type[T], level: Level) -> T:
    outer = merged(table, level.parent) if level.parent is not None else None
    if table not in _touched(level):
        if outer is None:
            return table()
        if _same_inside(table, level, outer):
            return outer
    instance = table()
    for field, rule in _fields(cast(type, table)).items():
        value = level.values.get((table, field), _UNSET)
        if isinstance(value, list):
            value = tuple(value)
        if outer is not None and (value is _UNSET or rule is Merge.APPEND) and _reaches(rule, level):
            inherited = getattr(outer, field)
            value = inherited if value is _UNSET else inherited + value
        if value is not _UNSET:
            setattr(instance, field, value)
    return instance


def _touched(level: Level) -> set[type]:
    tables = level.values.get(_TABLES)
    if tables is None:
        tables = {key[0] for key in level.values}
        level.values[_TABLES] = tables
    return cast("set[type]", tables)


@cache
def _fields(table: type) -> dict[str, Merge]:
    return {row.field: row.merge for row in rows_of(table)}


@cache
def _local(table: type) -> tuple[tuple[str, Merge, Any], ...]:
    """The fields that do not reach all inner levels: name, rule, default."""
    empty = table()
    rules = _fields(table).items()
    return tuple((name, rule, getattr(empty, name)) for name, rule in rules if rule in (Merge.OWN, Merge.LOCATION))


def _same_inside(table: type, level: Level, outer: Any) -> bool:
    """Whether a level that sets nothing has the values of its outer level."""
    return all(_reaches(rule, level) or getattr(outer, field) == default for field, rule, default in _local(table))


def _reaches(rule: Merge, level: Level) -> bool:
    if rule is Merge.OWN:
        return False
    return rule is not Merge.LOCATION or bool(level.context & _NONAME)
