"""Send a copy of each request to other locations and ignore what they answer (ngx_http_mirror_module).

The client's answer never waits for a mirror's: nginx holds the connection until its mirrors are done, here they have a
copy of the request and go on by themselves.
"""

from gateway.config.args import encode, flag
from gateway.config.schema import ANYWHERE, Arg, ConfigError, Level, Statement, block, directive, many
from gateway.http.message import Handler, Outcome, Request
from gateway.http.subrequest import background
from gateway.module import Build, Module, Phase


def _uri(statement: Statement) -> tuple[str, Statement]:
    return statement.args[0], statement


@block
class Mirror:
    """Where copies go."""

    mirror: tuple[tuple[str, Statement], ...] = many(
        ANYWHERE, Arg("uri | off", 1, 1, _uri), "Make a background subrequest of every request; its answer is ignored."
    )
    mirror_request_body: bool = directive(ANYWHERE, flag(), True, "Read the client's body first, and mirror it too.")


def judge(_conf: Mirror, level: Level) -> None:
    """`off` and mirrors exclude each other at one level."""
    own = level.values.get((Mirror, "mirror"), ())
    for index, (uri, statement) in enumerate(own):
        if index and "off" in (uri, own[0][0]):
            raise ConfigError('"mirror" directive is duplicate', statement.place)


def mirroring(conf: Mirror, _build: Build) -> Handler | None:
    """Start the mirrors, and go on."""
    uris = [encode(uri) for uri, _ in conf.mirror if uri != "off"]
    if not uris:
        return None
    with_body = conf.mirror_request_body

    def begin(request: Request) -> None:
        for uri in uris:
            background(request, uri, request.args, method=request.method, share_body=with_body)

    async def collect(request: Request) -> Outcome:
        if request.body is not None:
            await request.body.collect()
        begin(request)
        return None

    def mirror(request: Request) -> object:
        if request.main is not request:
            return None
        if with_body and request.body is not None:
            return collect(request)
        begin(request)
        return None

    return mirror  # type: ignore[return-value]


module = Module(name="mirror", conf=Mirror, check=judge, handlers={Phase.PRECONTENT: mirroring})
