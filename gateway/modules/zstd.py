"""Compress answers with zstd (RFC 8878, RFC 9659): the directives of the usual third-party module.

Source: https://github.com/tokers/zstd-nginx-module.
"""

from gateway import codings
from gateway.config.args import buffers, flag, integer, mime_types, size
from gateway.config.schema import ANYWHERE, ConfigError, In, Level, block, directive
from gateway.http.compression import HTML, Offer, offer, ratio
from gateway.module import Build, Module, Variable


@block
class Zstd:
    """The rows of zstd."""

    zstd: bool = directive(ANYWHERE | In.IF_LOCATION, flag(), False, "Compress answers with zstd.")
    zstd_comp_level: int = directive(
        ANYWHERE,
        integer(1, 22),
        1,
        "Effort for streams, 1 (fast) to 22 (small). A file's variant, kept in memory, is made with 19 "
        "whatever stands here.",
    )
    zstd_types: frozenset[bytes] = directive(
        ANYWHERE, mime_types(), HTML, "Types to compress; text/html always is, * means all.", default_text="text/html"
    )
    zstd_min_length: int = directive(ANYWHERE, size(), 20, "Leave shorter bodies alone, if the length is known.")
    zstd_buffers: tuple[int, int] = directive(
        ANYWHERE,
        buffers(),
        (32, 4096),
        "Buffers for output.",
        idle="the library decides on its memory",
        default_text="32 4k",
    )


def judging(conf: Zstd, where: Level) -> None:
    """Refuse `zstd on` where the library is missing. Raises ConfigError."""
    if conf.zstd and not codings.installed("zstd"):
        raise ConfigError('"zstd" needs the Python package "zstandard": pip install zstandard', where.place)


def offering(conf: Zstd, build: Build) -> None:
    """Offer zstd for the level."""
    if conf.zstd:
        offer(build, Offer("zstd", conf.zstd_types, conf.zstd_min_length, conf.zstd_comp_level))


module = Module(
    needs=("compress",),
    name="zstd", conf=Zstd, check=judging, filter=offering, variables={"zstd_ratio": Variable(ratio("zstd"))},
    steady=lambda _conf, _build: True,
)
