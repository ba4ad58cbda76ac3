"""Compress answers with brotli (RFC 7932): the directives of Google's ngx_brotli modules.

Source: https://github.com/google/ngx_brotli.
"""

from gateway import codings
from gateway.config.args import buffers, flag, integer, mime_types, size
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Level, Statement, block, directive
from gateway.http.compression import HTML, Offer, offer, ratio
from gateway.module import Build, Module, Variable


def _window(statement: Statement) -> int:
    """The binary logarithm of a window of 1k to 16m bytes."""
    bytes_ = size().parse(statement)
    if bytes_.bit_count() != 1 or not 1 << 10 <= bytes_ <= 1 << 24:
        raise ConfigError('"brotli_window" must be 1k, 2k, 4k, … 8m or 16m')
    return bytes_.bit_length() - 1


@block
class Brotli:
    """The rows of brotli."""

    brotli: bool = directive(ANYWHERE | In.IF_LOCATION, flag(), False, "Compress answers with brotli.")
    brotli_comp_level: int = directive(
        ANYWHERE,
        integer(0, 11),
        6,
        "Effort for streams, 0 (fast) to 11 (small). A file's variant, kept in memory, is made with 11 "
        "whatever stands here.",
    )
    brotli_types: frozenset[bytes] = directive(
        ANYWHERE, mime_types(), HTML, "Types to compress; text/html always is, * means all.", default_text="text/html"
    )
    brotli_min_length: int = directive(ANYWHERE, size(), 20, "Leave shorter bodies alone, if the length is known.")
    brotli_window: int = directive(
        ANYWHERE, Arg("size", 1, 1, _window), 19, "The window of streams, a power of two.", default_text="512k"
    )
    brotli_buffers: tuple[int, int] = directive(
        ANYWHERE,
        buffers(),
        (32, 4096),
        "Buffers for output.",
        idle="the library decides on its memory",
        default_text="32 4k",
    )


def judging(conf: Brotli, where: Level) -> None:
    """Refuse `brotli on` where the library is missing. Raises ConfigError."""
    if conf.brotli and not codings.installed("br"):
        raise ConfigError('"brotli" needs the Python package "brotli": pip install brotli', where.place)


def offering(conf: Brotli, build: Build) -> None:
    """Offer brotli for the level."""
    if conf.brotli:
        window, floor = conf.brotli_window, conf.brotli_min_length
        offer(build, Offer("br", conf.brotli_types, floor, conf.brotli_comp_level, window))


module = Module(
    needs=("compress",),
    name="brotli", conf=Brotli, check=judging, filter=offering, variables={"brotli_ratio": Variable(ratio("br"))},
    steady=lambda _conf, _build: True,
)
