"""Answers put together in the configuration: texts, sleeps, subrequests, request bodies (the echo module).

Source: https://github.com/openresty/echo-nginx-module.
"""

import os
import time
from collections.abc import Callable, Iterable

from gateway import log
from gateway.config.args import encode, integer
from gateway.config.schema import In, Item, Merge, block, directive, many
from gateway.http.message import ClientGone, Handler, HttpError, Outcome, Redirect, Request, Response
from gateway.http.paths import mime
from gateway.http.report import report
from gateway.http.saying import Words, compiled, joined, words
from gateway.http.script import IT, Command, Moved, Pause, Repeated, Script, nothing, sleeping
from gateway.http.subrequest import Child, made, target_of
from gateway.module import Build, Module, Phase, Variable

IN = In.LOCATION | In.IF_LOCATION
_TIMER, _COUNTER, _URI = "echo timer", "echo counter", "echo uri"
_WITH_BODY = ("location", "subrequest", "read_request_body")  # commands before which the client's body is read


_LOCATION = words("location [args]", 1, 2)
_SUBREQUEST = words("method location [-q args] [-b body] [-f file]", 2, None)
_PROGRAM = {
    "echo": (words("[-n] string ...", 0, None), "Give out strings, with spaces between and a line end after."),
    "echo_duplicate": (words("count string", 2, None), "Give out a string many times."),
    "echo_flush": (words("", 0, 0), "Give out at once what has been said."),
    "echo_sleep": (words("seconds", 1, 1), "Wait for some seconds."),
    "echo_blocking_sleep": (words("seconds", 1, 1), "Wait; other requests go on here."),
    "echo_reset_timer": (words("", 0, 0), "Let $echo_timer_elapsed begin now."),
    "echo_location": (_LOCATION, "Give out another location's answer, and wait for its end."),
    "echo_location_async": (_LOCATION, "Give out another location's answer."),
    "echo_subrequest": (_SUBREQUEST, "The same with a method and a body."),
    "echo_subrequest_async": (_SUBREQUEST, "The same with a method and a body, without waiting."),
    "echo_foreach_split": (words("delimiter string", 2, None), "Repeat what follows for each part of a string."),
    "echo_end": (words("", 0, 0), "The end of what is repeated."),
    "echo_read_request_body": (words("", 0, 0), "Read the client's body."),
    "echo_request_body": (words("", 0, 0), "Give out the request's body, if it was read."),
    "echo_exec": (words("location [args] | @name", 1, 2), "Go to another location."),
    "echo_abort_parent": (words("", 0, 0), "Does nothing, as in the original."),
}


@block
class Echo:
    """The commands of a location."""

    program: tuple[Item[Words], ...] = many(
        IN,
        {name: arg for name, (arg, _) in _PROGRAM.items()},
        {name: doc for name, (_, doc) in _PROGRAM.items()},
        merge=Merge.LOCATION,
    )
    echo_status: int = directive(IN, integer(), 200, "The status of the answer.")


# --- the content handler


def echoing(conf: Echo, build: Build) -> Handler | None:
    """Run the commands up to the first output, then answer with what they give out."""
    program = conf.program
    if not program:
        return None
    commands = [_COMMANDS[item.name.removeprefix("echo_").removesuffix("_async")](item, build) for item in program]
    reads = any(word in item.name for item in program for word in _WITH_BODY)
    type_of, status = mime(build), conf.echo_status

    async def echo(request: Request) -> Outcome:
        if reads and request.body is not None and request.main is request:
            await request.body.collect()
        script = Script(request, commands)
        try:
            await script.begin()
            output = script.ready()
        except Moved as moved:
            return moved.redirect
        response = Response(status, script if output is None else output, type_of(request.uri))
        response.length = -1
        return response

    return echo


def _say(item: Item[Words], build: Build) -> Command:
    text = joined(item.value, build)
    return lambda script: script.say(text(script.request))


def _duplicate(item: Item[Words], build: Build) -> Command:
    texts = compiled(item.value, build)

    def duplicate(script: Script) -> None:
        count, text = (value(script.request) for value in texts[:2])
        digits = count.replace(b"_", b"")
        if not count or (digits and not digits.isdigit()):
            report(script.request, log.ERROR, f'invalid size specified: "{_shown(count)}"')
            raise _failure(script)
        times = int(digits or b"0")
        script.say(Repeated(text, times) if text and times * len(text) > 65536 else text * times)

    return duplicate


def _flush(_item: Item[Words], _build: Build) -> Command:
    def flush(script: Script) -> Pause | None:
        return nothing if script.out.items else None

    return flush


def _sleep(item: Item[Words], build: Build) -> Command:
    (duration,) = compiled(item.value, build)

    def sleep(script: Script) -> Pause:
        word = duration(script.request)
        try:
            if not word.replace(b".", b"", 1).isdigit():
                raise ValueError(word)
            seconds = float(word)
        except ValueError:
            report(script.request, log.ERROR, f'invalid sleep duration "{_shown(word)}"')
            raise _failure(script, 400) from None
        return sleeping(seconds)

    return sleep


def _reset(_item: Item[Words], _build: Build) -> Command:
    return lambda script: script.request.keep(_TIMER, time.time())


def _location(item: Item[Words], build: Build) -> Command:
    texts, waits = compiled(item.value, build), not item.name.endswith("_async")

    def location(script: Script) -> Pause | None:
        uri, *args = (text(script.request) for text in texts)
        return _include(script, waits, uri, args[0] if args else None)

    return location


def _subrequest(item: Item[Words], build: Build) -> Command:
    texts, waits = compiled(item.value, build), not item.name.endswith("_async")
    prefix = encode(build.prefix)

    def subrequest(script: Script) -> Pause | None:
        method, uri, *options = (text(script.request) for text in texts)
        given = dict(zip(options[::2], options[1::2], strict=False))
        unknown = next((option for option in options[::2] if option not in (b"-q", b"-b", b"-f")), None)
        if unknown is not None:
            report(script.request, log.ERROR, f"unknown option for echo_subrequest*: {_shown(unknown)}")
            raise _abort(script)
        body = given.get(b"-b") or _content(script, given.get(b"-f"), prefix)
        return _include(script, waits, uri, given.get(b"-q"), method=method, body=body)

    return subrequest


def _content(script: Script, name: bytes | None, prefix: bytes) -> bytes | None:
    """A file to be sent as a body."""
    if not name:
        return None
    path = os.path.join(prefix, name)
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        report(script.request, log.ERROR, f'open() "{_shown(path)}" failed ({error.errno}: {error.strerror})')
        raise _abort(script) from None


def _include(
    script: Script, waits: bool, uri: bytes, args: bytes | None, method: bytes = b"GET", body: bytes | None = None
) -> Pause | None:
    """Start a subrequest, whose variables are its own."""
    target = target_of(uri)
    if target is None:
        raise _abort(script)
    script.shown = True
    if script.request.method != b"HEAD":
        path, own = target
        sub = made(script.request, path, own if args is None else args, method=method, body=body, values={})
        script.say(Child(sub))
    return nothing if waits else None


def _foreach(item: Item[Words], build: Build) -> Command:
    texts = compiled(item.value, build)

    def foreach(script: Script) -> None:
        if script.loop >= 0:
            report(script.request, log.ERROR, "Nested echo_foreach not supported yet.")
            raise _failure(script)
        if len(texts) < 2:
            report(script.request, log.ERROR, "echo_foreach should take at least two arguments.")
            raise _failure(script)
        delimiter, whole = (text(script.request) for text in texts[:2])
        parts: Iterable[bytes] = whole.split(delimiter) if delimiter else (whole,)
        end = next((at for at in range(script.at, len(script.commands)) if script.commands[at] is _end), None)
        script.begin_loop([part for part in parts if part], len(script.commands) if end is None else end + 1)

    return foreach


def _end(script: Script) -> None:
    if script.loop < 0:
        report(script.request, log.ERROR, "Found a echo_end that has no corresponding echo_foreach before it.")
        raise _abort(script)
    script.end_loop()


def _read_body(_item: Item[Words], _build: Build) -> Command:
    return lambda _script: None  # it was read before the first command


def _request_body(_item: Item[Words], _build: Build) -> Command:
    def request_body(script: Script) -> Pause | None:
        body = script.request.body
        if body is None or not body.held() or not body.received:
            return None
        data = body.data()
        if not isinstance(data, bytes):
            data.seek(0)
            data = data.read()
        script.say(data)
        return None

    return request_body


def _exec(item: Item[Words], build: Build) -> Command:
    texts = compiled(item.value, build)

    def move(script: Script) -> None:
        uri, *args = (text(script.request) for text in texts)
        if not uri:
            raise _failure(script, 400)
        target = target_of(uri)
        if target is None or script.shown:
            raise _abort(script)
        if uri.startswith(b"@"):
            raise Moved(Redirect(name=_shown(target[0])))
        raise Moved(Redirect(target[0], args[0] if args else target[1]))

    return move


_COMMANDS: dict[str, Callable[[Item[Words], Build], Command]] = {
    "echo": _say,
    "duplicate": _duplicate,
    "flush": _flush,
    "sleep": _sleep,
    "blocking_sleep": _sleep,
    "reset_timer": _reset,
    "location": _location,
    "subrequest": _subrequest,
    "foreach_split": _foreach,
    "end": lambda _item, _build: _end,
    "read_request_body": _read_body,
    "request_body": _request_body,
    "exec": _exec,
    "abort_parent": _read_body,
}


def _failure(script: Script, status: int = 500) -> Exception:
    """An error before there is a head; afterwards the connection is given up."""
    return _abort(script) if script.shown else HttpError(status)


def _abort(_script: Script) -> Exception:
    return ClientGone(500)


# --- variables


def _elapsed(request: Request) -> bytes:
    return b"%.3f" % max(time.time() - request.note(_TIMER, request.started), 0.0)


def _count(request: Request) -> bytes:
    count = request.main.note(_COUNTER, 0) + 1
    request.main.keep(_COUNTER, count)
    return b"%d" % count


def _cached_uri(request: Request) -> bytes | None:
    known: bytes | None = request.note(_URI)
    if known is None:
        known = request.uri
        request.keep(_URI, known)
    return known


def _body(request: Request) -> bytes | None:
    body = request.body
    if body is None or not body.held() or not body.received:
        return None
    data = body.data()
    return data if isinstance(data, bytes) else None


def _client_headers(request: Request) -> bytes:
    main = request.main
    return b"\r\n".join([main.line, *main.headers.lines, b"", b""])


def _status(request: Request) -> bytes | None:
    return None if request.response is None else b"%d" % request.response.status


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


module = Module(
    needs=("echo_filter",),
    name="echo",
    conf=Echo,
    handlers={Phase.CONTENT: echoing},
    variables={
        "echo_timer_elapsed": Variable(_elapsed),
        "echo_request_method": Variable(lambda request: request.method),
        "echo_client_request_method": Variable(lambda request: request.main.method),
        "echo_request_uri": Variable(lambda request: request.uri),
        "echo_cacheable_request_uri": Variable(_cached_uri),
        "echo_request_body": Variable(_body),
        "echo_client_request_headers": Variable(_client_headers),
        "echo_response_status": Variable(_status),
        "echo_it": Variable(lambda request: request.note(IT)),
        "echo_incr": Variable(_count),
    },
)
