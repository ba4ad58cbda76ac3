"""Writes down what a server answered, less what must differ: dates, version, ports, folders, boundaries."""

import gzip
import hashlib
import re
from email.utils import parsedate_to_datetime

from tests.parity.client import Message, Talk
from tests.parity.server import Side

VERSION = re.compile(rb"nginx/\d+\.\d+\.\d+")
BOUNDARY = re.compile(rb"boundary=(\d+)")
CLOCK = re.compile(
    rb"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d|\b\d{10}\.\d{3}\b"
)
FRACTION = re.compile(rb"\b\d\.\d{3}\b")
GZIPPED = re.compile(rb"^content-encoding: gzip", re.IGNORECASE | re.MULTILINE)
FRAMING = (b"content-length", b"transfer-encoding")
DAY = 86400
SHOWN = 6000  # bytes of a body that are shown; longer ones are shown by length and digest


def neutral(data: bytes, side: Side) -> bytes:
    """Put names in place of this server's own version, ports and folders."""
    data = VERSION.sub(b"nginx/<version>", data)
    for name in ("PREFIX", "ROOT", "ORIGIN", "DEAD"):
        data = data.replace(side.fill.values[f"%{name}%".encode()], f"<{name.lower()}>".encode())
    for name in ("PORT", "PORT2"):
        port = re.compile(rb"(?<!\d)" + side.fill.values[f"%{name}%".encode()] + rb"(?!\d)")
        data = port.sub(f"<{name.lower()}>".encode(), data)
    return data


def relative(expires: bytes, date: bytes | None) -> bytes:
    """An Expires near the answer's own Date, as seconds from it; others as they are."""
    if date is None:
        return expires
    try:
        seconds = (parsedate_to_datetime(expires.decode()) - parsedate_to_datetime(date.decode())).total_seconds()
    except ValueError:
        return expires
    return f"<date {seconds:+.0f} s>".encode() if -2 * DAY < seconds < 400 * DAY else expires


def head_lines(message: Message, side: Side) -> list[bytes]:
    lines = message.head.rstrip(b"\r\n").split(b"\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
    date = fields.get(b"date")
    out = []
    for line in lines:
        name, colon, value = line.partition(b": ")
        if packed(message) and name.lower() in FRAMING:
            continue
        if colon and name.lower() == b"date":
            line = name + b": <date>"
        elif colon and name.lower() == b"expires":
            line = name + b": " + relative(value, date)
        elif colon and name.lower() == b"content-length" and message.framing == "length":
            changed = len(body(message, side))
            line = name + b": " + (b"%d" % changed if len(message.body) == int(value) else value)
        out.append(neutral(BOUNDARY.sub(b"boundary=<boundary>", line), side))
    return out


def packed(message: Message) -> bool:
    return GZIPPED.search(message.head) is not None


def framing(message: Message) -> str:
    """How the body is delimited; a compressed one of known length (a stored variant) is as good as one in chunks."""
    whole = message.framing in ("length", "chunked", "until close")
    return "compressed" if whole and packed(message) else message.framing


def body(message: Message, side: Side) -> bytes:
    data = message.body
    if boundary := BOUNDARY.search(message.head):
        data = data.replace(boundary[1], b"<boundary>")
    if packed(message) and data:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            return b"<not gzip: %s>" % str(error).encode()
    return neutral(data, side)


def shown(data: bytes) -> str:
    if len(data) > SHOWN:
        digest = hashlib.sha256(data).hexdigest()[:16]
        return f"{shown(data[:200])}\n<{len(data)} bytes, sha256 {digest}>"
    return data.decode("latin-1").encode("unicode_escape").decode().replace("\\r\\n", "\n").replace("\\n", "\n")


def talk_text(number: int, talk: Talk, side: Side) -> str:
    """One connection: every answer, then how the connection was left."""
    out = [f"=== {number}: {talk.exchange.title}"]
    for message in talk.messages:
        out += [line.decode("latin-1") for line in head_lines(message, side)]
        if message.framing != "none":
            out.append(f"[body: {framing(message)}]")
        if message.body:
            out.append(shown(body(message, side)))
    if talk.buffer:
        out.append(f"[more: {shown(bytes(talk.buffer))}]")
    if not talk.messages:
        out.append("[no answer]")
    out.append("[late]" if talk.late else "[closed]" if talk.ended else "[open]")
    return "\n".join(out) + "\n"


def log_text(name: str, side: Side) -> str:
    """A log file, with times taken out."""
    path = side.prefix / "logs" / name
    data = path.read_bytes() if path.exists() else b"<no such file>\n"
    data = FRACTION.sub(b"<seconds>", CLOCK.sub(b"<time>", neutral(data, side)))
    return f"=== log {name}\n{shown(data)}"
