"""auth_basic, satisfy and auth_delay: what parity cases cannot see (log lines, time, files that change, threads)."""

import signal
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.modules import auth_basic
from gateway.modules.auth_basic import Checker, credentials, parsed
from tests.gateway.nginx import agrees, needs_nginx
from tests.gateway.tengine import Tengine, until

BCRYPT = "$2b$04$abcdefghijklmnopqrstuuyvPXIbu7xe6/CED2DzX8z6Si09MlzlW"
SHA512 = "$6$salt$AkOOBO38SQQ8T8Q46KuCONe.8zg41nvCDKDq7pVQd2n2hy8sf8aR3G89VY.57up0eSIa/69odCCcLT4hx7FpW/"


def basic(name: str, password: str) -> str:
    return "Authorization: Basic " + b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    (tmp_path / "page").write_text("page")
    (tmp_path / "users").write_text(f"a:{{PLAIN}}b\nslow:{SHA512}\nbroken:$1$\n")
    made.write(
        "auth_basic_user_file users;",
        server="""
        location = /page { auth_basic closed; }
        location = /missing { auth_basic closed; auth_basic_user_file nowhere; }
        location = /delay { auth_basic closed; auth_delay 30s; try_files /page =404; }
        location = /delayany { satisfy any; deny all; auth_basic closed; auth_delay 30s; try_files /page =404; }
        location = /forbidden { deny all; auth_delay 30s; }
        location = /any { satisfy any; deny all; try_files /page =404; }
        """,
    )
    made.start()
    yield made
    made.stop(signal.SIGTERM)


def status(server: Tengine, path: str, *headers: str) -> int:
    return int(server.get(path, headers).split(" ", 2)[1])


def test_log_lines(server: Tengine) -> None:
    users = server.folder / "users"
    assert status(server, "/page") == 401
    assert status(server, "/page", basic("a", "wrong secret")) == 401
    assert status(server, "/page", basic("nobody", "b")) == 401
    assert status(server, "/missing", basic("a", "b")) == 403
    assert status(server, "/any") == 403
    log = server.log()
    assert "[info]" in log and "no user/password was provided for basic authentication, client: 127.0.0.1" in log
    assert 'user "a": password mismatch, client: 127.0.0.1' in log
    assert f'user "nobody" was not found in "{users}", client: 127.0.0.1' in log
    assert f'open() "{server.folder}/nowhere" failed (2: No such file or directory), client: 127.0.0.1' in log
    assert "access forbidden by rule" in log
    assert "secret" not in log, "passwords are not logged"


def test_a_file_counts_as_it_is_now(server: Tengine) -> None:
    assert status(server, "/page", basic("a", "b")) == 200
    (server.folder / "users").write_text("a:{PLAIN}changed\n")
    assert status(server, "/page", basic("a", "b")) == 401
    assert status(server, "/page", basic("a", "changed")) == 200
    (server.folder / "users").unlink()
    assert status(server, "/page", basic("a", "changed")) == 403


def test_slow_schemes(server: Tengine) -> None:
    for _ in range(2):
        assert status(server, "/page", basic("slow", "pw")) == 200
        assert status(server, "/page", basic("slow", "other")) == 401


@pytest.mark.parametrize("path", ["/delay", "/delayany"])
def test_a_refusal_waits(server: Tengine, path: str) -> None:
    assert status(server, path, basic("a", "b")) == 200
    with server.connect() as waiting:
        waiting.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        until(lambda: "delaying unauthorized request" in server.log())
        assert status(server, "/forbidden") == 403, "only 401 waits"
        assert status(server, "/page", basic("a", "b")) == 200, "others do not wait"
        waiting.setblocking(False)
        with pytest.raises(BlockingIOError):
            waiting.recv(1)
    until(lambda: any(f"{path} HTTP/1.0" in line and " 499 " in line for line in server.access()))


def test_a_file_as_nginx_reads_it() -> None:
    text = b"#no:x\n\r\n\nplain:pw\nsame:1\nsame:2\nrest:pw:more:x\ncr:pw\r\nnocolon\n:empty\nlast:pw"
    assert parsed(text) == {b"plain": b"pw", b"same": b"1", b"rest": b"pw", b"cr": b"pw", b"": b"empty", b"last": b"pw"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"Basic", None),
        (b"Basic ", None),
        (b"Digest YTpi", None),
        (b"Basic YTpi", (b"a", b"b")),
        (b"bAsIc   YTpi", (b"a", b"b")),
        (b"Basic YTpi===", (b"a", b"b")),
        (b"Basic YTpiOmM=", (b"a", b"b:c")),
        (b"Basic YTpiOmM=junk", (b"a", b"b:c")),
        (b"Basic YTo=", (b"a", b"")),
        (b"Basic OmI=", None),
        (b"Basic YWI=", None),
        (b"Basic YTpi!", None),
        (b"Basic YTpiY", None),
        (b"Basic /+8=", None),
    ],
)
def test_credentials(value: bytes | None, expected: tuple[bytes, bytes] | None) -> None:
    request: Any = SimpleNamespace(headers=SimpleNamespace(get=lambda _name: value))
    assert credentials(request) == expected


def test_only_right_passwords_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def checked(password: bytes, stored: bytes) -> bool:
        asked.append(password)
        return password == stored

    monkeypatch.setattr(auth_basic, "matches", checked)
    checker = Checker()
    for password in (b"sesame", b"sesame", b"wrong", b"wrong"):
        assert checker.verdict(password, b"sesame") is (password == b"sesame")
    assert asked == [b"sesame", b"wrong", b"wrong"]
    assert checker.verdict(b"sesame", b"other") is False, "what is stored has changed"
    assert b"sesame" not in repr(vars(checker)).encode()
    monkeypatch.setattr(auth_basic, "KEPT", 2)
    for number in range(9):
        checker.verdict(b"%d" % number, b"%d" % number)
        assert len(checker.right) <= 2


def test_slow_passwords_are_checked_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    places: list[str] = []

    def checked(_password: bytes, _stored: bytes) -> bool:
        places.append(threading.current_thread().name)
        return True

    monkeypatch.setattr(auth_basic, "matches", checked)
    checker = Checker()

    async def ask() -> bool:
        found = checker.verdict(b"pw", SHA512.encode())
        assert not isinstance(found, bool)
        return await found

    assert asyncio.run(ask())
    assert places[0].startswith("passwords")
    assert checker.verdict(b"pw", SHA512.encode()) is True
    checker.threads.shutdown()


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "auth_basic a b;",
        "auth_basic;",
        "server { listen 127.0.0.1:1; auth_basic $nosuch; auth_basic_user_file x; }",
        "auth_basic_user_file;",
        "auth_delay 1x;",
        "satisfy some;",
        "auth_basic a; auth_basic b;",
        "server { listen 127.0.0.1:1; location / { if ($uri) { auth_basic a; } } }",
        "server { listen 127.0.0.1:1; location / { limit_except GET { auth_basic a; auth_basic_user_file b; } } }",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
