"""A VM with a request, on which tests run scripts without a server."""

from types import SimpleNamespace
from typing import Any

from gateway.http.headers import headers_of
from gateway.http.message import Request
from gateway.lua import bridge, runtime
from gateway.lua.api import functions
from gateway.lua.bridge import CONTENT, Local, Run
from gateway.module import Variable


class Peer(SimpleNamespace):
    """What a request needs of its connection."""

    client, client_port, local, local_port = b"192.0.2.1", 4711, b"127.0.0.1", 80
    number, served, scheme, sent = 1, 1, b"http", 0


def a_request(**changes: Any) -> Request:
    head = headers_of(
        [(b"Host", b"example.org"), (b"X-Many", b"1"), (b"X-Many", b"2"), (b"Accept-Encoding", b"gzip, br;q=0.5")]
    )
    request = Request(Peer(), b"GET", b"/a?x=1&y&x=2", b"/a", b"x=1&y&x=2&z=", 11, head, 1700000000.5)  # type: ignore[arg-type]
    request.line = b"GET /a?x=1&y&x=2 HTTP/1.1"
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def lookup(name: str) -> Variable:
    if name == "fixed":
        return Variable(lambda request: b"unchanging")
    return Variable(lambda request: request.value(name), lambda request, value: request.assign(name, value))


class Script:
    """A VM, a request, and scripts run on them; what they say is collected."""

    def __init__(self, **settings: Any) -> None:
        site = runtime.LuaSite(runtime.Settings(prefix="/srv/", **settings), functions(), lookup)
        site.vm = runtime.make(site.settings, site.functions, runtime.checked)
        self.site, self.request = site, a_request()
        self.run = Run(self.request, site, site.vm)
        self.run.local = Local(lambda uri: b"text/plain")

    def enter(self, code: str, phase: int = CONTENT) -> Any:
        """Run it; None, or the operation that it waits for or ended with."""
        bridge.current = self.run
        self.run.phase = phase
        vm = self.site.vm
        number = vm.load(runtime.Chunk(code.encode(), b"=test"))
        return vm.start(number, self.run.number, phase)

    def go_on(self, *answer: Any) -> Any:
        return self.site.vm.resume(self.run.number, CONTENT, *answer)

    def says(self, code: str) -> str:
        """What a script that must end well says, without the last line end."""
        self.run.pieces.clear()
        outcome = self.enter(code)
        assert outcome is None, outcome
        return b"".join(self.run.pieces).decode().removesuffix("\n")

    def error(self, code: str, phase: int = CONTENT) -> str:
        outcome = self.enter(code, phase)
        assert outcome[0] == 4, outcome
        return str(outcome[1].decode())
