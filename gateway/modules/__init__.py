"""The one list of modules. Where order is meaning, it is said.

Handlers of one phase run in this order, and so do filters on a response's head: nginx's running order (its own list is read from
the end). Filters: what judges the untouched response first (not_modified), then Lua, which sees it before `add_header` does, then
what changes bodies, then compression (the first that compresses wins), then ranges of what is left.
"""

from typing import Any

from gateway.module import Module
from gateway.modules import (
    access,
    addition,
    auth_basic,
    auth_request,
    autoindex,
    brotli,
    charset,
    compress,
    fingerprint,
    geo,
    gunzip,
    gzip,
    headers,
    immutable,
    index,
    limit_conn,
    limit_req,
    log,
    lua,
    map,
    mirror,
    not_modified,
    precompressed,
    proxy,
    random_index,
    range,
    referer,
    rewrite,
    split_clients,
    ssi,
    static,
    stub_status,
    sub,
    try_files,
    upstream,
    zstd,
)

ORDER: tuple[Module[Any], ...] = (
    # variables
    referer.module,
    map.module,
    geo.module,
    split_clients.module,
    upstream.module,
    # rewrite
    rewrite.module,
    # access
    limit_req.module,
    limit_conn.module,
    access.module,
    auth_basic.module,
    auth_request.module,
    # Lua: after the rewrite and access modules, before every content handler; its filters right after not_modified
    fingerprint.module,  # before conditions are judged: a rewritten page has an entity tag of its own
    not_modified.module,
    lua.module,
    # precontent
    try_files.module,
    mirror.module,
    # content: the first that answers; proxy_pass always does
    stub_status.module,
    proxy.module,
    precompressed.module,
    random_index.module,
    index.module,
    autoindex.module,
    static.module,
    # filters
    headers.module,
    gunzip.module,
    immutable.module,  # replaces what the headers before said of fingerprinted files
    addition.module,
    sub.module,
    charset.module,
    ssi.module,
    zstd.module,
    brotli.module,
    gzip.module,
    compress.module,  # makes one filter of what the three above offer
    range.module,
    # log
    log.module,
)
