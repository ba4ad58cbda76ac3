"""Runs a case on one server or on both and returns the transcripts."""

import difflib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.parity import server, transcript
from tests.parity.case import Case
from tests.parity.client import Fill, Talk, converse, settle
from tests.parity.origin import Origin
from tests.parity.server import Side


def tengine_command() -> list[str]:
    """The command of the server under test: $TENGINE, else the package beside these tests."""
    return os.environ["TENGINE"].split() if "TENGINE" in os.environ else [sys.executable, "-m", "gateway"]


def play(case: Case, name: str, command: list[str], folder: Path, ports: list[int]) -> list[str]:
    """Everything of a case on one server: a text for each exchange, then one for each log."""
    origin = Origin(case.answers)
    first, second, dead = ports
    prefix = folder / name
    fill = Fill(
        {
            "PORT2": str(second),
            "PORT": str(first),
            "ROOT": f"{folder}/root",
            "PREFIX": str(prefix),
            "ORIGIN": f"127.0.0.1:{origin.port}",
            "DEAD": f"127.0.0.1:{dead}",
        }
    )
    origin.fill = fill
    side = Side(name, command, prefix, (first, second), fill)
    try:
        server.write(case, side)
        if case.fails:
            refused = server.refuse(side).encode()
            return [transcript.neutral(refused, side).decode()]
        return serve(case, side)
    finally:
        origin.close()


def serve(case: Case, side: Side) -> list[str]:
    talks: list[Talk] = []
    server.start(side)
    try:
        for exchange in case.exchanges:
            talks.append(converse(side.ports[0], exchange, side.fill))
        settle(talks)
    finally:
        for talk in talks:
            talk.sock.close()
        server.stop(side)
    texts = [transcript.talk_text(number, talk, side) for number, talk in enumerate(talks, 1)]
    return texts + [transcript.log_text(name, side) for name in case.logs]


def one(case: Case, name: str, command: list[str], folder: Path) -> list[str]:
    server.make_root(case, folder / "root")
    return play(case, name, command, folder, server.free_ports(3))


def both(case: Case, nginx: str, folder: Path) -> tuple[list[str], list[str]]:
    """The two transcripts, side by side; mainline's answers stand in where the case says that they differ."""
    server.make_root(case, folder / "root")
    ports = server.free_ports(5)
    with ThreadPoolExecutor(2) as pool:
        # One dead port for both, and names of one length: bodies that hold them then have one length.
        expected = pool.submit(play, case, "nginx", [nginx], folder, [ports[0], ports[1], ports[4]])
        got = pool.submit(play, case, "tengi", tengine_command(), folder, [ports[2], ports[3], ports[4]])
        return mainline(case, expected.result()), got.result()


def mainline(case: Case, texts: list[str]) -> list[str]:
    replaced = [
        text if exchange.mainline is None else text.split("\n", 1)[0] + "\n" + exchange.mainline
        for text, exchange in zip(texts, case.exchanges, strict=False)
    ]
    return replaced + texts[len(replaced) :]


def difference(expected: list[str], got: list[str]) -> list[str]:
    """Where tengine's transcript leaves nginx's, with the lines around."""
    left, right = "".join(expected).splitlines(), "".join(got).splitlines()
    return list(difflib.unified_diff(left, right, "nginx", "tengine", lineterm="", n=6))
