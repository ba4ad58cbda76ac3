"""Pass requests to other servers: `proxy_pass` (ngx_http_proxy_module).

Source: https://nginx.org/en/docs/http/ngx_http_proxy_module.html. What is not supported yet says so when it is
configured; what has no effect without it (how to cache, how to speak TLS) is accepted and idle.
"""

from collections.abc import Callable
from typing import Any

from gateway.config.args import (
    bits,
    buffers,
    choice,
    duration,
    encode,
    flag,
    integer,
    size,
    string,
    strings,
    text,
    texts,
)
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Merge, Statement, Text, block, directive, many
from gateway.http.flow import Wait
from gateway.http.message import Handler, Outcome, Request
from gateway.module import Build, Compiled, Module, Phase, Variable
from gateway.upstream.attempts import Body, abandon, answered, begun
from gateway.upstream.conduct import Conduct
from gateway.upstream.destination import Destination, Directory, fixed
from gateway.upstream.incoming import HIDDEN, AnswerPlan, outcome
from gateway.upstream.outgoing import HTTP_VERSION, HeaderPlan, SetLine, with_defaults
from gateway.upstream.pool import GROUPS
from gateway.upstream.rewriting import Pair, Rewriter, flags_of, redirects_of, rule_argument, rules_of
from gateway.upstream.sending import Sending, client_body, sending

PASSING = In.LOCATION | In.IF_LOCATION | In.LIMIT_EXCEPT
_STREAMED = "answers are passed on as they come, in bounded memory"
_UNCACHED = "there is no proxy_cache yet"
_PLAIN = "there are no https:// upstream servers yet"
_FAILURES = (
    "error", "timeout", "invalid_header", "non_idempotent", "http_500", "http_502", "http_503", "http_504", "http_403",
    "http_404", "http_429", "updating", "off",
)  # fmt: skip
_IGNORABLE = (
    "x-accel-redirect", "x-accel-expires", "x-accel-limit-rate", "x-accel-buffering", "x-accel-charset", "expires",
    "cache-control", "set-cookie", "vary",
)  # fmt: skip


def _only(*words: str) -> Arg[str]:
    """What may be said of a feature that is missing: that it is off."""

    def parse(statement: Statement) -> str:
        if statement.args and statement.args[0] in words:
            return statement.args[0]
        raise ConfigError(f'"{statement.name}" is not supported yet', statement.place)

    return Arg(" | ".join(words) or "...", 0, None, parse)


_MISSING = {
    "proxy_bind": _only("off"),
    "proxy_cache": _only("off"),
    "proxy_cache_path": _only(),
    "proxy_limit_rate": _only("0"),
    "proxy_pass_trailers": _only("off"),
    "proxy_socket_keepalive": _only("off"),
    "proxy_store": _only("off"),
}
_HEADER = Arg("field value", 2, 2, lambda statement: (statement.args[0], Text(statement.args[1], statement.place)))


def _idle(arg: Arg[Any], default: Any, doc: str, reason: str) -> Any:
    return directive(ANYWHERE, arg, default, doc, idle=reason, default_text="-")


@block
class Proxy:
    """What is passed, how, and how the answer is passed back."""

    proxy_pass: Text | None = directive(
        PASSING, text("URL"), None, "Where requests are passed to.", merge=Merge.LOCATION
    )

    # the request
    proxy_set_header: tuple[tuple[str, Text], ...] = many(
        ANYWHERE, _HEADER, "A header to send; an empty value drops it."
    )
    proxy_method: Text | None = directive(ANYWHERE, text("method"), None, "The method to send.")
    proxy_http_version: str = directive(ANYWHERE, choice("1.0", "1.1"), HTTP_VERSION, "The protocol version to send.")
    proxy_set_body: Text | None = directive(ANYWHERE, text("value"), None, "The body to send in place of the client's.")
    proxy_pass_request_headers: bool = directive(ANYWHERE, flag(), True, "Pass the client's headers.")
    proxy_pass_request_body: bool = directive(ANYWHERE, flag(), True, "Pass the client's body.")
    proxy_request_buffering: bool = directive(ANYWHERE, flag(), True, "Read the whole body before it is passed.")

    # the answer
    proxy_hide_header: tuple[str, ...] = many(ANYWHERE, string("field"), "A header that is not passed to the client.")
    proxy_pass_header: tuple[str, ...] = many(
        ANYWHERE, string("field"), "A header that is passed although nginx hides it."
    )
    proxy_ignore_headers: frozenset[str] = directive(
        ANYWHERE, bits(*_IGNORABLE), frozenset(), "Headers that are not obeyed.", default_text="-"
    )
    proxy_redirect: tuple[Pair, ...] = many(
        ANYWHERE,
        Arg("off | default | redirect replacement", 1, 2, rule_argument),
        "How Location and Refresh are changed.",
    )
    proxy_cookie_domain: tuple[Pair, ...] = many(
        ANYWHERE, Arg("off | domain replacement", 1, 2, rule_argument), "How the domain of Set-Cookie is changed."
    )
    proxy_cookie_path: tuple[Pair, ...] = many(
        ANYWHERE, Arg("off | path replacement", 1, 2, rule_argument), "How the path of Set-Cookie is changed."
    )
    proxy_cookie_flags: tuple[tuple[Text, ...], ...] = many(
        ANYWHERE, texts(1, 4, "off | cookie [flag ...]"), "Which flags of Set-Cookie are set or cleared."
    )
    proxy_intercept_errors: bool = directive(ANYWHERE, flag(), False, "Let error_page replace the server's errors.")

    proxy_force_ranges: bool = directive(ANYWHERE, flag(), False, "Serve ranges of answers, whatever the server says.")

    # conduct
    proxy_connect_timeout: float = directive(
        ANYWHERE, duration(), 60.0, "For a connection to be made.", default_text="60s"
    )
    proxy_read_timeout: float = directive(ANYWHERE, duration(), 60.0, "Between two reads.", default_text="60s")
    proxy_send_timeout: float = directive(ANYWHERE, duration(), 60.0, "Between two writes.", default_text="60s")
    proxy_next_upstream: frozenset[str] = directive(
        ANYWHERE,
        bits(*_FAILURES),
        frozenset(("error", "timeout")),
        "When the next server is tried.",
        default_text="error timeout",
    )
    proxy_next_upstream_tries: int = directive(ANYWHERE, integer(0), 0, "How many servers may be tried; 0: all.")
    proxy_next_upstream_timeout: float = directive(ANYWHERE, duration(), 0.0, "For how long; 0: no limit.")
    proxy_ignore_client_abort: bool = directive(
        ANYWHERE, flag(), False, "Finish with the server though the client has left."
    )
    proxy_buffer_size: int = directive(ANYWHERE, size(), 4096, "The largest head of an answer.", default_text="4k")
    proxy_buffers: tuple[int, int] = directive(
        ANYWHERE, buffers(), (8, 8192), "How much of an answer is held for a client that lags.", default_text="8 8k"
    )

    missing: tuple[Any, ...] = many(ANYWHERE, _MISSING, "Not supported yet; only what switches it off is accepted.")

    # accepted without effect
    proxy_buffering: bool = _idle(flag(), True, "Buffer answers.", _STREAMED)
    proxy_busy_buffers_size: int = _idle(size(), 16384, "Buffers busy with sending.", _STREAMED)
    proxy_max_temp_file_size: int = _idle(size(), 1 << 30, "Spill answers to a file.", _STREAMED)
    proxy_temp_file_write_size: int = _idle(size(), 16384, "Its writes.", _STREAMED)
    proxy_temp_path: tuple[str, ...] = _idle(strings(1, 4), (), "Its folder.", _STREAMED)
    proxy_send_lowat: int = _idle(size(), 0, "Low-water mark of the socket.", "the event loop decides")
    proxy_headers_hash_max_size: int = _idle(size(), 512, "Size of a hash table.", "tables are Python dictionaries")
    proxy_headers_hash_bucket_size: int = _idle(size(), 64, "Size of a hash bucket.", "tables are Python dictionaries")
    proxy_store_access: tuple[str, ...] = _idle(
        strings(1, 3), (), "Access to stored files.", "there is no proxy_store yet"
    )
    proxy_cache_background_update: bool = _idle(flag(), False, "Refresh in the background.", _UNCACHED)
    proxy_cache_bypass: tuple[str, ...] = _idle(strings(1), (), "When not to answer from the cache.", _UNCACHED)
    proxy_cache_convert_head: bool = _idle(flag(), True, "Fetch by GET for HEAD.", _UNCACHED)
    proxy_cache_key: str = _idle(string(), "", "What an answer is kept under.", _UNCACHED)
    proxy_cache_lock: bool = _idle(flag(), False, "Fetch once for all who wait.", _UNCACHED)
    proxy_cache_lock_age: float = _idle(duration(), 5.0, "Fetch again after this time.", _UNCACHED)
    proxy_cache_lock_timeout: float = _idle(duration(), 5.0, "Wait no longer.", _UNCACHED)
    proxy_cache_max_range_offset: int = _idle(size(), 0, "Ranges beyond are not cached.", _UNCACHED)
    proxy_cache_methods: frozenset[str] = _idle(strings(1), frozenset(), "Methods cached.", _UNCACHED)
    proxy_cache_min_uses: int = _idle(integer(1), 1, "Cache at this request.", _UNCACHED)
    proxy_cache_revalidate: bool = _idle(flag(), False, "Ask whether it has changed.", _UNCACHED)
    proxy_cache_use_stale: frozenset[str] = _idle(
        strings(1), frozenset(), "When to answer what is out of date.", _UNCACHED
    )
    proxy_cache_valid: tuple[str, ...] = _idle(strings(1), (), "For how long.", _UNCACHED)
    proxy_no_cache: tuple[str, ...] = _idle(strings(1), (), "When not to cache.", _UNCACHED)
    proxy_ssl_certificate: str = _idle(string(), "", "Our certificate.", _PLAIN)
    proxy_ssl_certificate_key: str = _idle(string(), "", "The key of our certificate.", _PLAIN)
    proxy_ssl_ciphers: str = _idle(string(), "", "Ciphers offered.", _PLAIN)
    proxy_ssl_conf_command: tuple[str, ...] = _idle(strings(2, 2), (), "OpenSSL commands.", _PLAIN)
    proxy_ssl_crl: str = _idle(string(), "", "Revoked certificates.", _PLAIN)
    proxy_ssl_name: str = _idle(string(), "", "The name expected.", _PLAIN)
    proxy_ssl_password_file: str = _idle(string(), "", "Pass phrases.", _PLAIN)
    proxy_ssl_protocols: tuple[str, ...] = _idle(strings(1), (), "Protocol versions.", _PLAIN)
    proxy_ssl_server_name: bool = _idle(flag(), False, "Send the name.", _PLAIN)
    proxy_ssl_session_reuse: bool = _idle(flag(), True, "Resume sessions.", _PLAIN)
    proxy_ssl_trusted_certificate: str = _idle(string(), "", "Authorities.", _PLAIN)
    proxy_ssl_verify: bool = _idle(flag(), False, "Verify the server.", _PLAIN)
    proxy_ssl_verify_depth: int = _idle(integer(0), 1, "How long a chain may be.", _PLAIN)


# --- compiling a location


def passing(conf: Proxy, build: Build) -> Handler | None:
    """The handler of a location that passes its requests on. Raises ConfigError."""
    url = conf.proxy_pass
    if url is None:
        return None
    build.auto_redirect = True
    destination, address = None, None
    if "$" in url.raw:
        address = build.text(url)
    else:
        destination = _destination(conf, url, build)
    plan = _header_plan(conf, destination, build)
    rewriter = _rewriter(conf, destination, build)
    ignored = _lower(conf.proxy_ignore_headers)
    answers = AnswerPlan(
        _hidden(conf), ignored, rewriter, intercepts=conf.proxy_intercept_errors, ranges=conf.proxy_force_ranges
    )
    directory = Directory(build.shared.setdefault(GROUPS, {}))
    send, conduct = _sending(conf, build), _conduct(conf)
    method_text = None if conf.proxy_method is None else build.text(conf.proxy_method)
    version = f" HTTP/{conf.proxy_http_version}\r\n".encode()

    async def proxy(request: Request) -> Outcome:
        to = destination if destination is not None else await directory.destination(request, address(request))  # type: ignore[misc]
        if request.notes is None:
            request.notes = {TO: to}
        else:
            request.notes[TO] = to
        if request.tries:
            request.tries.append(None)  # an internal redirect led here from another upstream
        uri = to.uri(request)
        method = request.method if method_text is None else method_text(request) or request.method
        body: Body = b""
        length, chunked = request.headers.content_length, False
        if request.body is not None or send is not client_body:
            body, length, chunked = await send(request)
        head = b"%b %b%b%b" % (method, uri, version, plan.lines(request, length, chunked))
        bodiless = method == b"HEAD"
        exchange = begun(request, to.group, conduct, head, bodiless) if body == b"" else None
        if exchange is not None:
            exchange.wait = wait = Wait()
            try:
                await wait
            except BaseException as error:
                abandon(request, exchange, error)
                raise
        if exchange is None or exchange.head is None:
            rest = answered(request, to.group, conduct, uri, head, body, bodiless=bodiless, begun=exchange)
            exchange = await rest
        return outcome(request, exchange, answers)

    return proxy


TO = "proxied to"  # the note that holds a request's Destination


def _destination(conf: Proxy, url: Text, build: Build) -> Destination:
    level = build.level
    nested = level.context in (In.IF_LOCATION, In.LIMIT_EXCEPT) and (Proxy, "proxy_pass") in level.values
    plain = bool(build.location_prefix) and not build.location_is_pattern and not nested
    return fixed(url.raw, url.place, build.shared, build.location_prefix, uri_allowed=plain)


def _header_plan(conf: Proxy, destination: Destination | None, build: Build) -> HeaderPlan:
    lines = [SetLine(encode(name), build.text(value)) for name, value in conf.proxy_set_header]

    def default(raw: str) -> Compiled:
        if destination is not None and raw == "$proxy_host":
            return build.text(destination.host_header.decode())
        return build.text(raw)

    return HeaderPlan(*with_defaults(lines, default), conf.proxy_pass_request_headers)


def _rewriter(conf: Proxy, destination: Destination | None, build: Build) -> Rewriter | None:
    url = conf.proxy_pass.raw if conf.proxy_pass is not None and destination is not None else ""
    rewriter = Rewriter(
        redirects_of(conf.proxy_redirect, url, build.location_prefix, build),
        rules_of(conf.proxy_cookie_domain, build, domain=True),
        rules_of(conf.proxy_cookie_path, build),
        flags_of(conf.proxy_cookie_flags, build),
    )
    return None if rewriter == Rewriter() else rewriter


def _sending(conf: Proxy, build: Build) -> Sending:
    return sending(
        None if conf.proxy_set_body is None else build.text(conf.proxy_set_body),
        passed=conf.proxy_pass_request_body,
        buffered=conf.proxy_request_buffering,
        http10=conf.proxy_http_version == "1.0",
    )


def _lower(words: Any) -> frozenset[bytes]:
    return frozenset(encode(word.lower()) for word in words)


def _hidden(conf: Proxy) -> frozenset[bytes]:
    ranges = {b"accept-ranges"} if conf.proxy_force_ranges else set()
    return (HIDDEN - _lower(conf.proxy_pass_header)) | _lower(conf.proxy_hide_header) | ranges


def _conduct(conf: Proxy) -> Conduct:
    return Conduct(
        connect_timeout=conf.proxy_connect_timeout,
        read_timeout=conf.proxy_read_timeout,
        send_timeout=conf.proxy_send_timeout,
        next_upstream=conf.proxy_next_upstream,
        next_tries=conf.proxy_next_upstream_tries,
        next_timeout=conf.proxy_next_upstream_timeout,
        head_limit=conf.proxy_buffer_size,
        room=conf.proxy_buffers[0] * conf.proxy_buffers[1],
        ignore_client_abort=conf.proxy_ignore_client_abort,
    )


# --- variables


def _to(read: Callable[[Destination], bytes | None]) -> Variable:
    def get(request: Request) -> bytes | None:
        destination = request.note(TO)
        return None if destination is None else read(destination)

    return Variable(get)


def _forwarded(request: Request) -> bytes | None:
    client, before = request.main.peer.client, request.headers.joined(b"x-forwarded-for")
    return client if before is None else before + b", " + client


module = Module(
    name="proxy",
    conf=Proxy,
    handlers={Phase.CONTENT: passing},
    variables={
        "proxy_host": _to(lambda to: to.host_header),
        "proxy_port": _to(lambda to: to.port_text),
        "proxy_add_x_forwarded_for": Variable(_forwarded),
    },
)
