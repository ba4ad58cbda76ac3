"""Answer with a transparent image of one pixel (`empty_gif`; ngx_http_empty_gif_module)."""

from gateway.config.args import nothing
from gateway.config.schema import In, Merge, block, directive
from gateway.http.message import Handler, HttpError, Outcome, Request, Response
from gateway.module import Build, Module, Phase

# GIF 89a: a header, 1 by 1 pixel, a palette of two colours, the first transparent, and one pixel of it
_IMAGE = bytes.fromhex(
    "474946383961 0100 0100 80 01 00 000000 ffffff"
    "21f904 01 0000 01 00 2c 0000 0000 0100 0100 00 02 02 4c01 00 3b"
)  # fmt: skip
_MADE = 23349600  # seconds since the epoch: what nginx says of its image


@block
class EmptyGif:
    """The smallest image."""

    empty_gif: bool = directive(
        In.LOCATION, nothing(), False, "Answer with a transparent image of one pixel.", merge=Merge.LOCATION
    )


def answering(conf: EmptyGif, build: Build) -> Handler | None:
    """The content handler of a location with `empty_gif`."""
    if not conf.empty_gif:
        return None

    def empty_gif(request: Request) -> Outcome:
        if request.method not in (b"GET", b"HEAD"):
            raise HttpError(405)
        response = Response(200, _IMAGE, b"image/gif")
        response.last_modified = _MADE
        return response

    return empty_gif


module = Module(name="empty_gif", conf=EmptyGif, handlers={Phase.CONTENT: answering})
