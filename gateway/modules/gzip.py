"""Compress answers with gzip, as ngx_http_gzip_filter_module does.

`gzip_vary`, `gzip_http_version`, `gzip_proxied` and `gzip_disable` belong to what all codings share (http/compression).
"""

from gateway.config.args import buffers, flag, integer, mime_types, size
from gateway.config.schema import ANYWHERE, In, block, directive
from gateway.http.compression import HTML, Compression, Offer, gzip_conditions, offer, ratio
from gateway.module import Build, Module, Variable

_MEMORY = "the library decides on its memory"


@block
class Gzip:
    """The rows of gzip."""

    gzip: bool = directive(ANYWHERE | In.IF_LOCATION, flag(), False, "Compress answers with gzip.")
    gzip_comp_level: int = directive(
        ANYWHERE,
        integer(1, 9),
        1,
        "Effort for streams, 1 (fast) to 9 (small). It names an effort: the bytes are those of faster libraries than "
        "nginx's. A file's variant, kept in memory, is made with 9 whatever stands here.",
    )
    gzip_types: frozenset[bytes] = directive(
        ANYWHERE, mime_types(), HTML, "Types to compress; text/html always is, * means all.", default_text="text/html"
    )
    gzip_min_length: int = directive(ANYWHERE, size(), 20, "Leave shorter bodies alone, if the length is known.")
    gzip_buffers: tuple[int, int] = directive(
        ANYWHERE, buffers(), (32, 4096), "Buffers for output.", idle=_MEMORY, default_text="32 4k"
    )
    gzip_window: int = directive(ANYWHERE, size(), 32768, "The window.", idle=_MEMORY, default_text="32k")
    gzip_hash: int = directive(ANYWHERE, size(), 65536, "Memory of the matcher.", idle=_MEMORY, default_text="64k")
    postpone_gzipping: int = directive(
        ANYWHERE, size(), 0, "Bytes to collect first.", idle="output is collected by the library"
    )
    gzip_no_buffer: bool = directive(
        ANYWHERE, flag(), False, "Send output at once.", idle="output always leaves in the turn that made it"
    )


def offering(conf: Gzip, build: Build) -> None:
    """Offer gzip for the level."""
    if conf.gzip:
        admits = gzip_conditions(build.conf(Compression))
        offer(build, Offer("gzip", conf.gzip_types, conf.gzip_min_length, conf.gzip_comp_level, admits=admits))


module = Module(
    needs=("compress",),
    name="gzip",
    conf=Gzip,
    filter=offering,
    variables={"gzip_ratio": Variable(ratio("gzip"))},
    steady=lambda _conf, _build: True,
)
