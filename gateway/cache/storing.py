"""Putting a server's answer into the cache: whole, or while it passes through to the client."""

import time

from gateway import log
from gateway.cache.entry import Entry, head_bytes
from gateway.cache.filling import Filling, Reader
from gateway.cache.key import variant_of
from gateway.cache.passage import Exchange
from gateway.cache.policy import Verdict
from gateway.cache.store import Writing
from gateway.cache.ticket import Ticket
from gateway.http.message import ClientGone, Request, Response
from gateway.http.report import report
from gateway.http.subrequest import lasting


class Shared:
    """A fill that others may follow, and for whose headers it is."""

    __slots__ = ("filling", "key", "variant", "vary")

    def __init__(self, filling: Filling, entry: Entry) -> None:
        self.filling, self.key, self.vary, self.variant = filling, entry.key, entry.vary, entry.variant

    def follows(self, request: Request) -> bool:
        """Whether it is what a request with the same name wants.

        An answer that ends with its connection is not followed: whether it was whole is not to be seen by its readers.
        """
        filling = self.filling
        if filling.over or request.method == b"HEAD" or not (filling.head.chunked or filling.head.content_length >= 0):
            return False
        return not self.vary or bytes.fromhex(variant_of(self.key, self.vary, request.headers)) == self.variant


def release(ticket: Ticket, error: int = 0, until: int = 0) -> None:
    """The request has done what it held a mark for; what was out of date is let go."""
    mark, ticket.mark = ticket.mark, 0
    if mark or error:
        ticket.cache.marks.release(ticket.name, mark, error, until)
    found, ticket.found = ticket.found, None
    if found is not None:
        found.close()


def kept(request: Request, ticket: Ticket, verdict: Verdict, exchange: Exchange, response: Response) -> None:
    """Store an answer; its body, if it is still to come, goes through the file to the client."""
    name, variant = ticket.main, bytes(16)
    if verdict.vary:
        other = variant_of(ticket.key, verdict.vary, request.headers)
        variant = bytes.fromhex(other)
        if other == ticket.name:  # the key's own name is another variant's
            name = other
    head = exchange.head
    entry = Entry(
        ticket.key,
        verdict.vary,
        variant,
        head_bytes(head),
        verdict.valid,
        verdict.updating,
        verdict.error,
        int(time.time()),
    )
    body = response.body
    try:
        if isinstance(body, bytes):
            ticket.cache.put(name, entry, body)
            release(ticket)
            return
        writing = Writing(ticket.cache, name, entry)
    except OSError as error:
        report(request, log.CRIT, f'cache "{ticket.cache.path}" could not be written {log.reason(error)}')
        release(ticket)
        return
    response.body = _begun(request, ticket, writing, exchange)


def _begun(request: Request, ticket: Ticket, writing: Writing, exchange: Exchange) -> Reader:
    fillings, name = ticket.cache.fillings, ticket.name
    owner = lasting(request)  # the client may leave before the fill has ended
    if exchange.request is not None:
        exchange.request = owner

    def finished(filling: Filling) -> None:
        if name in fillings and fillings[name].filling is filling:
            del fillings[name]
        release(ticket)
        error = filling.error
        if isinstance(error, OSError):
            if not filling.readers:  # else the client's side tells it
                report(owner, log.ERROR, str(error))
        elif error is not None and not isinstance(error, ClientGone):
            log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__))
        main = owner.main
        owner.main = main.main = None  # type: ignore[assignment]  # cycles: freed now, not by the collector

    filling = Filling(writing, exchange.head, exchange, request.main.peer.service, finished)
    shared = fillings[name] = Shared(filling, writing.entry)
    reader = filling.start()
    if shared.filling.over:
        fillings.pop(name, None)
    ticket.cache.marks.woken(name)
    return reader
