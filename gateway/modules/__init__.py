"""The one list of modules. Where order is meaning, it is said.

Handlers of one phase run in this order, and so do filters on a response's head: nginx's running order (its own list is
read from the end). Filters: what judges the untouched response first (not_modified), then Lua, which sees it before
`add_header` does, then what changes bodies, then compression (the first that compresses wins), then ranges of what is
left.
"""

from typing import Any

from gateway.module import Module
from gateway.modules import (
    absent,
    access,
    addition,
    auth_basic,
    auth_request,
    autoindex,
    brotli,
    browser,
    charset,
    compress,
    echo,
    echo_filter,
    empty_gif,
    fingerprint,
    geo,
    gunzip,
    gzip,
    headers,
    headers_more,
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
    realip,
    referer,
    rewrite,
    secure_link,
    split_clients,
    ssi,
    static,
    stub_status,
    sub,
    try_files,
    upstream,
    userid,
    zstd,
)

ORDER: tuple[Module[Any], ...] = (
    absent.module,  # nothing but names
    # variables
    referer.module,
    map.module,
    geo.module,
    split_clients.module,
    browser.module,
    secure_link.module,
    upstream.module,
    # rewrite
    rewrite.module,
    # access
    access.module,
    auth_basic.module,
    auth_request.module,
    # Lua: after the rewrite and access modules, before every content handler; its filters right after not_modified
    fingerprint.module,  # before conditions are judged: a rewritten page has an entity tag of its own
    not_modified.module,
    lua.module,
    headers_more.module,  # it runs after Lua in the rewrite phase, and before add_header
    echo_filter.module,
    # precontent
    try_files.module,
    mirror.module,
    # content: the first that answers; proxy_pass always does
    stub_status.module,
    echo.module,
    empty_gif.module,
    proxy.module,
    precompressed.module,
    random_index.module,
    index.module,
    autoindex.module,
    static.module,
    # filters
    headers.module,
    userid.module,
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
    # preaccess. What these do at a request's end comes after its log line: realip gives the connection its address back
    realip.module,
    limit_req.module,
    limit_conn.module,
)
