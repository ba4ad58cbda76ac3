"""The one list of modules. Where order is meaning, it is said.

Handlers of one phase run in this order, and so do filters on a response's head: nginx's running order (its own list is
read from the end). Filters: what judges the untouched response first (not_modified), then Lua, which sees it before
`add_header` does, then what changes bodies, then compression (the first that compresses wins), then ranges of what is
left.

Only the modules that a configuration uses are imported: `catalogue.py`, printed from the modules by `make docs`, says
which module has which directive and variable.
"""

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from gateway.config.schema import Statement
from gateway.module import Module

ORDER: tuple[str, ...] = (
    "absent",  # nothing but names
    "ssl",
    "third_party",  # the same
    # variables
    "referer",
    "map",
    "geo",
    "split_clients",
    "browser",
    "secure_link",
    "upstream",
    "proxy_ssl",
    # rewrite
    "rewrite",
    # access
    "access",
    "auth_basic",
    "auth_request",
    # Lua: after the rewrite and access modules, before every content handler; its filters right after not_modified
    "fingerprint",  # before conditions are judged: a rewritten page has an entity tag of its own
    "slice",  # likewise: what it makes is the whole
    "not_modified",
    "lua",
    "headers_more",  # it runs after Lua in the rewrite phase, and before add_header
    "echo_filter",
    # precontent
    "try_files",
    "mirror",
    # content: the first that answers; proxy_pass always does
    "stub_status",
    "echo",
    "empty_gif",
    "proxy_cache",  # stands before proxy: it wraps its handler
    "proxy",
    "precompressed",
    "random_index",
    "index",
    "autoindex",
    "static",
    # filters
    "headers",
    "userid",
    "gunzip",
    "immutable",  # replaces what the headers before said of fingerprinted files
    "addition",
    "sub",
    "charset",
    "ssi",
    "zstd",
    "brotli",
    "gzip",
    "compress",  # makes one filter of what the three above offer
    "range",
    "limit_rate",  # paces what all the others have made
    # log
    "log",
    # preaccess. What these do at a request's end comes after its log line: realip gives the connection its address back
    "realip",
    "limit_req",
    "limit_conn",
)

ALWAYS = frozenset({"not_modified", "index", "static", "range", "log"})  # at work without any directive of theirs
EVERYTHING = "*"  # what a module needs whose scripts may name any variable at run time

LISTENED = {"ssl": "ssl", "quic": "absent", "proxy_protocol": "absent"}  # what a parameter of `listen` needs

_VARIABLE = re.compile(r"\$\{?([a-zA-Z0-9_]+)")


def load(names: Iterable[str]) -> tuple[Module[Any], ...]:
    """Import modules, and give them in running order."""
    wanted = set(names)
    return tuple(import_module(f"gateway.modules.{name}").module for name in ORDER if name in wanted)


def everything() -> tuple[Module[Any], ...]:
    """Every module there is, for the manual and the tests."""
    return load(ORDER)


def needed(statements: Iterable[Statement]) -> frozenset[str]:
    """The modules that a configuration uses: by directive, by variable, and what these need beside them."""
    from gateway.modules.catalogue import DIRECTIVES, NEEDS, PREFIXES, VARIABLES

    words = set(_words(statements))
    directives = {word for word, variable in words if not variable}
    variables = {word for word, variable in words if variable}
    found = set(ALWAYS)
    found.update(name for name, text in DIRECTIVES.items() if not directives.isdisjoint(text.split()))
    found.update(name for name, text in VARIABLES.items() if not variables.isdisjoint(text.split()))
    found.update(name for word, name in LISTENED.items() if f"listen {word}" in directives)
    for name, text in PREFIXES.items():
        if any(word.startswith(tuple(text.split())) for word in variables):
            found.add(name)
    beside = {more for name in found for more in NEEDS.get(name, "").split()}
    return frozenset(ORDER) if EVERYTHING in beside else frozenset(found | beside)


def _words(statements: Iterable[Statement]) -> Iterator[tuple[str, bool]]:
    """Names of directives (False) and of variables (True)."""
    for statement in statements:
        yield statement.name, False
        if statement.name == "listen":
            yield from ((f"listen {word}", False) for word in statement.args[1:])
        for text in (statement.name, *statement.args):
            if "$" in text:
                for name in _VARIABLE.findall(text):
                    yield name.lower(), True
        if statement.block:
            yield from _words(statement.block)
