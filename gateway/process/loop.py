"""The event loop of a worker: uvloop where it is installed, else asyncio's own; the sole importer of uvloop.

Loops are made after the fork, one per worker. The module is imported before it, so that its pages are shared.
"""

import asyncio

from gateway import log

try:
    from uvloop import new_event_loop  # noqa: TID251
except ImportError:
    from asyncio import new_event_loop  # type: ignore[assignment]


def new() -> asyncio.AbstractEventLoop:
    """A loop for this process. An exception that no one catches becomes an `[alert]` line."""
    made: asyncio.AbstractEventLoop = new_event_loop()
    made.set_exception_handler(unhandled)
    asyncio.set_event_loop(made)
    return made


def unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log what a callback raised."""
    error = context.get("exception")
    said = str(context.get("message", "unhandled exception"))
    detail = log.crash(type(error), error) if isinstance(error, BaseException) else ""
    log.main.write(log.ALERT, f"{said}: {detail}" if detail else said)
