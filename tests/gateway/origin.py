"""An upstream server for tests: every connection is handed to the test's own function, in a thread of its own."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

LIMIT = 10.0  # seconds that anything may take


class Call:
    """One accepted connection, with the requests read from it."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        sock.settimeout(LIMIT)
        self.sock, self.number = sock, number
        self.buffer = b""

    def head(self) -> bytes:
        """The next request's head, b"" when the peer has closed."""
        while b"\r\n\r\n" not in self.buffer:
            if not (data := self._receive()):
                return b""
            self.buffer += data
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def body(self, size: int) -> bytes:
        """So many bytes, fewer if the peer closes."""
        while len(self.buffer) < size and (data := self._receive()):
            self.buffer += data
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return body

    def gone(self) -> bool:
        """Wait until the peer has closed; False if it sends instead."""
        return not self._receive()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def _receive(self) -> bytes:
        try:
            return self.sock.recv(65536)
        except ConnectionResetError:
            return b""


@dataclass(slots=True)
class Origin:
    """A listening server: its port, and the calls it has had."""

    port: int
    calls: list[Call] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)


@contextmanager
def origin(serve: Callable[[Call], None]) -> Iterator[Origin]:
    """Serve in the background; what a call raises is raised at the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = Origin(listener.getsockname()[1])

    def handle(call: Call) -> None:
        try:
            serve(call)
        except OSError:
            pass
        except BaseException as error:
            found.errors.append(error)
        finally:
            call.sock.close()

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            call = Call(sock, len(found.calls))
            found.calls.append(call)
            threading.Thread(target=handle, args=(call,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(LIMIT)
        for call in found.calls:
            call.sock.close()
    if found.errors:
        raise found.errors[0]


def answer(body: bytes, *lines: str, status: str = "200 OK") -> bytes:
    """A whole answer with its length."""
    head = "".join(line + "\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines))
    return head.encode() + b"\r\n" + body
