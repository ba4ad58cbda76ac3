"""The event loop of a worker: uvloop where it is installed, else asyncio's own; the sole importer of uvloop.

Loops are made after the fork, one per worker. The module is imported before it, so that its pages are shared.

asyncio and uvloop import `ssl`, and so OpenSSL, for TLS of their own that is never used here (`net/tls` has its own
layer): 1 to 2 MB in every process. While they are imported a stand-in takes the place of `ssl`; a later `import ssl`
gets the real one. See docs/adr/0001-openssl-only-with-tls.md.
"""

import sys
from types import ModuleType
from typing import Any


class _NoOpenssl(ModuleType):
    """What is looked at while asyncio and uvloop are imported: constants, and classes that nothing is made of."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return 0 if name.isupper() else type(name, (OSError,), {})


_plain = "asyncio" not in sys.modules and "ssl" not in sys.modules
if _plain:
    sys.modules["ssl"] = _NoOpenssl("ssl")

import asyncio  # noqa: E402

from gateway import log  # noqa: E402

try:
    from uvloop import new_event_loop  # noqa: TID251
except ImportError:
    from asyncio import new_event_loop  # type: ignore[assignment]

if _plain:
    del sys.modules["ssl"]


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
