"""The basic status page (`stub_status`; ngx_http_stub_status_module).

nginx keeps its counters in memory that all workers share, and changes them there. Changing an integer of one's own
costs a Python process a third of what a shared one costs, on every connection and request; so each worker counts for
itself and publishes twice a second, in a row of its own in a small anonymous shared mapping. The mapping is made by the
process that first reads a configuration with `stub_status`, the master, and is inherited by every worker over all
reloads. A page is made of the rows of all others as last published and of one's own as it is now. Rows are never
cleared, so totals keep what ended workers have counted; their present connections count only while the process lives.

Source: https://nginx.org/en/docs/http/ngx_http_stub_status_module.html
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

from gateway.config.schema import Arg, In, Merge, block, directive
from gateway.http.message import Handler, HttpError, Outcome, Request, Response
from gateway.http.service import Service
from gateway.module import Build, Module, Phase, Variable

if TYPE_CHECKING:
    from mmap import mmap

ROWS = 256  # workers alive at once, old generations included; more would share rows
PAUSE = 0.5  # seconds between two publications
WORKER = "worker"  # in a site's `shared`: the running number of this worker. Its `Service` is there too

_ROW = Struct("=8Q")
_table: "mmap | None" = None


@dataclass(slots=True)
class Counts:
    """nginx's counters: the first three since the start, the others at present."""

    accepted: int = 0
    handled: int = 0
    requests: int = 0
    active: int = 0
    reading: int = 0
    writing: int = 0
    waiting: int = 0

    def __iadd__(self, other: "Counts") -> "Counts":
        for name in Counts.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


@block
class StubStatus:
    """The status page."""

    stub_status: bool = directive(
        In.SERVER | In.LOCATION,
        Arg("[on]", 0, 1, lambda _statement: True),
        False,
        "Answer with the counts of connections.",
        merge=Merge.LOCATION,
    )


def counted(service: Service) -> Counts:
    """This worker's counts now."""
    totals = service.counters
    counts = Counts(totals.accepted, totals.accepted, totals.requests, len(service.connections))
    for connection in service.connections:
        if connection.request is not None:
            counts.writing += 1
        elif connection.buffer:
            counts.reading += 1
        else:
            counts.waiting += 1
    return counts


class Row:
    """One worker's row: what earlier workers left there, and this one's counts added."""

    __slots__ = ("number", "past", "service")

    def __init__(self, number: int, service: Service) -> None:
        self.number = number % ROWS
        self.service = service
        self.past = _read(self.number)[1]

    def publish(self) -> None:
        """Write this worker's counts where the others see them."""
        assert _table is not None
        now, past = counted(self.service), self.past
        totals = (past.accepted + now.accepted, past.handled + now.handled, past.requests + now.requests)
        present = (now.active, now.reading, now.writing, now.waiting)
        _ROW.pack_into(_table, self.number * _ROW.size, os.getpid(), *totals, *present)


def _read(number: int) -> tuple[int, Counts]:
    assert _table is not None
    pid, *values = _ROW.unpack_from(_table, number * _ROW.size)
    return pid, Counts(*values)


def _rows() -> Iterator[Counts]:
    """All rows that were ever written; without present connections where the process is gone."""
    for number in range(ROWS):
        pid, counts = _read(number)
        if pid:
            if not _alive(pid):
                counts.active = counts.reading = counts.writing = counts.waiting = 0
            yield counts


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def total(shared: dict[Any, Any]) -> Counts:
    """The counts of all workers; of this one alone where no location has a status page."""
    row = shared.get(Row)
    if row is None:
        return counted(shared[Service])
    row.publish()
    counts = Counts()
    for other in _rows():
        counts += other
    return counts


def answering(conf: StubStatus, build: Build) -> Handler | None:
    """The content handler of a location with `stub_status`."""
    if not conf.stub_status:
        return None
    global _table
    if _table is None:
        from mmap import mmap

        _table = mmap(-1, ROWS * _ROW.size)
    shared = build.shared
    shared[StubStatus] = True

    def stub_status(request: Request) -> Outcome:
        if request.method not in (b"GET", b"HEAD"):
            raise HttpError(405)
        now = total(shared)
        text = (
            f"Active connections: {now.active} \n"
            "server accepts handled requests\n"
            f" {now.accepted} {now.handled} {now.requests} \n"
            f"Reading: {now.reading} Writing: {now.writing} Waiting: {now.waiting} \n"
        )
        return Response(200, text.encode(), b"text/plain")

    return stub_status


def starting(shared: dict[Any, Any]) -> None:
    """In each worker: take a row, and keep it up to date."""
    if StubStatus not in shared:
        return
    row = shared[Row] = Row(shared[WORKER], shared[Service])
    loop = row.service.loop

    def publish() -> None:
        row.publish()
        loop.call_later(PAUSE, publish)

    publish()


def _variable(name: str) -> Variable:
    def get(request: Request) -> bytes | None:
        peer: Any = request.peer
        return b"%d" % getattr(total(peer.service.site.shared), name)

    return Variable(get)


module = Module(
    name="stub_status",
    conf=StubStatus,
    handlers={Phase.CONTENT: answering},
    variables={f"connections_{name}": _variable(name) for name in ("active", "reading", "writing", "waiting")},
    start=starting,
)
