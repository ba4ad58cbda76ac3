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


class Admitted(Exception):
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
        try:
            for check in checks:
                try:
                    outcome: Any = check(request)
                    if outcome.__class__ is CoroutineType:
                        outcome = await outcome
                except HttpError as error:
                    if error.status not in (401, 403):
                        raise
                    if refusal is None or refusal.status != 401:
                        refusal = error
                    continue
                if outcome is not None:
                    return outcome  # type: ignore[no-any-return]
        except Admitted:
            return None
        if refusal is not None:
            if refusal.status == 403:
                report(request, log.ERROR, "access forbidden by rule")
            raise refusal
        return None

    return satisfy_any


def _delayed(check: Handler, seconds: float) -> Handler:
    """Answer 401 only after a while: it makes guessing slow."""

    async def auth_delay(request: Request) -> Outcome:
        try:
            outcome: Any = check(request)
            if outcome.__class__ is CoroutineType:
                outcome = await outcome
        except HttpError as error:
            if error.status == 401:
                report(request, log.INFO, "delaying unauthorized request")
                await waited(request, seconds)
            raise
        return outcome  # type: ignore[no-any-return]

    return auth_delay


async def waited(request: Request, seconds: float) -> None:
    """Wait, and notice if the client goes meanwhile. Raises ClientGone."""
    peer: Any = request.main.peer
    peer.abort_on_eof = True
    try:
        await asyncio.sleep(seconds)
    finally:
        peer.abort_on_eof = False
