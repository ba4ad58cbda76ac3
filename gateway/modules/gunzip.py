"""`gunzip on`: decode gzipped answers for clients that do not accept gzip (ngx_http_gunzip_filter_module)."""

from collections.abc import Iterator

from gateway import codings
from gateway.config.args import buffers, flag
from gateway.config.schema import ANYWHERE, block, directive
from gateway.http.changing import changed, weaken
from gateway.http.compression import Compression, gzip_conditions
from gateway.http.message import Filter, Request, Response, Splice, Stream
from gateway.module import Build, Module


@block
class Gunzip:
    """The rows of gunzip."""

    gunzip: bool = directive(ANYWHERE, flag(), False, "Decode gzipped answers for clients that do not accept gzip.")
    gunzip_buffers: tuple[int, int] = directive(
        ANYWHERE, buffers(), (32, 4096), "Buffers for output.", idle="output leaves as it is made", default_text="32 4k"
    )


class Decoding:
    """What the filter returns, and the stream in the body's place.

    It decodes no more than is read: a client that does not read must not make the worker hold what a small file
    unpacks to. Where the gzip stream is broken the answer ends in mid-body, as with nginx.
    """

    __slots__ = ("_body", "_decoder", "_pieces")

    def __init__(self) -> None:
        self._body: Stream
        self._decoder = codings.decoder("gzip")
        self._pieces: Iterator[bytes] = iter(())

    def splice(self, body: Stream) -> Stream:
        """Take the gzipped body."""
        self._body = body
        return self

    async def read(self) -> bytes:
        """The next decoded bytes, b"" at the end. Raises OSError."""
        try:
            while True:
                for piece in self._pieces:
                    if piece:
                        return piece
                packed = await self._body.read()
                if not packed:
                    return self._decoder.finish()
                self._pieces = self._decoder.pieces(packed)
        except codings.CodingError as error:
            raise OSError(f"inflate() failed: {error}") from None

    def close(self) -> None:
        """Free the source."""
        self._pieces = iter(())
        self._body.close()


def decoding(conf: Gunzip, build: Build) -> Filter | None:
    """The level's filter."""
    if not conf.gunzip:
        return None
    shared = build.conf(Compression)
    admits, vary = gzip_conditions(shared), shared.gzip_vary

    def gunzip(request: Request, response: Response) -> Splice | None:
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
