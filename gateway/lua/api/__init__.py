"""The Python callables behind `ngx`, by area.

Each takes and returns only bytes, numbers, booleans and None; a tuple becomes several results. They work for the
request in `bridge.current`.
"""

from collections.abc import Callable
from typing import Any


def functions() -> dict[str, Callable[..., Any]]:
    """Every callable by the name that the preludes use."""
    from gateway.lua.api import args, body, compress, headers, output, regex, request, text, variables, worker

    modules = (args, body, compress, headers, output, regex, request, text, variables, worker)
    return {name: function for module in modules for name, function in module.FUNCTIONS.items()}
