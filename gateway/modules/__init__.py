"""The one list of modules. Where order is meaning, it is said.

Handlers of one phase run in this order, and so do filters on a response's head: nginx's running order (its own list is read from
the end). Filters: what judges the untouched response first (not_modified), then headers, then what changes bodies, then
compression, then ranges of what is left.
"""

from typing import Any

from gateway.module import Module
from gateway.modules import index, not_modified, range, static

ORDER: tuple[Module[Any], ...] = (
    index.module,
    static.module,
    not_modified.module,
    range.module,
)
