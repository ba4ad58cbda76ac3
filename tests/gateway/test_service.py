"""What a worker's connections share: time-outs looked over by one timer, turns of the loop, counters, draining."""

import asyncio
from pathlib import Path

import pytest

from gateway.http.router import Site
from gateway.http.service import Deadlines, Service
from gateway.process import loop as loops
from tests.gateway.livesite import serving


class Due:
    """Something with a time-out."""

    def __init__(self, deadline: float, *, breaks: bool = False) -> None:
        self.deadline, self.breaks, self.times = deadline, breaks, 0

    def expired(self) -> None:
        self.times += 1
        assert self.deadline == 0.0
        if self.breaks:
            raise RuntimeError("by design")


def test_deadlines(capfd: pytest.CaptureFixture[str]) -> None:
    loop = loops.new()
    try:
        deadlines, now = Deadlines(loop), loop.time()
        soon, broken, never, far = Due(now + 0.05), Due(now + 0.05, breaks=True), Due(0.0), Due(now + 999)
        moved, dropped = Due(now + 0.05), Due(now + 0.05)
        for one in (soon, broken, never, far, moved, dropped):
            deadlines.add(one)
        moved.deadline = now + 999
        deadlines.discard(dropped)
        deadlines.start()

        async def until_due() -> None:
            while not (soon.times and broken.times):
                await asyncio.sleep(0.01)

        loop.run_until_complete(asyncio.wait_for(until_due(), 10))
        assert [one.times for one in (soon, broken, never, far, moved, dropped)] == [1, 1, 0, 0, 0, 0]
        deadlines.stop()
        assert "by design" in capfd.readouterr().err
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def test_a_turn_has_one_number() -> None:
    loop = loops.new()
    try:
        service = Service(Site(), loop)

        async def turns() -> None:
            seen = set()
            for _ in range(5):
                assert service.turn() == service.turn()
                seen.add(service.turn())
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert len(seen) == 5

        loop.run_until_complete(turns())
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def test_draining_without_connections_ends_at_once() -> None:
    loop = loops.new()
    try:
        service, ended = Service(Site(), loop), []
        service.drain(lambda: ended.append(True))
        loop.run_until_complete(asyncio.sleep(0.01))
        assert ended == [True]
        service.gone(None)
        loop.run_until_complete(asyncio.sleep(0.01))
        assert ended == [True]
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def test_counters_and_numbers(tmp_path: Path) -> None:
    with serving(tmp_path, 'location / { return 200 "$connection $connection_requests"; }') as site:
        numbers = []
        for _ in range(3):
            with site.connect() as client:
                for served in (b"1", b"2"):
                    number, requests = client.get("/").body.split()
                    assert requests == served
                numbers.append(int(number))
        assert numbers == [1, 2, 3]
        counted = site.ask(lambda service: (service.counters.accepted, service.counters.requests))
        assert counted == (3, 6)


def test_closing_ends_everything(tmp_path: Path) -> None:
    files = {"large.bin": bytes(9_000_000)}
    with serving(tmp_path, files=files) as site, site.connect() as idle, site.connect(window=4096) as busy:
        idle.get("/")
        busy.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").exactly(100)
        site.ask(lambda service: service.close())
        assert idle.rest() == b""
        assert len(busy.rest()) < 9_000_000
