"""Send an answer no faster than so many bytes a second (`limit_rate` of ngx_http_core_module, ngx_http_write_filter).

Each request is paced by itself. `set $limit_rate` and an upstream's X-Accel-Limit-Rate change its rate, wherever the
configuration names a rate or the variable.
"""

import asyncio
import time

from gateway import log
from gateway.config.args import bytes_of, text
from gateway.config.schema import ANYWHERE, In, Text, block, directive
from gateway.http.message import RATE, Filter, Request, Response, Stream
from gateway.http.report import report
from gateway.module import Build, Module, Variable

IN_IF = ANYWHERE | In.IF_LOCATION


@block
class LimitRate:
    """How fast, and from which byte on."""

    limit_rate: Text = directive(
        IN_IF, text(), Text("0"), "Bytes a second to the client; 0 is no limit.", default_text="0"
    )
    limit_rate_after: Text = directive(
        IN_IF, text(), Text("0"), "Bytes sent before the rate is limited.", default_text="0"
    )


class Paced:
    """A body that is read no faster than the rate. As nginx, a second's worth may go at once."""

    def __init__(self, stream: Stream, started: float, rate: int, after: int) -> None:
        self.stream, self.started, self.rate, self.after = stream, started, rate, after
        self.sent = 0
        self.held = b""

    async def read(self) -> bytes:
        """The next bytes that may go, b"" at the end."""
        if not self.held:
            self.held = await self.stream.read()
            if not self.held:
                return b""
        allowed = self._allowed()
        while allowed <= 0:
            await asyncio.sleep(-allowed / self.rate + 0.001)
            allowed = self._allowed()
        piece, self.held = self.held[:allowed], self.held[allowed:]
        self.sent += len(piece)
        return piece

    def _allowed(self) -> int:
        return int(self.rate * (time.time() - self.started + 1) - (self.sent - self.after))

    def close(self) -> None:
        """Free what it reads from."""
        self.stream.close()


class Pacing:
    """What the filter returns: the stream in the body's place."""

    def __init__(self, request: Request, rate: int, after: int) -> None:
        self.request, self.rate, self.after = request, rate, after

    def splice(self, stream: Stream) -> Stream:
        """Pace what the filters before have made."""
        return Paced(stream, self.request.started, self.rate, self.after)


def size(value: bytes) -> int:
    """Bytes of a size with k, m or g; 0 for what is none, as nginx takes it."""
    try:
        return bytes_of(value.decode("latin-1"), "kKmMgG")
    except ValueError:
        return 0


def limiting(conf: LimitRate, build: Build) -> Filter:
    """Pace answers of this location; the variable, once set, comes before the directive."""
    rate_of, after_of = build.text(conf.limit_rate), build.text(conf.limit_rate_after)

    def limit_rate(request: Request, response: Response) -> Pacing | None:
        if request.main is not request or request.method == b"HEAD":
            return None
        rate = request.note(RATE) or size(rate_of(request))
        if not rate:
            return None
        response.length = response.known_length()
        return Pacing(request, rate, size(after_of(request)))

    return limit_rate


def unlimited(conf: LimitRate, build: Build) -> bool:
    """Without a rate an answer may be given again."""
    return conf.limit_rate.raw == "0"


def _rate(request: Request) -> bytes | None:
    return b"%d" % request.note(RATE, 0)


def _set_rate(request: Request, value: bytes | None) -> None:
    word = (value or b"").decode("latin-1")
    try:
        request.keep(RATE, bytes_of(word))
    except ValueError:
        report(request, log.ERROR, f'invalid $limit_rate "{word}"')


module = Module(
    name="limit_rate",
    conf=LimitRate,
    filter=limiting,
    steady=unlimited,
    variables={"limit_rate": Variable(_rate, _set_rate)},
)
