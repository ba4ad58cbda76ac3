"""The runner's promises: a bounded queue, nobody waits for ever, and work stops when nobody wants it any more."""

import os
from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient

from inference import parts
from inference.engines.contract import Pcm, Utterance
from inference.errors import ServiceError
from inference.runner import Job, Runner, State
from tests.inference.conftest import ToneEngine, wait_until


def never() -> bool:
    return False


@pytest.fixture
def runner(engine: ToneEngine) -> Iterator[Runner]:
    made = Runner(lambda: engine, "tone", "cpu", 2)
    made.start()
    wait_until(lambda: made.state is State.READY)
    yield made
    engine.release.set()
    made.close()


def submit(runner: Runner, text: str, timeout: float = 30.0) -> Job:
    return runner.submit(Utterance(text), "r1", timeout)


def test_pieces_come_as_they_are_made(runner: Runner, engine: ToneEngine) -> None:
    job = submit(runner, "one {hold} two")
    pieces = job.pieces(never)
    assert len(next(pieces)) == 2400
    engine.release.set()
    assert len(list(pieces)) == 2
    assert job.seconds > 0


def test_work_stops_when_the_client_is_gone(runner: Runner, engine: ToneEngine) -> None:
    job = submit(runner, "one {hold} two three")
    assert engine.holding.wait(20)
    with pytest.raises(ServiceError) as caught:
        list(job.pieces(lambda: True))
    assert caught.value.status == 499
    engine.release.set()
    assert engine.stopped.wait(20)
    assert len(list(submit(runner, "four").pieces(never))) == 1


def test_a_waiting_job_whose_client_left_frees_its_place(runner: Runner, engine: ToneEngine) -> None:
    submit(runner, "{hold}")
    assert engine.holding.wait(20)
    waiting = [submit(runner, "never said") for _ in range(2)]
    with pytest.raises(ServiceError) as full:
        submit(runner, "x")
    assert full.value.status == 429 and full.value.retry_after >= 1
    with pytest.raises(ServiceError):
        list(waiting[0].pieces(lambda: True))
    last = submit(runner, "said")
    waiting[1].cancel()
    engine.release.set()
    assert len(list(last.pieces(never))) == 1
    assert [heard.text for heard in engine.heard] == ["{hold}", "said"]


def test_out_of_time_is_504(runner: Runner, engine: ToneEngine) -> None:
    with pytest.raises(ServiceError) as caught:
        list(submit(runner, "{hold}", timeout=0.05).pieces(never))
    assert caught.value.status == 504
    engine.release.set()


def test_closing_refuses_what_waits_and_closes_the_engine(runner: Runner, engine: ToneEngine) -> None:
    spoken = submit(runner, "{hold} more")
    assert engine.holding.wait(20)
    waiting = submit(runner, "one")
    runner.close(timeout=0)
    engine.release.set()
    for job in (spoken, waiting):
        with pytest.raises(ServiceError) as caught:
            list(job.pieces(never))
        assert caught.value.code == "engine_stopped"
    assert engine.closed.wait(20)
    wait_until(lambda: runner.state is State.STOPPED)
    with pytest.raises(ServiceError) as caught:
        submit(runner, "x")
    assert caught.value.status == 503


class BadEngine(ToneEngine):
    def load(self, device: str) -> None:
        raise OSError("model.bin is missing in /models")


class SlowEngine(ToneEngine):
    def load(self, device: str) -> None:
        assert self.release.wait(20)


def test_an_engine_that_cannot_load_is_told_with_its_reason() -> None:
    runner = Runner(BadEngine, "tone", "cpu", 2)
    runner.start()
    wait_until(lambda: runner.state is State.FAILED)
    assert "model.bin" in str(runner.status()["reason"])
    with pytest.raises(ServiceError, match=r"model\.bin") as caught:
        submit(runner, "x")
    assert (caught.value.status, caught.value.code) == (503, "engine_failed")


def test_loading_is_told_and_can_be_stopped(engine: ToneEngine) -> None:
    slow = SlowEngine()
    runner = Runner(lambda: slow, "tone", "cpu", 2)
    runner.start()
    assert runner.status()["state"] == "loading" and "seconds" in runner.status()
    with pytest.raises(ServiceError) as caught:
        submit(runner, "x")
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (503, "engine_loading", 2)
    assert not runner.close(timeout=0)
    slow.release.set()
    assert slow.closed.wait(20)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_says_that_it_has_no_runner(runner: Runner) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, runner.state.value.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"stopped"
    os.close(reader)
    os.close(writer)


class ListEngine(ToneEngine):
    """Returns a plain iterator, which the contract allows: it has no close."""

    def speak(self, what: Utterance, warn: Callable[[str], None]) -> Iterator[Pcm]:
        return iter(list(super().speak(what, warn)))


def test_engines_may_return_any_iterator() -> None:
    runner = Runner(ListEngine, "tone", "cpu", 2)
    runner.start()
    wait_until(lambda: runner.state is State.READY)
    assert len(list(submit(runner, "one two").pieces(never))) == 2
    assert runner.close()


def test_health(http: FlaskClient, engine: ToneEngine) -> None:
    assert http.get("/healthz").get_json() == {"status": "ok"}
    ready = http.get("/readyz")
    assert ready.status_code == 200
    assert ready.get_json() == {
        "state": "ready", "engine": "tone", "device": "cpu", "busy": False, "queued": 0, "queue_size": 2,
    }  # fmt: skip
    assert ready.headers["Cache-Control"] == "no-store"


def test_readyz_is_503_when_the_engine_stopped(http: FlaskClient, app: Flask) -> None:
    parts.service(app).runner.close()
    answer = http.get("/readyz")
    assert answer.status_code == 503 and answer.get_json()["state"] == "stopped"
    assert answer.headers["Retry-After"] == "2"
    assert http.get("/healthz").status_code == 200
    refused = http.post("/generate_audio", json={"text": "one"})
    assert refused.status_code == 503 and refused.get_json()["error"]["code"] == "engine_stopped"
