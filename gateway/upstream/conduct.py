"""How a location treats its upstream servers: time-outs, tries and limits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a location treats its upstream; seconds and bytes."""

    scheme: bytes = b"http://"
    connect_timeout: float = 60.0
    read_timeout: float = 60.0
    send_timeout: float = 60.0
    next_upstream: frozenset[str] = frozenset(("error", "timeout"))
    next_tries: int = 0
    next_timeout: float = 0.0
    head_limit: int = 4096
    room: int = 65536
    ignore_client_abort: bool = False
