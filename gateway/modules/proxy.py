"""Pass requests to other servers: `proxy_pass` (ngx_http_proxy_module).

Source: https://nginx.org/en/docs/http/ngx_http_proxy_module.html. What is not supported yet says so when it is
configured; what has no effect here is accepted and idle.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gateway.cache.passage import CONTENT, HEADERS, TO, WRAP, Passage, Wrap
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
from gateway.http.message import Handler, Outcome, Request
from gateway.module import Build, Compiled, Module, Phase, Variable
from gateway.upstream.attempts import Body, answered
from gateway.upstream.client import Exchange
from gateway.upstream.conduct import Conduct
from gateway.upstream.destination import Destination, Directory, fixed
from gateway.upstream.encrypted import way_of
from gateway.upstream.incoming import HIDDEN, AnswerPlan, outcome
from gateway.upstream.outgoing import HTTP_VERSION, HeaderPlan, SetLine, forwarded, with_defaults
from gateway.upstream.pool import GROUPS
from gateway.upstream.prompt import prompt
from gateway.upstream.rewriting import Pair, Rewriter, flags_of, redirects_of, rule_argument, rules_of
from gateway.upstream.sending import Sending, client_body, sending

PASSING = In.LOCATION | In.IF_LOCATION | In.LIMIT_EXCEPT
_STREAMED = "answers are passed on as they come, in bounded memory"
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

    proxy_buffering: bool = directive(
        ANYWHERE,
        flag(),
        True,
        "Whether answers may be cached; they are passed on as they come, in bounded memory, either way.",
    )

    missing: tuple[Any, ...] = many(ANYWHERE, _MISSING, "Not supported yet; only what switches it off is accepted.")

    # accepted without effect
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
    way, conduct_over_tls = way_of(url.raw, build), replace(conduct, scheme=b"https://")
    method_text = None if conf.proxy_method is None else build.text(conf.proxy_method)
    version = f" HTTP/{conf.proxy_http_version}\r\n".encode()

    apart = plan if build.notes.get(WRAP) is None else _header_plan(conf, destination, build, HEADERS)

    async def find(request: Request) -> Destination:
        return await directory.destination(request, address(request))  # type: ignore[misc]

    async def fetch(request: Request, to: Destination, by: bytes | None, kept: bool) -> Exchange:
        if request.tries:
            request.tries.append(None)  # an internal redirect led here from another upstream
        uri = to.uri(request)
        method = by or (None if method_text is None else method_text(request)) or request.method
        body: Body = b""
        length, chunked = request.headers.content_length, False
        if request.body is not None or send is not client_body:
            body, length, chunked = await send(request)
        lines = (apart if kept else plan).lines(request, length, chunked)
        head = b"%b %b%b%b" % (method, uri, version, lines)
        group, conducted = (to.group, conduct) if not to.secure else (way.group(request, to.group), conduct_over_tls)
        return await answered(request, group, conducted, uri, head, body, bodiless=method == b"HEAD")

    async def proxy(request: Request) -> Outcome:
        to = destination if destination is not None else await find(request)
        request.keep(TO, to)
        return outcome(request, await fetch(request, to, None, False), answers)

    wrap: Wrap | None = build.notes.get(WRAP)
    if wrap is not None:
        result = partial(outcome, answers=answers)
        passage = Passage(proxy, destination, find, fetch, result, answers, conf.proxy_buffering)
        handler = build.notes[CONTENT] = wrap(passage)
        return handler
    build.notes[CONTENT] = proxy
    if destination is None or destination.secure or method_text is not None or send is not client_body:
        return proxy
    return prompt(proxy, destination, TO, conduct, plan, version, answers)


def _destination(conf: Proxy, url: Text, build: Build) -> Destination:
    level = build.level
    nested = level.context in (In.IF_LOCATION, In.LIMIT_EXCEPT) and (Proxy, "proxy_pass") in level.values
    plain = bool(build.location_prefix) and not build.location_is_pattern and not nested
    return fixed(url.raw, url.place, build.shared, build.location_prefix, uri_allowed=plain)


def _header_plan(
    conf: Proxy, destination: Destination | None, build: Build, more: Sequence[tuple[str, str]] = ()
) -> HeaderPlan:
    """`more`: headers sent, or kept away by an empty value, unless they are set."""
    lines = [SetLine(encode(name), build.text(value)) for name, value in conf.proxy_set_header]
    given = {line.name.lower() for line in lines}
    lines += [SetLine(encode(name), build.text(value)) for name, value in more if encode(name.lower()) not in given]

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


module = Module(
    name="proxy",
    conf=Proxy,
    handlers={Phase.CONTENT: passing},
    variables={
        "proxy_host": _to(lambda to: to.host_header),
        "proxy_port": _to(lambda to: to.port_text),
        "proxy_add_x_forwarded_for": Variable(forwarded),
    },
)
