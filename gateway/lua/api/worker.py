"""Logging, ngx.worker, and the note that a request has an ngx.ctx."""

import os
from collections.abc import Callable
from typing import Any

from gateway import log
from gateway.lua import bridge, messages


def log_level() -> int:
    """The least severe level that is written here."""
    run = bridge.current
    request = None if run is None else run.request
    if request is None or request.location is None:
        return log.main.level
    return request.location.settings.errors.level


def write(level: int, text: bytes) -> None:
    run = bridge.current
    messages.write(None if run is None else run.request, int(level), messages.text_of(text))


def has_context() -> None:
    bridge.current.context = True


def pid() -> int:
    return os.getpid()


def worker_id() -> int | None:
    """Counted from 0; None before the workers start."""
    run = bridge.current
    return None if run is None else run.site.worker


def worker_count() -> int:
    run = bridge.current
    return count if run is None else run.site.workers


count = 1  # of the configuration that is being loaded: for init_by_lua, which has no request


def exiting() -> bool:
    """Whether the worker takes no new connections."""
    run = bridge.current
    service = getattr(run.request.main.peer, "service", None) if run is not None and run.request is not None else None
    return bool(service is not None and service.draining)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "log_level": log_level,
    "log": write,
    "has_context": has_context,
    "pid": pid,
    "worker_id": worker_id,
    "worker_count": worker_count,
    "exiting": exiting,
}
