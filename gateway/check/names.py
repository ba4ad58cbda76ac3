"""What to say of a name that is not known: the nearest that is, or whose it is."""

from difflib import get_close_matches
from functools import cache

from gateway.build import CORE_TABLES
from gateway.config.schema import Directive, In, rows_of
from gateway.modules import everything
from gateway.process.settings import TABLES

_FAMILIES = {
    "vod_": "nginx-vod-module",
    "nchan_": "nchan",
    "push_stream_": "nginx-push-stream-module",
    "upload_": "nginx-upload-module",
    "passenger_": "Phusion Passenger",
    "srcache_": "srcache-nginx-module",
    "pagespeed": "ngx_pagespeed",
    "redis2_": "redis2-nginx-module",
    "memc_": "memc-nginx-module",
    "xquic_": "Tengine's xquic",
    "tfs_": "Tengine's tfs",
    "spdy_": "SPDY, which nginx removed in 1.9.5",
    "slowfs_": "ngx_slowfs_cache",
    "ngx_waf": "ngx_waf",
    "auth_ldap": "nginx-auth-ldap",
    "vhost_traffic_status_": "nginx-module-vts",
}


@cache
def rows() -> dict[str, list[Directive]]:
    """Every row by its name."""
    found: dict[str, list[Directive]] = {}
    for table in (*TABLES, *CORE_TABLES, *(module.conf for module in everything())):
        for row in rows_of(table):
            found.setdefault(row.name, []).append(row)
    return found


def unknown(name: str) -> str:
    """A remedy for an unknown directive, "" if there is nothing to say."""
    for prefix, owner in _FAMILIES.items():
        if name.startswith(prefix):
            return f"it belongs to {owner}, which is not here"
    if "\ufeff" in name or name.startswith("\udcef\udcbb\udcbf"):
        return "the file begins with a byte order mark: save it without"
    near = get_close_matches(name.lower(), [*rows(), "include"], 1, 0.78)
    return f'did you mean "{near[0]}"?' if near else ""


def misplaced(name: str) -> str:
    """Where a directive may stand."""
    contexts = In(0)
    for row in rows().get(name, ()):
        contexts |= row.contexts
    named = [(one.name or "").lower().replace("if_", "if in ") for one in In if one & contexts]
    return "it may stand in " + ", ".join(named) if named else ""
