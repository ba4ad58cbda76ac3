"""Strings before and after the body of any answer (the echo module's filter)."""

from collections.abc import Callable, Sequence

from gateway.config.schema import In, block, many
from gateway.http.changing import changed
from gateway.http.message import Filter, Request, Response, Transform
from gateway.http.saying import Words, joined, words
from gateway.module import Build, Module

IN = In.LOCATION | In.IF_LOCATION
_STRINGS = words("[-n] string ...", 0, None)


@block
class EchoFilter:
    """The strings."""

    echo_before_body: tuple[Words, ...] = many(IN, _STRINGS, "Strings before an answer's body.")
    echo_after_body: tuple[Words, ...] = many(IN, _STRINGS, "Strings after an answer's body.")


class Around:
    """Strings before and after a body, made when they are given out."""

    __slots__ = ("after", "before", "request")

    def __init__(
        self,
        request: Request,
        before: Sequence[Callable[[Request], bytes]],
        after: Sequence[Callable[[Request], bytes]],
    ) -> None:
        self.request, self.before, self.after = request, before, after

    def feed(self, chunk: bytes) -> bytes:
        """Put the first strings before the first piece."""
        return self._first() + chunk if self.before else chunk

    def _first(self) -> bytes:
        before, self.before = self.before, ()
        return b"".join([text(self.request) for text in before])

    def flush(self) -> bytes:
        """Nothing is held back."""
        return b""

    def finish(self) -> bytes:
        """Add the last strings."""
        return self._first() + b"".join([text(self.request) for text in self.after])


def surrounding(conf: EchoFilter, build: Build) -> Filter | None:
    """Put strings around the body of every answer, whatever its status."""
    if not conf.echo_before_body and not conf.echo_after_body:
        return None
    before = [joined(words, build) for words in conf.echo_before_body]
    after = [joined(words, build) for words in conf.echo_after_body]

    def around(request: Request, response: Response) -> Transform:
        changed(response)
        return Around(request, before, after)

    return around


module = Module(name="echo_filter", conf=EchoFilter, filter=surrounding)
