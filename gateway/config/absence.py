"""Rows of directives that are known and not here: refused by name, or accepted without effect."""

from collections.abc import Callable
from typing import Any

from gateway import log
from gateway.config.args import buffers, duration, flag, integer, size
from gateway.config.schema import Arg, ConfigError, In, Item, Merge, Statement, many

_NETWORK = "only HTTP is served here: the ports in it are not opened"
_KINDS: dict[str, Callable[[], Arg[Any]]] = {
    "words": lambda: Arg("…", 1, None, lambda statement: statement.args),
    "flags": flag,
    "sizes": size,
    "times": duration,
    "numbers": integer,
    "buffers": buffers,
    "optional": lambda: Arg("…", 0, None, lambda statement: statement.args),
    "blocks": lambda: Arg("…", 0, None, lambda statement: None, block=True),
}


def _refuse(statement: Statement) -> None:
    if statement.args != ("off",):
        raise ConfigError(f'"{statement.name}" directive is not supported yet', statement.place)


def refused(contexts: In, what: str, names: str, *, opens: bool = False) -> tuple[Item[Any], ...]:
    """Rows of directives that do something; only their `off` is accepted."""
    arg: Arg[None] = Arg("…", 0, None, _refuse, block=opens)
    return many(contexts, dict.fromkeys(names.split(), arg), f"Not supported yet: {what}.", merge=Merge.OWN)


def idle(contexts: In, what: str, **kinds: str) -> tuple[Item[Any], ...]:
    """Rows of directives that tune what is not there, by the kind of their argument."""
    args = {name: _KINDS[kind]() for kind, names in kinds.items() for name in names.split()}
    return many(
        contexts, args, f"Tunes what is not supported yet: {what}.", merge=Merge.OWN, idle=f"{what}: not supported yet"
    )


def _unserved(statement: Statement) -> None:
    log.main.write(log.WARN, f'"{statement.name}" block is ignored: {_NETWORK} in {statement.place}')


def unserved(names: str) -> tuple[Item[Any], ...]:
    """Rows of blocks beside `http`: read over, with a warning, since what they serve will not be there."""
    arg: Arg[None] = Arg("", 0, 0, _unserved, block=True)
    return many(In.MAIN, dict.fromkeys(names.split(), arg), "Another protocol.", merge=Merge.OWN, idle=_NETWORK)
