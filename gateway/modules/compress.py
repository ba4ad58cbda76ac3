"""Compress answers with what gzip, brotli and zstd offer for a location: one filter for all of them.

Which coding: the one that the client weighs highest (RFC 9110 section 12.5.3), of equals the first of `compress_order`.
A plain file is answered from its variants in memory, everything else goes through a stream.

What can be decided once per content type and Accept-Encoding is kept in a memo, so that a warm answer costs a few
dictionary look-ups. `gzip_vary` and the conditions of gzip stand here because they concern what is shared.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gateway import codings
from gateway.http.compression import (
    BODILESS,
    COMPRESSED_STATUSES,
    ENCODED,
    EVENT_STREAM,
    MADE,
    Compression,
    Offer,
    Policy,
    Wish,
    announce,
    look,
    offered,
    wishes,
)
from gateway.http.message import FileBody, Filter, Request, Response, Splice, Transform
from gateway.module import Build, Module
from gateway.variants import Reader, Variants

USUAL_LEVEL = {"gzip": 6, "deflate": 6, "br": 4, "zstd": 3}  # of a script's wish that names none
PLANS_KEPT = 1024  # pairs of content type and Accept-Encoding; cleared when full
_VARIANTS = "compressed variants"


@dataclass(frozen=True, slots=True)
class Plan:
    """What one content type and Accept-Encoding come to. `floor`: no offer takes a shorter body."""

    floor: int
    kept: tuple[Offer, ...]  # best first, for files
    streamed: tuple[Offer, ...]  # the same for all else


class Choice:
    """A level's offers, and the plans made of them so far."""

    __slots__ = ("_for_files", "_for_streams", "_offers", "plans")

    def __init__(self, offers: tuple[Offer, ...], order: tuple[str, ...]) -> None:
        self._offers = offers
        self._for_files = _sorted(offers, order or codings.FOR_FILES)
        self._for_streams = _sorted(offers, order or codings.FOR_STREAMS)
        self.plans: dict[tuple[bytes | None, bytes | None], Plan | None] = {}

    def plan(self, content_type: bytes | None, accept: bytes | None) -> Plan | None:
        """Make and keep a plan; None if no offer takes the type."""
        lower = (content_type or b"").lower()
        floors = [offer.min_length for offer in self._offers if lower and offer.takes(lower)]
        made = None
        if floors:
            accepted = codings.accepts(accept)
            made = Plan(
                min(floors),
                _accepted(accepted, self._for_files, lower),
                _accepted(accepted, self._for_streams, lower),
            )
        if len(self.plans) >= PLANS_KEPT:
            self.plans.clear()
        self.plans[content_type, accept] = made
        return made


def _sorted(offers: Iterable[Offer], order: tuple[str, ...]) -> tuple[Offer, ...]:
    rank = {coding: index for index, coding in enumerate(order)}
    return tuple(sorted(offers, key=lambda offer: rank.get(offer.coding, len(rank))))


def _accepted(accepted: codings.Accepts, offers: Iterable[Offer], content_type: bytes) -> tuple[Offer, ...]:
    fitting = {offer.coding: offer for offer in offers if offer.takes(content_type)}
    return tuple(fitting[coding] for coding in accepted.ordered(fitting))


def compressing(conf: Compression, build: Build) -> Filter | None:
    """The level's filter, None if nothing is offered and no script may wish for anything."""
    offers, learn = offered(build), wishes(build)
    for offer in offers:
        codings.ready(offer.coding, offer.level)
    usual = _usual(conf, build, offers) if offers else None
    return usual if learn is None else _wished(conf, build, learn, usual)


def _variants(conf: Compression, build: Build) -> Variants | None:
    if not conf.compress_cache_size:
        return None
    found: Variants = build.shared.setdefault(_VARIANTS, Variants(conf.compress_cache_size))
    return found


def _usual(conf: Compression, build: Build, offers: tuple[Offer, ...]) -> Filter:
    choice = Choice(offers, conf.compress_order)
    plans, make_plan, vary, variants = choice.plans, choice.plan, conf.gzip_vary, _variants(conf, build)

    def compress(request: Request, response: Response) -> Transform | None:
        if response.status not in COMPRESSED_STATUSES:
            return None
        key = (response.content_type, request.headers.get(b"accept-encoding"))
        try:
            plan = plans[key]
        except KeyError:
            plan = make_plan(*key)
        if plan is None or request.main is not request:
            return None
        body = response.body
        is_file = body.__class__ is FileBody
        length = body.length if is_file and response.length == -2 else response.known_length()  # type: ignore[union-attr]
        if 0 <= length < plan.floor:
            return None
        at = look(response.fields)
        if at == ENCODED:
            return None
        response.vary |= vary
        for offer in plan.kept if is_file else plan.streamed:
            if length < 0 or length >= offer.min_length:
                admits = offer.admits
                if admits is None or admits(request, response):
                    return _begin(request, response, offer, at, variants)
        return None

    return compress


def _begin(request: Request, response: Response, offer: Offer, at: int, variants: Variants | None) -> Transform | None:
    """Change the head, and put a variant in the body's place or return a stream."""
    body, before = response.body, response.length
    announce(response, offer.token, at)
    if before == -2 and body.__class__ is FileBody and not response.changed:
        before = body.length
        if variants is not None and _from_variant(request, response, body, offer.coding, variants):
            return None
    response.remove(b"accept-ranges")  # an upstream's
    if request.method == b"HEAD":
        return None
    stream = codings.encoder(offer.coding, offer.level, offer.window)
    endless = before == -1 or (before == -2 and body.__class__ not in (bytes, FileBody))
    stream.prompt = endless or response.content_type == EVENT_STREAM
    request.keep(MADE, stream)
    return stream


def _from_variant(request: Request, response: Response, body: FileBody, coding: str, variants: Variants) -> bool:
    entry = variants.entries.get((body.path, coding))
    if entry is None or (entry.source is not body and not variants.answers(entry, body)):
        if request.method == b"HEAD" or not body.path or body.offset:
            return False
        entry = variants.make(body, coding)
        if entry is None:
            return False
    data = entry.data
    if data is not None:
        response.length, response.body = len(data), data
    elif entry.growing is not None:
        response.body = Reader(entry.growing)
    entry.used = True
    if request.notes is None:
        request.notes = {MADE: entry}
    else:
        request.notes[MADE] = entry
    if body.fd >= 0:
        body.close()
    return True


def _wished(conf: Compression, build: Build, learn: Policy, usual: Filter | None) -> Filter:
    vary, variants = conf.gzip_vary, _variants(conf, build)

    def compress(request: Request, response: Response) -> Transform | Splice | None:
        wish = learn(request, response)
        if wish is None:
            return usual(request, response) if usual is not None else None
        at = look(response.fields)
        if not wish.codings or response.status in BODILESS or at == ENCODED or request.main is not request:
            return None
        response.vary |= vary
        if 0 <= response.known_length() < wish.min_length:
            return None
        usable = filter(codings.installed, wish.codings)
        coding = codings.accepts(request.headers.get(b"accept-encoding")).choose(usable)
        if coding is None:
            return None
        level = wish.level or USUAL_LEVEL[coding]
        stream = _begin(request, response, Offer(coding, frozenset(), 0, level), at, variants)
        return _prompt(stream, wish)

    return compress


def _prompt(stream: Transform | None, wish: Wish) -> Transform | None:
    if wish.flush and isinstance(stream, codings.Encoder):
        stream.prompt = True
    return stream


module = Module(name="compress", conf=Compression, filter=compressing, steady=lambda _conf, _build: True)
