"""Coroutines that wait without a Task: answered before or after they wait, thrown into, and with asyncio's futures."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.http.flow import Flow, Wait


class Ended:
    """What a flow reported at its end."""

    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []

    def __call__(self, error: BaseException | None) -> None:
        self.errors.append(error)


def begun(coroutine: Coroutine[Any, Any, None]) -> tuple[Flow, Ended]:
    ended = Ended()
    return Flow(coroutine, coroutine.send(None), ended), ended


def test_the_answer_runs_the_coroutine_on_at_once() -> None:
    wait, got = Wait(), []

    async def body() -> None:
        got.append(await wait)

    _, ended = begun(body())
    assert got == [] and ended.errors == []
    wait.done("value")
    assert got == ["value"] and ended.errors == [None]
    wait.done("again")
    wait.fail(ValueError())
    assert got == ["value"] and ended.errors == [None]


def test_an_answer_that_was_there_before_is_not_waited_for() -> None:
    wait = Wait()
    wait.done(1)

    async def body() -> int:
        return int(await wait)

    with pytest.raises(StopIteration) as end:
        body().send(None)
    assert end.value.value == 1


def test_failing_raises_where_it_waits() -> None:
    wait, seen = Wait(), []

    async def body() -> None:
        try:
            await wait
        except ValueError as error:
            seen.append(error)
            raise KeyError("other") from error

    _, ended = begun(body())
    wait.fail(ValueError("x"))
    assert len(seen) == 1 and isinstance(ended.errors[0], KeyError)


def test_thrown_into_a_wait_the_answer_comes_too_late() -> None:
    wait, after = Wait(), Wait()

    async def body() -> None:
        try:
            await wait
        finally:
            await after

    flow, ended = begun(body())
    flow.throw(ConnectionError())
    wait.done()
    assert ended.errors == []
    after.done()
    assert isinstance(ended.errors[0], ConnectionError) and len(ended.errors) == 1
    flow.throw(ConnectionError())
    flow.resume()
    assert len(ended.errors) == 1


def test_thrown_while_it_runs_it_is_told_at_its_next_wait() -> None:
    first, second, flows = Wait(), Wait(), []

    async def body() -> None:
        await first
        flows[0].throw(TimeoutError())
        await second

    flow, ended = begun(body())
    flows.append(flow)
    first.done()
    assert isinstance(ended.errors[0], TimeoutError)


def test_asyncio_may_be_awaited_too() -> None:
    async def main() -> None:
        loop, steps = asyncio.get_running_loop(), []
        future = loop.create_future()

        async def body() -> None:
            await asyncio.sleep(0)
            steps.append("turn")
            await asyncio.sleep(0.001)
            steps.append("time")
            steps.append(await future)
            steps.append(await loop.run_in_executor(None, lambda: "thread"))

        _, ended = begun(body())
        loop.call_later(0.01, future.set_result, "future")
        while not ended.errors:
            await asyncio.sleep(0.001)
        assert steps == ["turn", "time", "future", "thread"]

    asyncio.run(asyncio.wait_for(main(), 10))


def test_thrown_into_a_future() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        async def body() -> None:
            await future

        flow, ended = begun(body())
        flow.throw(ConnectionError())
        assert isinstance(ended.errors[0], ConnectionError)
        future.set_result(None)
        await asyncio.sleep(0)
        assert len(ended.errors) == 1

    asyncio.run(main())


def test_no_exception_but_errors_pass_on() -> None:
    wait = Wait()

    async def body() -> None:
        await wait
        raise SystemExit(3)

    _, ended = begun(body())
    with pytest.raises(SystemExit):
        wait.done()
    assert isinstance(ended.errors[0], SystemExit)


def test_deep_recursion_is_not_needed_for_many_answers_in_a_row() -> None:
    waits = [Wait() for _ in range(5000)]

    async def body() -> None:
        for wait in waits:
            await wait

    _, ended = begun(body())
    for wait in waits:
        wait.done()
    assert ended.errors == [None]


def test_the_error_of_a_future_that_nobody_waits_for_any_more_is_not_reported() -> None:
    loop = asyncio.new_event_loop()
    reports: list[Any] = []
    loop.set_exception_handler(lambda _loop, context: reports.append(context))
    futures = [loop.create_future()]

    async def body() -> None:
        await futures[0]

    flow, ended = begun(body())
    flow.throw(TimeoutError())
    futures.pop().set_exception(ConnectionResetError())
    assert [type(error) for error in ended.errors] == [TimeoutError]
    loop.call_soon(loop.stop)
    loop.run_forever()
    del flow, ended  # the error's traceback holds the future
    gc.collect()
    loop.close()
    assert reports == []
