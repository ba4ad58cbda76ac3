"""The access phase as a whole: `satisfy any` and `auth_delay`, folded into one handler when a level is compiled.

Source: https://nginx.org/en/docs/http/ngx_http_core_module.html#satisfy, #auth_delay
"""

import asyncio
from collections.abc import Sequence
from types import CoroutineType
from typing import Any

from gateway import log
from gateway.http.message import Handler, HttpError, Outcome, Request
from gateway.http.report import report


class Admitted(Exception):  # noqa: N818  # no error: as ClientGone in message.py
    """Raised by a handler of the access phase under `satisfy any`: the request is admitted, whatever the others say.

    A handler that has no opinion returns None; one that refuses raises HttpError 401 or 403.
    """


def folded(checks: Sequence[Handler], settings: Any) -> tuple[Handler, ...]:
    """The handlers of a level's access phase, as its `satisfy` and `auth_delay` want them."""
    if not checks:
        return ()
    if settings.satisfy == "any":
        checks = (_any_of(checks),)
    if settings.auth_delay:
        checks = tuple(_delayed(check, settings.auth_delay) for check in checks)
    return tuple(checks)


def _any_of(checks: Sequence[Handler]) -> Handler:
    """The first check that admits is enough; else the last refusal counts, 401 before 403; else nobody minds."""

    async def satisfy_any(request: Request) -> Outcome:
        refusal: HttpError | None = None
        for check in checks:
            try:
                outcome = await _asked(check, request)
            except Admitted:
                _forget_challenge(request)
                return None
            except HttpError as error:
                refusal = _weighed(refusal, error)
                continue
            if outcome is not None:
                return outcome
        if refusal is not None:
            if refusal.status == 403:
                report(request, log.ERROR, "access forbidden by rule")
            raise refusal
        return None

    return satisfy_any


async def _asked(check: Handler, request: Request) -> Outcome:
    outcome: Any = check(request)
    return await outcome if outcome.__class__ is CoroutineType else outcome  # type: ignore[no-any-return]


def _forget_challenge(request: Request) -> None:
    """An error page that admits everyone does not ask for a password on behalf of the page that did."""
    if request.error_fields:
        request.error_fields = [item for item in request.error_fields if item[0] != b"WWW-Authenticate"]


def _weighed(known: HttpError | None, error: HttpError) -> HttpError:
    if error.status not in (401, 403):
        raise error
    return known if known is not None and known.status == 401 else error


def _delayed(check: Handler, seconds: float) -> Handler:
    """Answer 401 only after a while: it makes guessing slow."""

    async def auth_delay(request: Request) -> Outcome:
        try:
            return await _asked(check, request)
        except HttpError as error:
            if error.status == 401:
                report(request, log.INFO, "delaying unauthorized request")
                await waited(request, seconds)
            raise

    return auth_delay


async def waited(request: Request, seconds: float) -> None:
    """Wait, and notice if the client goes meanwhile. Raises ClientGone."""
    peer: Any = request.main.peer
    peer.abort_on_eof = True
    try:
        await asyncio.sleep(seconds)
    finally:
        peer.abort_on_eof = False
