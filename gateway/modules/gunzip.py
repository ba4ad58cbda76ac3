"""Decode gzip for clients that do not take it (ngx_http_gunzip_module).

Source: https://nginx.org/en/docs/http/ngx_http_gunzip_module.html.
"""

from gateway import codings, log
from gateway.config.args import buffers, flag
from gateway.config.schema import ANYWHERE, block, directive
from gateway.http.changing import changed, weaken
from gateway.http.compression import Compression, gzip_conditions
from gateway.http.message import Filter, Request, Response, Transform
from gateway.http.report import report
from gateway.module import Build, Module


@block
class Gunzip:
    """Whether."""

    gunzip: bool = directive(ANYWHERE, flag(), False, "Decode gzip for clients that do not take it.")
    gunzip_buffers: tuple[int, int] = directive(
        ANYWHERE, buffers(), (32, 4096), "Buffers of the decoder.", idle="memory is Python's", default_text="32 4k"
    )


class Plain:
    """A body being decoded; what is broken in it ends it."""

    __slots__ = ("empty", "request", "stream")

    def __init__(self, request: Request) -> None:
        self.request, self.stream = request, codings.decoder("gzip")
        self.empty = True

    def feed(self, chunk: bytes) -> bytes:
        """Decode a piece. Raises OSError."""
        self.empty = self.empty and not chunk
        try:
            return self.stream.feed(chunk)
        except codings.CodingError as error:
            raise self._broken(error) from None

    def flush(self) -> bytes:
        """Nothing is held back."""
        return b""

    def finish(self) -> bytes:
        """Check that it was whole. Raises OSError."""
        try:
            return b"" if self.empty else self.stream.finish()
        except codings.CodingError as error:
            raise self._broken(error) from None

    def _broken(self, error: codings.CodingError) -> OSError:
        report(self.request, log.ERROR, f"inflate() failed: {error}")
        return OSError("gunzip")


def decoding(conf: Gunzip, build: Build) -> Filter | None:
    """Decode where the client's headers say no to gzip."""
    if not conf.gunzip:
        return None
    shared = build.conf(Compression)
    admits, vary = gzip_conditions(shared), shared.gzip_vary

    def gunzip(request: Request, response: Response) -> Transform | None:
        coding = response.find(b"content-encoding")
        if coding is None or coding.lower() != b"gzip":
            return None
        response.vary |= vary
        accepted = codings.accepts(request.headers.get(b"accept-encoding")).quality("gzip")
        if accepted and request.main is request and admits(request, response):
            return None
        response.remove(b"content-encoding")
        changed(response)
        weaken(response)
        return Plain(request)

    return gunzip


module = Module(name="gunzip", conf=Gunzip, filter=decoding)
