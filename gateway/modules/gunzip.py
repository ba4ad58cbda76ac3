"""`gunzip on`: decode gzipped answers for clients that do not accept gzip (ngx_http_gunzip_filter_module)."""

from gateway import codings
from gateway.config.args import buffers, flag
from gateway.config.schema import ANYWHERE, block, directive
from gateway.http.changing import changed, weaken
from gateway.http.compression import Compression, gzip_conditions
from gateway.http.message import Filter, Request, Response, Transform
from gateway.module import Build, Module


@block
class Gunzip:
    """The rows of gunzip."""

    gunzip: bool = directive(ANYWHERE, flag(), False, "Decode gzipped answers for clients that do not accept gzip.")
    gunzip_buffers: tuple[int, int] = directive(
        ANYWHERE, buffers(), (32, 4096), "Buffers for output.", idle="output leaves as it is made", default_text="32 4k"
    )


class Decoding:
    """A `Transform` that ends the answer in mid-body when the gzip stream is broken, as nginx does."""

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = codings.decoder("gzip")

    def feed(self, chunk: bytes) -> bytes:
        """Decode a piece. Raises OSError."""
        try:
            return self._stream.feed(chunk)
        except codings.CodingError as error:
            raise OSError(f"inflate() failed: {error}") from None

    def flush(self) -> bytes:
        """Nothing is held back."""
        return b""

    def finish(self) -> bytes:
        """Check that the stream was whole. Raises OSError."""
        try:
            return self._stream.finish()
        except codings.CodingError as error:
            raise OSError(f"inflate() failed: {error}") from None


def decoding(conf: Gunzip, build: Build) -> Filter | None:
    """The level's filter."""
    if not conf.gunzip:
        return None
    shared = build.conf(Compression)
    admits, vary = gzip_conditions(shared), shared.gzip_vary

    def gunzip(request: Request, response: Response) -> Transform | None:
        encoding = response.find(b"content-encoding")
        if encoding is None or encoding.lower() != b"gzip" or response.status in (204, 206, 304):
            return None
        response.vary |= vary
        accepted = codings.accepts(request.headers.get(b"accept-encoding")).quality("gzip")
        if accepted and request.main is request and admits(request, response):  # nginx decodes what subrequests get
            return None
        response.remove(b"content-encoding")
        changed(response)
        weaken(response)
        return Decoding() if request.method != b"HEAD" else None

    return gunzip


module = Module(name="gunzip", conf=Gunzip, filter=decoding, steady=lambda _conf, _build: True)
