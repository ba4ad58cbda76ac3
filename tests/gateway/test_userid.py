"""userid: new marks, which no two servers make alike, and cookies; the rest is in the parity case of this name."""

import re
import signal
import struct
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.modules.userid import Numbers, _until, find_cookie
from tests.gateway.nginx import agrees, needs_nginx
from tests.gateway.tengine import Tengine

COOKIE = re.compile(r"Set-Cookie: (\w+)=([A-Za-z0-9+/=]+)([^\r]*)")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    (tmp_path / "page").write_text("page")
    made.write(
        "userid on; add_header X-Set $uid_set;",
        main="worker_processes 2;",
        server="""
        location = /page { }
        location = /v1 { userid v1; userid_name old; try_files /page =404; }
        location = /service { userid_service 65534; try_files /page =404; }
        location = /error { return 404; }
        """,
    )
    made.start()
    yield made
    made.stop(signal.SIGTERM)


def given(server: Tengine, path: str) -> tuple[str, bytes]:
    """The variable's hex and the cookie's bytes."""
    answer = server.get(path)
    found = COOKIE.search(answer)
    assert found is not None, answer
    shown = re.search(r"X-Set: \w+=(\w+)", answer)
    return shown[1] if shown else "", b64decode(found[2])


def test_marks(server: Tengine) -> None:
    shown, mark = given(server, "/page")
    assert mark[:4] == bytes([127, 0, 0, 1])
    assert shown == "".join(f"{number:08X}" for number in struct.unpack("=4I", mark))
    assert given(server, "/service")[1][:4] == struct.pack(">I", 65534)
    assert given(server, "/v1")[1][:4] == bytes(4)
    assert given(server, "/error")[1][:4] == bytes([127, 0, 0, 1])


def test_no_two_are_alike(server: Tengine) -> None:
    marks = [given(server, path)[1] for path in ("/page", "/service", "/v1", "/error") for _ in range(10)]
    assert len(set(marks)) == len(marks)


def test_a_mark_is_known_again(server: Tengine) -> None:
    found = COOKIE.search(server.get("/page"))
    assert found is not None
    assert "Set-Cookie" not in server.get("/page", [f"Cookie: uid={found[2]}"])
    assert "Set-Cookie" in server.get("/page", ["Cookie: uid=short"])
    assert 'client sent too short userid cookie "uid=short", client: 127.0.0.1' in server.log()
    server.get("/page", ["Cookie: uid=!!!!!!!!!!!!!!!!!!!!!!!!"])
    assert 'client sent invalid userid cookie "uid=!!!!!!!!!!!!!!!!!!!!!!!!"' in server.log()


def test_counts_go_round() -> None:
    numbers = Numbers()
    numbers.v1, numbers.v2 = 0xFFFFFF01, 0xFFFFFF02
    assert [numbers.next_v1(0)[3] for _ in range(2)] == [0xFFFFFF01, 1]
    counts = [struct.unpack(">I", struct.pack("=I", numbers.next_v2(0)[3]))[0] for _ in range(2)]
    assert counts == [0xFFFFFF02, 0x03030302]


def test_a_cookie_and_its_end() -> None:
    assert find_cookie([b"a=b; UID = x ;c=d"], b"uid") == b"x "
    assert find_cookie([b"a=b", b"uid=x"], b"uid") == b"x"
    assert find_cookie([b"a=uid=x; uids=y", b""], b"uid") is None
    assert _until(0) == b""
    assert re.fullmatch(rb"; expires=\w{3}, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT", _until(100))
    assert re.fullmatch(rb"; expires=\w{3}, \d\d-\w{3}-\d{4} \d\d:\d\d:\d\d GMT", _until(100 * 365 * 86400))


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "userid foo;",
        "userid_expires foo;",
        "userid_expires 1y;",
        "userid_expires -1;",
        "userid_expires 100ms;",
        "userid_expires max; userid_expires max;",
        "userid_mark ab;",
        "userid_mark _;",
        "userid_mark '';",
        "userid_mark off; userid_path ''; userid_domain ''; userid_p3p none;",
        "userid_service x;",
        "userid_flags secure foo;",
        "userid_flags off secure;",
        "userid_flags samesite=lax samesite=strict samesite=none secure;",
        "userid_path a b;",
        "server { listen 127.0.0.1:1; set $uid_reset 1; location / { return 200 $uid_reset; } }",
        "server { listen 127.0.0.1:1; set $uid_got 1; }",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
