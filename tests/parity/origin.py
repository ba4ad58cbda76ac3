"""The upstream of a case: answers with canned bytes, or with the request it got as text."""

import re
import socket
import threading
import time

from tests.parity.case import Answer
from tests.parity.client import Fill

LENGTH = re.compile(rb"^content-length: *(\d+)", re.MULTILINE | re.IGNORECASE)
CHUNKED = re.compile(rb"^transfer-encoding: *chunked", re.MULTILINE | re.IGNORECASE)
CLOSING = re.compile(rb"^connection: *close", re.MULTILINE | re.IGNORECASE)


class Origin:
    """Listens on a free port, one thread a connection; `close` ends them all."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.fill = Fill({})
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.open: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(10)
            self.open.append(sock)
            thread = threading.Thread(target=self.serve, args=(sock, len(self.open)), daemon=True)
            self.threads.append(thread)
            thread.start()

    def serve(self, sock: socket.socket, connection: int) -> None:
        try:
            buffer = bytearray()
            number = 0
            while received := read_request(sock, buffer):
                number += 1
                target = received.split(b" ", 2)[1].decode()
                answer = self.answers.get(target)
                then = send(sock, answer, self.fill) if answer else echo(sock, received, connection, number)
                if then == "hang":
                    continue
                if then != "keep" or not is_persistent(received):
                    break
        except OSError:
            pass
        finally:
            sock.close()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self.open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in [self.accepting, *self.threads]:
            thread.join(5)


def read_request(sock: socket.socket, buffer: bytearray) -> bytes:
    """One request with its body as it came over the wire; empty at the end of the connection."""
    while b"\r\n\r\n" not in buffer:
        data = sock.recv(65536)
        if not data:
            return b""
        buffer += data
    end = buffer.index(b"\r\n\r\n") + 4
    head = bytes(buffer[:end])
    if CHUNKED.search(head):
        while not buffer[end:].endswith(b"0\r\n\r\n"):
            buffer += sock.recv(65536) or b"0\r\n\r\n"
        end = len(buffer)
    elif length := LENGTH.search(head):
        end += int(length[1])
        while len(buffer) < end:
            data = sock.recv(65536)
            if not data:
                break
            buffer += data
    received = bytes(buffer[:end])
    del buffer[:end]
    return received


def is_persistent(received: bytes) -> bool:
    head = received.split(b"\r\n\r\n", 1)[0]
    return b" HTTP/1.1\r\n" in head + b"\r\n" and not CLOSING.search(head)


def send(sock: socket.socket, answer: Answer, fill: Fill) -> str:
    for part in answer.parts:
        sock.sendall(fill(part.data))
        if part.seconds:
            time.sleep(part.seconds)
    return answer.then


def echo(sock: socket.socket, received: bytes, connection: int, number: int) -> str:
    """Answer with the request as text; the ordinals show how connections are reused."""
    body = b"" if received.startswith(b"HEAD ") else received
    head = (
        f"HTTP/1.1 200 OK\r\nX-Origin: connection {connection}, request {number}\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {len(received)}\r\n\r\n"
    )
    sock.sendall(head.encode() + body)
    return "keep"
