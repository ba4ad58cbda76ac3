"""Put another location's answer before or after a page (ngx_http_addition_module).

Source: https://nginx.org/en/docs/http/ngx_http_addition_module.html.
"""

from gateway.config.args import encode, mime_types, string
from gateway.config.schema import ANYWHERE, block, directive
from gateway.http.changing import changed, has_type, weaken
from gateway.http.message import Filter, Request, Response, Stream
from gateway.http.subrequest import Child, made
from gateway.module import Build, Module


@block
class Addition:
    """What is added to which types."""

    add_before_body: str = directive(
        ANYWHERE, string("uri"), "", "The answer of this URI comes before the page.", default_text="-"
    )
    add_after_body: str = directive(
        ANYWHERE, string("uri"), "", "The answer of this URI comes after the page.", default_text="-"
    )
    addition_types: frozenset[bytes] = directive(
        ANYWHERE,
        mime_types(),
        frozenset((b"text/html",)),
        "Types of pages that are added to.",
        default_text="text/html",
    )


class Between:
    """A page between two other answers. Each begins when the one before it has ended."""

    __slots__ = ("after", "before", "current", "page", "request", "steps")

    def __init__(self, request: Request, before: bytes, after: bytes) -> None:
        self.request, self.before, self.after = request, before, after
        self.current: Stream | None = None
        self.page: Stream | None = None
        self.steps: list[bytes | Stream] = []

    def splice(self, body: Stream) -> Stream:
        """Take the page."""
        self.page = body
        self.steps = [step for step in (self.before, body, self.after) if step]
        return self

    async def read(self) -> bytes:
        """The next bytes of the three."""
        while True:
            if self.current is None:
                if not self.steps:
                    return b""
                step = self.steps.pop(0)
                self.current = Child(made(self.request, step)) if isinstance(step, bytes) else step
            data = await self.current.read()
            if data:
                return data
            self.current = None

    def close(self) -> None:
        """The reader has left."""
        self.steps = []
        for stream in (self.current, self.page):
            if stream is not None:
                stream.close()


def adding(conf: Addition, _build: Build) -> Filter | None:
    """Add to answers 200 of the types wanted, of the client's request alone."""
    before, after = encode(conf.add_before_body), encode(conf.add_after_body)
    if not before and not after:
        return None
    types = conf.addition_types

    def addition(request: Request, response: Response) -> Between | None:
        if response.status != 200 or request.main is not request or not has_type(response, types):
            return None
        changed(response)
        weaken(response)
        return Between(request, before, after)

    return addition


module = Module(name="addition", conf=Addition, filter=adding)
