"""What is sent of a request's body, and what its length is said to be (proxy_request_buffering, proxy_set_body)."""

from collections.abc import Awaitable, Callable

from gateway.http.message import Request
from gateway.module import Compiled
from gateway.upstream.attempts import Body

Sending = Callable[
    [Request], Awaitable[tuple[Body, int, bool]]
]  # what to send, its length or -1, whether it is chunked


def sending(value: Compiled | None, *, passed: bool, buffered: bool, http10: bool) -> Sending:
    """How the body is sent: replaced by `value`, left out, whole, or as it comes."""
    if value is not None:

        async def set_body(request: Request) -> tuple[Body, int, bool]:
            if request.body is not None:
                await request.body.collect()
            data = value(request)
            return data, len(data), False

        return set_body
    if not passed:

        async def no_body(request: Request) -> tuple[Body, int, bool]:
            _, length, chunked = await client_body(request)
            return b"", length, chunked

        return no_body
    if buffered:
        return client_body

    async def unbuffered(request: Request) -> tuple[Body, int, bool]:
        body = request.body
        if body is None or body.complete or (body.length < 0 and http10):
            return await client_body(request)
        return body, body.length, body.length < 0

    return unbuffered


async def client_body(request: Request) -> tuple[Body, int, bool]:
    """The client's body, whole."""
    body = request.body
    if body is None:
        return b"", request.headers.content_length, False
    await body.collect()
    return body.data(), body.received if body.length < 0 else request.headers.content_length, False
