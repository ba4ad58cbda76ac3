"""What level a bare snippet belongs to, and the blocks around it that it lacks."""

import re
from collections.abc import Sequence

from gateway.check.names import rows
from gateway.config.schema import ConfigError, In, Paths, Place, Statement

_WHOLE = frozenset({"http", "events", "stream", "mail", "rtmp"})
_STREAM = frozenset({"proxy_pass", "ssl_preread", "proxy_timeout", "proxy_protocol", "proxy_responses"})
_ORDER = (
    In.HTTP,
    In.SERVER,
    In.LOCATION,
    In.UPSTREAM,
    In.IF_LOCATION,
    In.IF_SERVER,
    In.LIMIT_EXCEPT,
    In.MAIN,
    In.EVENTS,
)
_AROUND: dict[In, tuple[tuple[str, ...], ...]] = {
    In.HTTP: (("http",),),
    In.SERVER: (("http",), ("server",)),
    In.LOCATION: (("http",), ("server",), ("location", "/")),
    In.UPSTREAM: (("http",), ("upstream", "snippet")),
    In.IF_LOCATION: (("http",), ("server",), ("location", "/"), ("if", "($args)")),
    In.IF_SERVER: (("http",), ("server",), ("if", "($args)")),
    In.LIMIT_EXCEPT: (("http",), ("server",), ("location", "/"), ("limit_except", "GET")),
    In.EVENTS: (("events",),),
}
_PLAIN = re.compile(r"[a-z][a-z0-9_]*")


def level(statements: Sequence[Statement]) -> In | None:
    """The level at which most of the statements may stand, the outermost such; None for a whole configuration."""
    if any(one.name in _WHOLE and one.block is not None for one in statements):
        return None
    fits = {context: sum(_fits(one, context) for one in statements) for context in _ORDER}
    most = max(fits.values())
    return next(context for context in _ORDER if fits[context] == most)


def _fits(statement: Statement, context: In) -> int:
    """How many of a statement and those in it may stand where they do, if it stands at this level."""
    for row in rows().get(statement.name, ()):
        if row.contexts & context and (row.opens is not None or row.arg.block) == (statement.block is not None):
            if row.opens is None:
                return 1
            try:
                inner = row.opens(context)
            except ConfigError:
                return 0
            return 1 + sum(_fits(one, inner) for one in statement.block or ())
    return 0


def of_stream(statements: Sequence[Statement]) -> bool:
    """Whether the servers are those of `stream`."""
    servers = [one for one in statements if one.name == "server" and one.block is not None]
    return any(inner.name in _STREAM and inner.block is None for server in servers for inner in server.block or ())


def is_table(statements: Sequence[Statement]) -> bool:
    """Whether these are the lines of a `map`, `geo` or `types` block: no directive among them, not only mistakes."""
    if not statements or any(one.block is not None or one.name in rows() or not one.args for one in statements):
        return False
    return any(one.name == "default" or not _PLAIN.fullmatch(one.name) for one in statements)


def wrapped(statements: Sequence[Statement], context: In, place: Place, paths: Paths) -> tuple[Statement, ...]:
    """The statements as a whole configuration. Those that were there stay the same objects."""
    inner = tuple(statements)
    for name, *args in reversed(_AROUND.get(context, ())):
        inner = (Statement(name, tuple(args), inner, place, paths),)
    if context is In.EVENTS:
        return inner
    return (Statement("events", (), (), place, paths), *inner)


def streaming(statements: Sequence[Statement], place: Place, paths: Paths) -> tuple[Statement, ...]:
    """The statements in a `stream` block."""
    return wrapped((Statement("stream", (), tuple(statements), place, paths),), In.MAIN, place, paths)


def shape(context: In | None) -> str:
    """What a snippet of a level is called."""
    if context is None:
        return "configuration"
    return f"{(context.name or '').lower().replace('if_', 'if-in-')}-level snippet"
