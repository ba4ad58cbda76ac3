"""Answering from the cache, or from the server behind and into the cache: the life of one request of a cached location.

Source: ngx_http_upstream_cache, ngx_http_upstream_send_response, ngx_http_upstream_test_next;
https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_cache_use_stale and its neighbours.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway import log
from gateway.cache import policy
from gateway.cache.filling import Reader
from gateway.cache.passage import TO, Destination, Exchange, Passage
from gateway.cache.store import Cache, Found
from gateway.cache.storing import kept, release
from gateway.cache.ticket import BYPASS, EXPIRED, HIT, MISS, NOTE, REVALIDATED, STALE, STATUS, UPDATING, Ticket
from gateway.http.closing import AFTER
from gateway.http.message import FileBody, HttpError, Outcome, Redirect, Request, Response
from gateway.http.report import report
from gateway.http.subrequest import apart
from gateway.http.wire_response import ResponseHead
from gateway.module import Compiled

POLL = 0.1  # seconds between two looks at whether another worker has finished
_UPDATE = 60.0  # seconds that an update may take before another one may begin
_BROKEN = (502, 504)


@dataclass(frozen=True, slots=True)
class Rules:
    """A location's directives. Times in seconds, `max_range_offset` in bytes (-1: no limit)."""

    cache: Callable[[Request], Cache | None]  # raises HttpError
    key: Compiled | None
    methods: frozenset[bytes]
    bypass: tuple[Compiled, ...]
    no_cache: tuple[Compiled, ...]
    valid: policy.Rules
    use_stale: frozenset[str]
    min_uses: int = 1
    lock: bool = False
    lock_timeout: float = 5.0
    lock_age: float = 5.0
    background: bool = False
    revalidate: bool = False
    convert_head: bool = True
    max_range_offset: int = -1


class Serving:
    """The content handler of a cached location."""

    __slots__ = ("passage", "rules")

    def __init__(self, rules: Rules, passage: Passage) -> None:
        self.rules, self.passage = rules, passage

    def handle(self, request: Request) -> Any:
        """Answer a request; a hit at once."""
        cache = self.rules.cache(request)
        if cache is None or request.method not in self.rules.methods:
            return self.passage.plain(request)
        to = self.passage.destination
        if to is None or request.body is not None:
            return self._prepare(request, cache, to)
        return self._begin(request, cache, to)

    async def _prepare(self, request: Request, cache: Cache, to: Destination) -> Outcome:
        """The key may hold the request's body, and a server that variables name."""
        if request.body is not None:
            await request.body.collect()
        outcome: Any = self._begin(request, cache, to if to is not None else await self.passage.find(request))
        return await outcome if hasattr(outcome, "send") else outcome  # type: ignore[no-any-return]

    def _begin(self, request: Request, cache: Cache, to: Destination) -> Any:
        request.keep(TO, to)
        rules = self.rules
        if rules.key is not None:
            key = rules.key(request)
        else:
            key = (b"https://" if to.secure else b"http://") + to.host_header + to.uri(request)
        ticket = Ticket(cache, key)
        request.keep(NOTE, ticket)
        if rules.bypass and any_true(rules.bypass, request):
            ticket.status = BYPASS
            ticket.reason = "bypass"
            return self._fetch(request, ticket, to)
        found = ticket.look(request)
        if found is None:
            return self._missing(request, ticket, to)
        if found.entry.valid >= int(time.time()):
            ticket.status = HIT
            return self.cached(request, found)
        return self._stale(request, ticket, to, found)

    def cached(self, request: Request, found: Found) -> Response:
        """An answer out of the cache."""
        head = found.entry.parsed()
        response = self.passage.answers.response(request, head)
        length = found.entry.body
        if found.data is not None:
            response.body = found.data
        else:
            fd, found.fd = found.fd, -1
            response.body = FileBody(fd, found.entry.start, length)
        if not length and request.method == b"HEAD":
            response.length = head.content_length  # what was kept of a HEAD
        self._ours(request, response)
        return response

    def _ours(self, request: Request, response: Response) -> None:
        """Conditions and ranges are judged here: the server has not seen them."""
        response.conditional = True
        for name, _ in response.fields:
            if name.lower() == b"accept-ranges":
                response.remove(b"accept-ranges")
                response.ranges = True
                break
        if response.ranges and response.status == 200 and request.headers.get(b"range") is not None:
            response.remove(b"content-range")

    # not in the cache, or not fresh

    async def _missing(self, request: Request, ticket: Ticket, to: Destination) -> Outcome:
        rules, marks = self.rules, ticket.cache.marks
        ticket.status = MISS
        state = marks.look(ticket.name)
        if state.failing():
            raise self._known_error(request, ticket, state.error)
        if rules.min_uses > 1 and marks.count(ticket.name) < rules.min_uses:
            ticket.refuse("min-uses")
        elif rules.lock:
            answer = await self._locked(request, ticket)
            if answer is not None:
                return answer
        return await self._fetch(request, ticket, to)

    def _known_error(self, request: Request, ticket: Ticket, status: int) -> HttpError:
        ticket.status = HIT
        request.assign(STATUS, HIT)
        return HttpError(status)

    async def _locked(self, request: Request, ticket: Ticket) -> Response | None:
        """`proxy_cache_lock`: one fetches, the others have its answer as it comes; None: this one fetches."""
        rules, cache = self.rules, ticket.cache
        service = request.main.peer.service
        ends = service.now() + rules.lock_timeout
        while True:
            filling = cache.fillings.get(ticket.name)
            if filling is not None and filling.follows(request):
                return self._followed(request, ticket, filling)
            ticket.mark = cache.marks.claim(ticket.name, rules.lock_age)
            found = ticket.look(request)
            if found is not None and found.entry.valid >= int(time.time()):
                release(ticket)
                ticket.status = HIT
                return self.cached(request, found)
            if found is not None:
                found.close()
            if ticket.mark:
                return None
            left = ends - service.now()
            if left <= 0:
                ticket.refuse("lock")
                return None
            await cache.marks.turn(ticket.name, service, min(left, POLL))

    def _followed(self, request: Request, ticket: Ticket, filling: Any) -> Response:
        """What another request is fetching, from its beginning, as it grows."""
        ticket.status = HIT
        response = self.passage.answers.response(request, filling.filling.head)
        head = filling.filling.head
        response.length = -1 if head.chunked else head.content_length
        response.body = filling.filling.reader()
        self._ours(request, response)
        return response

    def _stale(self, request: Request, ticket: Ticket, to: Destination, found: Found) -> Any:
        rules, marks, entry = self.rules, ticket.cache.marks, found.entry
        now = int(time.time())
        state = marks.look(ticket.name)
        if state.failing():
            found.close()
            raise self._known_error(request, ticket, state.error)
        ticket.forgiven = entry.valid + entry.error >= now
        allowed = "updating" in rules.use_stale or entry.valid + entry.updating >= now
        ticket.mark = marks.claim(ticket.name, max(_UPDATE, rules.lock_age))
        if ticket.mark and allowed and rules.background:
            ticket.status = STALE
            self._update(request, ticket, to, found)
            return self.cached(request, found)
        if not ticket.mark and allowed:
            ticket.status = UPDATING
            return self.cached(request, found)
        ticket.status, ticket.found, ticket.revalidated = EXPIRED, found, rules.revalidate
        return self._fetch(request, ticket, to)

    def _update(self, request: Request, ticket: Ticket, to: Destination, found: Found) -> None:
        """`proxy_cache_background_update`: fetch it anew while the client has the old one."""
        later = Ticket(ticket.cache, ticket.key)
        later.name, later.status, later.mark = ticket.name, EXPIRED, ticket.mark
        later.revalidated = self.rules.revalidate
        later.found = Found(found.name, found.entry, b"")  # for its validators, never given to anyone
        ticket.mark = 0

        closes: list[Callable[[], None]] = []
        over = False

        def after(close: Callable[[], None]) -> None:
            if over:
                close()
            else:
                closes.append(close)

        async def work(copy: Request) -> None:
            nonlocal over
            copy.keep(TO, to)
            copy.keep(NOTE, later)
            try:
                await self._updated(copy, later, to)
            finally:
                over = True
                for close in closes:
                    close()

        request.main.keep(AFTER, after)
        apart(request, work)

    async def _updated(self, copy: Request, ticket: Ticket, to: Destination) -> None:
        try:
            outcome = await self._fetch(copy, ticket, to)
        except HttpError:
            return
        body = getattr(outcome, "body", b"")
        if isinstance(body, Reader):
            while await body.read():
                pass
        elif not isinstance(body, bytes):
            body.close()

    # fetching

    async def _fetch(self, request: Request, ticket: Ticket, to: Destination) -> Outcome:
        rules = self.rules
        if ticket.storable and self._beyond(request):
            ticket.refuse("range")
        method = b"GET" if request.method == b"HEAD" and rules.convert_head else None
        try:
            exchange = await self.passage.fetch(request, to, method, ticket.storable)
            answer = self._answered(request, ticket, exchange)
        except HttpError as error:
            return self._failed(request, ticket, error)
        except BaseException:
            release(ticket)
            raise
        return answer

    def _beyond(self, request: Request) -> bool:
        """`proxy_cache_max_range_offset`: the range begins so far on that it is fetched alone."""
        limit, wanted = self.rules.max_range_offset, request.headers.get(b"range")
        if limit < 0 or wanted is None:
            return False
        if not limit:
            return True
        if wanted[:6].lower() != b"bytes=":
            return False
        first = wanted[6:].lstrip(b" ").partition(b"-")[0]
        return not first or (first.isdigit() and int(first) >= limit)

    def _failed(self, request: Request, ticket: Ticket, error: HttpError) -> Response:
        """No answer was had, or `error_page` replaces it. Raises HttpError where nothing stale may be given."""
        found, status = ticket.found, error.status
        if ticket.answered is None and found is not None and status in _BROKEN:
            kind = "timeout" if status == 504 else getattr(_last_error(request), "kind", "error")
            if kind in self.rules.use_stale or ticket.forgiven:
                ticket.status, ticket.found = STALE, None
                release(ticket)
                return self.cached(request, found)
        until = self._error_until(ticket, status)
        release(ticket, status if until else 0, until)
        request.assign(STATUS, ticket.status)
        raise error

    def _error_until(self, ticket: Ticket, status: int) -> int:
        """Until when an error is given without asking again; 0: it is not kept."""
        verdict = ticket.answered
        if not ticket.storable or (verdict is None and status not in _BROKEN):
            return 0
        if verdict is not None and (not verdict.storable or verdict.valid):
            return verdict.valid if verdict.storable else 0
        seconds = policy.valid_for(self.rules.valid, status)
        return int(time.time()) + seconds if seconds else 0

    def _answered(self, request: Request, ticket: Ticket, exchange: Exchange) -> Outcome:
        head, now = exchange.head, int(time.time())
        if ticket.status is EXPIRED and ticket.found is not None:
            if f"http_{head.status}" in self.rules.use_stale:
                exchange.close()
                found, ticket.found, ticket.status = ticket.found, None, STALE
                release(ticket)
                return self.cached(request, found)
            if head.status == 304 and self.rules.revalidate:
                exchange.close()
                return self._revalidated(request, ticket, head, now)
        verdict = ticket.answered = policy.judge(head.pairs, self.passage.answers.ignored, now)
        outcome = self.passage.outcome(request, exchange)  # raises HttpError where error_page answers
        if outcome is None or isinstance(outcome, Redirect):
            request.assign(STATUS, ticket.status)
            release(ticket)
            return outcome
        if ticket.storable and verdict.storable:
            self._ours(request, outcome)
        self._judge(request, ticket, exchange, now)
        if ticket.storable:
            kept(request, ticket, verdict, exchange, outcome)
        else:
            release(ticket)
        return outcome

    def _judge(self, request: Request, ticket: Ticket, exchange: Exchange, now: int) -> None:
        """Whether an answer may be kept, and until when it is fresh."""
        head, verdict = exchange.head, ticket.answered
        assert verdict is not None
        if not verdict.storable:
            ticket.refuse(verdict.reason)
        if any_true(self.rules.no_cache, request):
            ticket.refuse("bypass")
        if not self.passage.buffered or exchange.tunnel or _unbuffered(head, self.passage.answers.ignored):
            ticket.refuse("buffering-off")
        if not verdict.valid:
            seconds = policy.valid_for(self.rules.valid, head.status)
            verdict.valid = now + seconds if seconds else 0
        if not verdict.valid:
            ticket.refuse("no-validity")

    def _revalidated(self, request: Request, ticket: Ticket, head: ResponseHead, now: int) -> Response:
        """A 304: the answer holds, for as long as the new head says, or the kept one, or `proxy_cache_valid`."""
        found, ticket.found = ticket.found, None
        assert found is not None
        ticket.status = REVALIDATED
        ignored, entry = self.passage.answers.ignored, found.entry
        verdict = policy.judge(head.pairs, ignored, now)
        if not verdict.valid:
            verdict = policy.judge(entry.parsed().pairs, ignored, now)
        valid = verdict.valid
        if not valid:
            seconds = policy.valid_for(self.rules.valid, entry.parsed().status)
            valid = now + seconds if seconds else 0
        if valid:
            try:
                ticket.cache.renew(found.name, entry, entry.renewed(valid, verdict.updating, verdict.error, now))
            except OSError as error:
                report(request, log.CRIT, f"cache file could not be updated {log.reason(error)}")
        release(ticket)
        return self.cached(request, found)


def any_true(tests: tuple[Compiled, ...], request: Request) -> bool:
    """nginx's predicates: whether any is neither empty nor "0"."""
    return any(test(request) not in (b"", b"0") for test in tests)


def _last_error(request: Request) -> Exception | None:
    last = request.tries[-1] if request.tries else None
    return getattr(last, "error", None)


def _unbuffered(head: ResponseHead, ignored: frozenset[bytes]) -> bool:
    value = head.get(b"x-accel-buffering")
    return value is not None and value.lower() == b"no" and b"x-accel-buffering" not in ignored
