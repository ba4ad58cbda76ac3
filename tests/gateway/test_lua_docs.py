"""The examples of docs/lua.md: each configuration is served, each command gives what the page says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import codings
from tests.gateway.luaserver import Server, serving

PAGE = (Path(__file__).parents[2] / "docs" / "lua.md").read_text()
EXAMPLES = re.findall(r"```nginx\n(.*?)```\n\n```console\n\$ curl (.*?)\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("docs"), "\n".join(conf for conf, _, _ in EXAMPLES)) as running:
        yield running


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```nginx\n") >= 6


@pytest.mark.parametrize(("command", "expected"), [(command, expected) for _, command, expected in EXAMPLES])
def test_an_example(server: Server, command: str, expected: str) -> None:
    *options, url = command.split()
    headers = []
    if "--compressed" in options:
        headers.append("Accept-Encoding: gzip, br, zstd")
    if "-H" in options:
        headers.append(options[options.index("-H") + 1].replace(":", ": "))
    answer = server.get(url.removeprefix("localhost"), *headers)
    coding = answer.get("Content-Encoding")
    assert (coding is not None) == ("--compressed" in options)
    body = codings.decode(coding, answer.body) if coding else answer.body
    assert body.decode() == expected
