"""Sends the raw bytes of an exchange and records what comes back and whether the connection is closed."""

import re
import select
import socket
import ssl
import time
from dataclasses import dataclass, field

from tests.parity.case import Exchange

PATIENCE = 5.0  # seconds for an answer
GRACE = 0.03  # seconds in which a close that nothing announced must show
METHOD = re.compile(rb"^([A-Za-z_-]+) \S+ HTTP/", re.MULTILINE)
LENGTH = re.compile(rb"^Content-Length: *(\d+)", re.MULTILINE | re.IGNORECASE)
CHUNKED = re.compile(rb"^Transfer-Encoding: *chunked", re.MULTILINE | re.IGNORECASE)
CLOSING = re.compile(rb"^Connection: *close", re.MULTILINE | re.IGNORECASE)


@dataclass(slots=True)
class Message:
    """One answer: head with its status line, body after the transfer coding is taken off."""

    head: bytes
    body: bytes
    framing: str

    @property
    def interim(self) -> bool:
        return self.head[9:10] == b"1" and self.head[9:12] != b"101"


@dataclass(slots=True)
class Talk:
    """One connection and what was received on it so far."""

    exchange: Exchange
    sock: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    messages: list[Message] = field(default_factory=list)
    methods: list[bytes] = field(default_factory=list)
    ended: bool = False
    reset: bool = False
    late: bool = False


def receive(talk: Talk, deadline: float) -> bool:
    """Take in more bytes; False when none will come."""
    if talk.ended:
        return False
    held = isinstance(talk.sock, ssl.SSLSocket) and talk.sock.pending()  # decrypted already: select does not see it
    if not held and not select.select([talk.sock], [], [], max(0.0, deadline - time.monotonic()))[0]:
        talk.late = True
        return False
    try:
        data = talk.sock.recv(262144)
    except (ConnectionResetError, ssl.SSLError):
        talk.reset = True
        data = b""
    talk.buffer += data
    talk.ended = not data
    return bool(data)


class Fill:
    """Puts this server's ports and folders into a text of the case."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = {f"%{name}%".encode(): value.encode() for name, value in values.items()}

    def __call__(self, data: bytes) -> bytes:
        for name, value in self.values.items():
            data = data.replace(name, value)
        return data

    def text(self, text: str) -> str:
        return self(text.encode()).decode()


def take(talk: Talk, count: int) -> bytes:
    data = bytes(talk.buffer[:count])
    del talk.buffer[:count]
    return data


def take_line(talk: Talk, deadline: float) -> bytes:
    while b"\n" not in talk.buffer:
        if not receive(talk, deadline):
            return take(talk, len(talk.buffer))
    return take(talk, talk.buffer.index(b"\n") + 1)


def take_exactly(talk: Talk, count: int, deadline: float) -> bytes:
    while len(talk.buffer) < count and receive(talk, deadline):
        pass
    return take(talk, count)


def take_rest(talk: Talk, deadline: float) -> bytes:
    while receive(talk, deadline):
        pass
    return take(talk, len(talk.buffer))


def take_chunks(talk: Talk, deadline: float) -> tuple[bytes, str]:
    """Body and framing of a chunked answer; chunk sizes are the server's own business, an unfinished body is not."""
    body = b""
    while line := take_line(talk, deadline):
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError:
            return body + line, "broken chunks"
        if not size:
            trailer = b""
            while (line := take_line(talk, deadline)).strip():
                trailer += line
            return body, f"chunked, trailer {trailer!r}" if trailer else "chunked"
        body += take_exactly(talk, size, deadline)
        if take_line(talk, deadline) != b"\r\n":
            break
    return body, "chunked, cut short"


def take_body(talk: Talk, head: bytes, method: bytes, deadline: float) -> tuple[bytes, str]:
    status = head[9:12]
    if method == b"HEAD" or status in (b"204", b"304") or status[:1] == b"1":
        return b"", "none"
    if CHUNKED.search(head):
        return take_chunks(talk, deadline)
    if length := LENGTH.search(head):
        body = take_exactly(talk, int(length[1]), deadline)
        return body, "length" if len(body) == int(length[1]) else "length, cut short"
    return take_rest(talk, deadline), "until close"


def finals(talk: Talk) -> int:
    return sum(not message.interim for message in talk.messages)


def read_message(talk: Talk) -> bool:
    """Read one answer, interim ones included; False when none came."""
    deadline = time.monotonic() + PATIENCE
    while not (end := re.search(rb"\r?\n\r?\n", talk.buffer)):
        if not receive(talk, deadline):
            break
    if not talk.buffer:
        return False
    if not end or not talk.buffer.startswith(b"HTTP/"):
        talk.messages.append(Message(b"", take_rest(talk, deadline), "no head"))
        return False
    head = take(talk, end.end())
    final = finals(talk)
    method = talk.methods[final] if final < len(talk.methods) else b"GET"
    body, framing = take_body(talk, head, method, deadline)
    talk.messages.append(Message(head, body, framing))
    return True


def connect(port: int, tls: str | None) -> socket.socket:
    """Connect; over TLS if `tls` names the server, or is empty, whatever certificate it has."""
    sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
    if tls is None:
        return sock
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(sock, server_hostname=tls or None)


def converse(port: int, exchange: Exchange, fill: Fill) -> Talk:
    """Send an exchange and read its answers; the connection stays open for `settle`."""
    talk = Talk(exchange, connect(port, exchange.tls))
    sent = b""
    last = len(exchange.parts) - 1
    for number, part in enumerate(exchange.parts):
        data = fill(part.data)
        sent += data
        talk.methods = METHOD.findall(sent)
        try:
            talk.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            talk.reset = True
        if number < last:
            if part.seconds is None:
                read_message(talk)
            else:
                time.sleep(part.seconds)
    expected = exchange.expect or max(1, len(talk.methods))
    while finals(talk) < expected and read_message(talk):
        pass
    if announced(talk) or talk.ended:
        settle([talk])  # at once: nginx logs such a request when its connection is gone
    return talk


def announced(talk: Talk) -> bool:
    """Whether the last answer says that the connection ends with it."""
    return bool(talk.messages) and (CLOSING.search(talk.messages[-1].head) is not None or not talk.messages[-1].head)


def settle(talks: list[Talk]) -> None:
    """Wait until every connection that should end has ended, and give the others a moment to end by surprise."""
    grace = time.monotonic() + GRACE
    for talk in talks:
        if talk.sock.fileno() < 0:
            continue
        deadline = time.monotonic() + PATIENCE / 2 if announced(talk) else grace
        late = talk.late
        while receive(talk, deadline):
            pass
        talk.late = late
        talk.sock.close()
