"""`limit_rate`, `limit_rate_after` and `$limit_rate`: how many bytes may go by when, without waiting for it."""

import asyncio
from pathlib import Path

import pytest

from gateway.modules import limit_rate
from gateway.modules.limit_rate import Paced, size
from tests.gateway.livesite import serving


class Source:
    def __init__(self, data: bytes) -> None:
        self.pieces = [data]

    async def read(self) -> bytes:
        return self.pieces.pop() if self.pieces else b""

    def close(self) -> None:
        self.pieces.clear()


@pytest.mark.parametrize(("rate", "after"), [(1000, 0), (1000, 2500), (7, 0), (100000, 0)])
def test_no_more_is_sent_than_the_rate_allows(rate: int, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(limit_rate.time, "time", lambda: clock[0])
    data = bytes(range(256)) * 40

    async def sleep(seconds: float) -> None:
        assert 0 < seconds <= 2
        clock[0] += seconds

    monkeypatch.setattr(limit_rate.asyncio, "sleep", sleep)

    async def drive() -> bytes:
        paced, got = Paced(Source(data), 100.0, rate, after), b""
        while piece := await paced.read():
            got += piece
            assert len(got) <= rate * (clock[0] - 100.0 + 1) + after
        return got

    assert asyncio.run(drive()) == data


def test_sizes() -> None:
    assert [size(word) for word in (b"0", b"10", b"2k", b"1m", b"", b"x")] == [0, 10, 2048, 1 << 20, 0, 0]


def test_a_limited_answer_is_whole_and_keeps_its_length(tmp_path: Path) -> None:
    rules = """
        location / { limit_rate 100k; limit_rate_after 10; }
        location /var { set $limit_rate 50k; }
    """
    with serving(tmp_path, rules, files={"f": b"x" * 300, "var": b"x" * 300}) as live:
        for path in ("/f", "/var"):
            answer = live.get(path)
            assert answer.status == 200 and answer.body == b"x" * 300
            assert answer.get("content-length") == "300"
