"""The core's own rows: blocks, addresses, names, files, limits and time-outs.

Source: https://nginx.org/en/docs/http/ngx_http_core_module.html.
"""

import os
from typing import Any

from gateway import log
from gateway.config.args import (
    bits,
    buffers,
    choice,
    duration,
    flag,
    integer,
    nothing,
    offset,
    size,
    string,
    strings,
    text,
)
from gateway.config.schema import (
    ANYWHERE,
    Arg,
    ConfigError,
    In,
    Item,
    Merge,
    Place,
    Statement,
    Text,
    block,
    directive,
    many,
)
from gateway.http.address import Address, listen_argument
from gateway.http.mime import DEFAULT_TYPES, types_block

SERVERS = In.HTTP | In.SERVER
IN_IF = ANYWHERE | In.IF_LOCATION

METHODS = frozenset(
    "GET HEAD POST PUT DELETE MKCOL COPY MOVE OPTIONS PROPFIND PROPPATCH LOCK UNLOCK PATCH".split()  # noqa: SIM905
)


@block
class Blocks:
    """The statements that open the core's levels; the value of each is its `Level`, whose head holds the arguments."""

    http: tuple[Item[Any], ...] = many(
        In.MAIN, {"http": nothing()}, "Everything about HTTP.", opens={"http": lambda _outer: In.HTTP}, merge=Merge.OWN
    )
    server: tuple[Item[Any], ...] = many(
        In.HTTP, {"server": nothing()}, "A virtual server.", opens={"server": lambda _outer: In.SERVER}, merge=Merge.OWN
    )
    location: tuple[Item[Any], ...] = many(
        In.SERVER | In.LOCATION,
        {"location": Arg("[ = | ~ | ~* | ^~ ] uri | @name", 1, 2, lambda statement: location_argument(statement))},
        "What holds for a set of URIs: exact, by prefix, by regular expression, or named.",
        opens={"location": lambda _outer: In.LOCATION},
        merge=Merge.OWN,
    )
    limit_except: tuple[Item[Any], ...] = many(
        In.LOCATION,
        {"limit_except": Arg("method ...", 1, None, lambda statement: limit_except_argument(statement))},
        "What holds for all methods but the named ones (GET includes HEAD).",
        opens={"limit_except": lambda _outer: In.LIMIT_EXCEPT},
        merge=Merge.OWN,
    )


def limit_except_argument(statement: Statement) -> tuple[str, ...]:
    """The methods that are spared, in upper case."""
    for word in statement.args:
        if word.upper() not in METHODS:
            raise ConfigError(f'invalid method "{word}"', statement.place)
    return tuple(word.upper() for word in statement.args)


def location_argument(statement: Statement) -> tuple[str, str]:
    """Split a location's words into modifier ("", "=", "^~", "~", "~*", "@") and pattern; glued forms too, as `=/x`."""
    words = statement.args
    if len(words) == 2:
        if words[0] not in ("=", "^~", "~", "~*"):
            raise ConfigError(f'invalid location modifier "{words[0]}"', statement.place)
        return words[0], words[1]
    word = words[0]
    for modifier in ("^~", "~*", "=", "~"):
        if word.startswith(modifier):
            return modifier, word[len(modifier) :]
    return ("@" if word.startswith("@") else ""), word


def _log_spec(statement: Statement) -> log.Spec:
    try:
        return log.parse(statement.args, statement.paths.prefix)
    except log.LogError as error:
        raise ConfigError(str(error)) from None


def _error_page(statement: Statement) -> tuple[tuple[int, ...], int | None, Text]:
    words = list(statement.args)
    uri = words.pop()
    answer: int | None = None
    if words[-1].startswith("="):
        code = words.pop()[1:]
        if not words or (code and not code.isdigit()):
            raise ConfigError(f'invalid value "={code}"', statement.place)
        answer = int(code) if code else 0
    codes = []
    for word in words:
        if not word.isdigit() or word == "499":
            raise ConfigError(f'invalid value "{word}"', statement.place)
        if not 300 <= int(word) <= 599:
            raise ConfigError(f'value "{word}" must be between 300 and 599', statement.place)
        codes.append(494 if word == "494" else int(word))
    return tuple(codes), answer, Text(uri, statement.place)


def _keepalive(statement: Statement) -> tuple[float, float]:
    seconds = [duration().parse(_word(statement, word)) for word in statement.args]
    return seconds[0], seconds[1] if len(seconds) == 2 else 0.0


def _first_path(statement: Statement) -> str:
    return os.path.join(statement.paths.prefix, statement.args[0])


def _word(statement: Statement, word: str) -> Statement:
    return Statement(statement.name, (word,), None, statement.place, statement.paths)


@block
class Addressing:
    """Where a server listens and what it is called."""

    listen: tuple[tuple[Address, ...], ...] = many(
        In.SERVER, listen_argument(), "An address and port, or a unix socket, to accept on.", merge=Merge.OWN
    )
    server_name: tuple[tuple[tuple[str, ...], Place], ...] = many(
        In.SERVER,
        Arg("name ...", 1, None, lambda statement: (statement.args, statement.place)),
        "Names of a virtual server: exact, *.suffix, prefix.*, .both, or ~regex.",
        merge=Merge.OWN,
    )


@block
class Http:
    """What the core itself looks at."""

    # files
    root: Text = directive(IN_IF, text(), Text("html"), "The folder that URIs are looked up in.", default_text="html")
    alias: Text | None = directive(
        In.LOCATION, text(), None, "The folder that replaces the location's prefix.", merge=Merge.LOCATION
    )
    default_type: str = directive(ANYWHERE, string(), "text/plain", "The type of files with an unknown extension.")
    types: dict[bytes, str] = directive(
        ANYWHERE,
        types_block(),
        DEFAULT_TYPES,
        "Types by file extension; replaces the built-in table.",
        default_text="html, gif, jpg",
    )
    etag: bool = directive(ANYWHERE, flag(), True, "Send ETag with static files.")
    if_modified_since: str = directive(
        ANYWHERE, choice("off", "exact", "before"), "exact", "How If-Modified-Since is compared with the file's time."
    )
    max_ranges: int = directive(
        ANYWHERE, integer(0, 2**31), 2**31, "Ranges allowed in a request; more get the whole file."
    )
    log_not_found: bool = directive(ANYWHERE, flag(), True, "Log missing files.")
    sendfile: bool = directive(
        IN_IF, flag(), False, "Send large files by sendfile.", idle="files are sent the cheapest way there is"
    )
    tcp_nopush: bool = directive(
        ANYWHERE, flag(), False, "Cork head and file together.", idle="head and body leave in one write"
    )
    tcp_nodelay: bool = directive(ANYWHERE, flag(), True, "Disable Nagle.", idle="always on")

    # limits
    client_max_body_size: int = directive(
        ANYWHERE, offset(), 1 << 20, "Largest request body; 0 is no limit.", default_text="1m"
    )
    client_body_buffer_size: int = directive(
        ANYWHERE, size(), 16384, "Body kept in memory before a temporary file.", default_text="16k"
    )
    client_body_in_file_only: str = directive(
        ANYWHERE, choice("off", "clean", "on"), "off", "Save every body in a file; `on` leaves it there afterwards."
    )
    client_body_temp_path: str = directive(
        ANYWHERE,
        Arg("path [level1 [level2 [level3]]]", 1, 4, _first_path),
        "client_body_temp",
        "Where bodies are spilled.",
    )
    client_header_buffer_size: int = directive(
        SERVERS, size(), 1024, "First buffer for a request's head.", default_text="1k"
    )
    large_client_header_buffers: tuple[int, int] = directive(
        SERVERS, buffers(), (4, 8192), "Number and size of buffers for large heads.", default_text="4 8k"
    )
    keepalive_requests: int = directive(ANYWHERE, integer(0, 2**31), 1000, "Requests served on one connection.")
    keepalive_timeout: tuple[float, float] = directive(
        ANYWHERE,
        Arg("timeout [header_timeout]", 1, 2, _keepalive),
        (75.0, 0.0),
        "How long an idle connection is kept; the second value is sent as Keep-Alive.",
        default_text="75s",
    )
    keepalive_time: float = directive(
        ANYWHERE, duration(), 3600.0, "How long a connection may live in all.", default_text="1h"
    )
    keepalive_disable: frozenset[str] = directive(
        ANYWHERE,
        bits("none", "msie6", "safari"),
        frozenset({"msie6"}),
        "Browsers that get no keep-alive.",
        default_text="msie6",
    )
    client_header_timeout: float = directive(
        SERVERS, duration(), 60.0, "For the whole head of a request.", default_text="60s"
    )
    client_body_timeout: float = directive(
        ANYWHERE, duration(), 60.0, "Between two reads of a body.", default_text="60s"
    )
    send_timeout: float = directive(ANYWHERE, duration(), 60.0, "Between two writes of an answer.", default_text="60s")
    lingering_close: str = directive(
        ANYWHERE,
        choice("off", "on", "always"),
        "on",
        "Read on for a while after an early answer, so that the client sees it.",
    )
    lingering_time: float = directive(ANYWHERE, duration(), 30.0, "How long at most.", default_text="30s")
    lingering_timeout: float = directive(ANYWHERE, duration(), 5.0, "How long without new data.", default_text="5s")
    reset_timedout_connection: bool = directive(ANYWHERE, flag(), False, "Close timed-out connections with RST.")

    # requests
    ignore_invalid_headers: bool = directive(
        SERVERS, flag(), True, "Drop headers with invalid names (off: pass them on)."
    )
    underscores_in_headers: bool = directive(SERVERS, flag(), False, "Allow underscores in header names.")
    merge_slashes: bool = directive(SERVERS, flag(), True, "Read several slashes in a row as one.")
    internal: bool = directive(In.LOCATION, nothing(True), False, "Only for internal redirects.", merge=Merge.LOCATION)
    satisfy: str = directive(ANYWHERE, choice("all", "any"), "all", "Whether all access modules must admit, or one.")
    auth_delay: float = directive(
        ANYWHERE, duration(), 0.0, "How long an answer 401 waits, against guessing.", default_text="0s"
    )

    # answers
    subrequest_output_buffer_size: int = directive(
        ANYWHERE, size(), 4096, "The largest answer of a subrequest that is kept in memory.", default_text="4k"
    )
    error_page: tuple[Any, ...] = many(
        IN_IF, Arg("code ... [=[response]] uri", 2, None, _error_page), "What is answered in place of a status."
    )
    recursive_error_pages: bool = directive(ANYWHERE, flag(), False, "Allow an error page for an error page.")
    server_tokens: str = directive(
        ANYWHERE, choice("on", "off", "build"), "on", "Show the version in Server and error pages."
    )
    absolute_redirect: bool = directive(ANYWHERE, flag(), True, "Make redirects absolute.")
    server_name_in_redirect: bool = directive(ANYWHERE, flag(), False, "Use the server's name, not Host, in redirects.")
    port_in_redirect: bool = directive(ANYWHERE, flag(), True, "Name the port in absolute redirects.")
    msie_padding: bool = directive(ANYWHERE, flag(), True, "Pad small error pages for MSIE and Chrome.")
    msie_refresh: bool = directive(
        ANYWHERE, flag(), False, "Refresh pages instead of redirects for MSIE.", idle="no such browser is left"
    )
    chunked_transfer_encoding: bool = directive(ANYWHERE, flag(), True, "Use chunked coding for HTTP/1.1.")
    resolver: tuple[str, ...] = directive(
        ANYWHERE, strings(1), (), "Name servers.", idle="names are resolved by the system's resolver"
    )
    resolver_timeout: float = directive(ANYWHERE, duration(), 30.0, "For name resolution.", default_text="30s")

    # logs
    error_log: tuple[log.Spec, ...] = many(
        In.MAIN | ANYWHERE,
        Arg("file | stderr | syslog:… [level ...]", 1, None, _log_spec),
        "Where errors are logged, and from which level.",
    )
    log_subrequest: bool = directive(ANYWHERE, flag(), False, "Log subrequests too.")

    # made of `error_log` when the level is compiled
    errors: log.ErrorLog = log.main


_POOLS = "memory is Python's"
_HASHES = "tables are Python dictionaries"
_FILES = "files are read the cheapest way there is"


@block
class Idle:
    """Directives of the core that nginx needs and we do not."""

    sendfile_max_chunk: int = directive(
        ANYWHERE, size(), 0, "Bytes sent in one sendfile.", idle=_FILES, default_text="2m"
    )
    aio: tuple[str, ...] = directive(ANYWHERE, strings(1), (), "Asynchronous file reads.", idle=_FILES)
    aio_write: bool = directive(ANYWHERE, flag(), False, "Asynchronous file writes.", idle=_FILES)
    directio: tuple[str, ...] = directive(ANYWHERE, strings(1), (), "Bypass the page cache.", idle=_FILES)
    directio_alignment: int = directive(ANYWHERE, size(), 512, "Alignment of direct reads.", idle=_FILES)
    read_ahead: int = directive(ANYWHERE, size(), 0, "Kernel read-ahead.", idle=_FILES)
    output_buffers: tuple[int, int] = directive(
        ANYWHERE, buffers(), (2, 32768), "Buffers for file reads.", idle=_FILES, default_text="2 32k"
    )
    postpone_output: int = directive(
        ANYWHERE, size(), 1460, "Bytes collected before a write.", idle="a write is made per loop turn"
    )
    send_lowat: int = directive(ANYWHERE, size(), 0, "Low-water mark of the socket.", idle="the event loop decides")
    open_file_cache: tuple[str, ...] = directive(
        ANYWHERE, strings(1), ("off",), "Cache of open files.", idle="built in, always revalidated"
    )
    open_file_cache_valid: float = directive(
        ANYWHERE, duration(), 60.0, "Its revalidation.", idle=_FILES, default_text="60s"
    )
    open_file_cache_min_uses: int = directive(ANYWHERE, integer(1, 2**31), 1, "Its admission.", idle=_FILES)
    open_file_cache_errors: bool = directive(ANYWHERE, flag(), False, "Cache errors.", idle=_FILES)
    connection_pool_size: int = directive(SERVERS, size(), 512, "Pool per connection.", idle=_POOLS)
    request_pool_size: int = directive(SERVERS, size(), 4096, "Pool per request.", idle=_POOLS, default_text="4k")
    client_body_in_single_buffer: bool = directive(ANYWHERE, flag(), False, "Body in one buffer.", idle="always so")
    types_hash_max_size: int = directive(ANYWHERE, integer(1, 2**31), 1024, "Size of a hash table.", idle=_HASHES)
    types_hash_bucket_size: int = directive(ANYWHERE, size(), 64, "Size of a hash bucket.", idle=_HASHES)
    server_names_hash_max_size: int = directive(In.HTTP, integer(1, 2**31), 512, "Size of a hash table.", idle=_HASHES)
    server_names_hash_bucket_size: int = directive(In.HTTP, size(), 64, "Size of a hash bucket.", idle=_HASHES)
    variables_hash_max_size: int = directive(In.HTTP, integer(1, 2**31), 1024, "Size of a hash table.", idle=_HASHES)
    variables_hash_bucket_size: int = directive(In.HTTP, size(), 64, "Size of a hash bucket.", idle=_HASHES)
