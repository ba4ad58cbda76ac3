"""Merging: which value holds at which level."""

from typing import Any

from gateway.config.args import flag, integer, string, strings
from gateway.config.merge import merged
from gateway.config.schema import ANYWHERE, In, Level, Merge, Place, block, directive, many

PLACE = Place("f", 1)


@block
class Rows:
    plain: int = directive(ANYWHERE, integer(), 1, "-")
    maybe: str | None = directive(ANYWHERE, string(), "x", "-")
    own: bool = directive(ANYWHERE, flag(), False, "-", merge=Merge.OWN)
    here: str = directive(In.LOCATION, string(), "", "-", merge=Merge.LOCATION)
    more: tuple[tuple[str, ...], ...] = many(ANYWHERE, strings(), "-")
    added: tuple[tuple[str, ...], ...] = many(ANYWHERE, strings(), "-", merge=Merge.APPEND)


@block
class Plain:
    plain: int = directive(ANYWHERE, integer(), 1, "-")


def chain(*levels: tuple[In, dict[str, Any]], table: type = Rows) -> list[Level]:
    """Levels inside each other with what each sets."""
    made: list[Level] = []
    for context, values in levels:
        level = Level(context, PLACE, parent=made[-1] if made else None)
        level.values.update({(table, name): value for name, value in values.items()})
        made.append(level)
    return made


def test_defaults() -> None:
    (root,) = chain((In.MAIN, {}))
    conf = merged(Rows, root)
    assert (conf.plain, conf.own, conf.more, conf.added) == (1, False, (), ())


def test_the_innermost_wins() -> None:
    *_, server, location = chain((In.HTTP, {"plain": 2}), (In.SERVER, {"maybe": None}), (In.LOCATION, {"plain": 0}))
    assert (merged(Rows, server).plain, merged(Rows, server).maybe) == (2, None)
    assert (merged(Rows, location).plain, merged(Rows, location).maybe) == (0, None)


def test_repeated_ones_are_inherited_only_whole() -> None:
    http, server, location = chain(
        (In.HTTP, {"more": [("a",), ("b",)], "added": [("a",)]}),
        (In.SERVER, {}),
        (In.LOCATION, {"more": [("c",)], "added": [("b",)]}),
    )
    assert merged(Rows, http).more == merged(Rows, server).more == (("a",), ("b",))
    assert merged(Rows, location).more == (("c",),)
    assert merged(Rows, server).added == (("a",),)
    assert merged(Rows, location).added == (("a",), ("b",))


def test_own_values_stay_where_they_are() -> None:
    server, location, branch = chain((In.SERVER, {"own": True}), (In.LOCATION, {}), (In.IF_LOCATION, {}))
    assert [merged(Rows, level).own for level in (server, location, branch)] == [True, False, False]
    location, branch = chain((In.LOCATION, {"own": True, "plain": 5}), (In.IF_LOCATION, {"plain": 6}))
    assert (merged(Rows, branch).own, merged(Rows, branch).plain) == (False, 6)


def test_location_values_reach_blocks_without_a_name() -> None:
    location, branch = chain((In.LOCATION, {"here": "a"}), (In.IF_LOCATION, {"plain": 2}))
    assert (merged(Rows, location).here, merged(Rows, branch).here) == ("a", "a")
    location, inner = chain((In.LOCATION, {"here": "a"}), (In.LOCATION, {}))
    assert merged(Rows, inner).here == ""
    location, spared = chain((In.LOCATION, {"here": "a"}), (In.LIMIT_EXCEPT, {}))
    assert merged(Rows, spared).here == "a"


def test_instances_are_kept_and_shared() -> None:
    http, server, location, other = chain(
        (In.HTTP, {"plain": 2}), (In.SERVER, {}), (In.LOCATION, {}), (In.LOCATION, {"plain": 3}), table=Plain
    )
    conf = merged(Plain, location)
    assert merged(Plain, location) is conf is merged(Plain, server) is merged(Plain, http)
    assert merged(Plain, other).plain == 3
    assert merged(Plain, other) is not conf


def test_a_level_with_only_inherited_values_shares_a_table_with_local_rows_too() -> None:
    http, server = chain((In.HTTP, {"plain": 2}), (In.SERVER, {}))
    assert merged(Rows, server) is merged(Rows, http)
