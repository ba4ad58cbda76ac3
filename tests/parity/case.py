r"""Reads a case file: a configuration, the files it serves, and raw requests.

A file is a list of sections. What stands before the first one says what the case is about.

    --- main                  main-level directives
    --- modules NAME...       dynamic modules that nginx loads for this case; tengine has them built in
    --- http                  http-level directives, whole server blocks among them
    --- server                the inside of a server block; `listen` is added unless it is there
    --- file NAME             a file under the document root; --- dir NAME, --- link NAME TARGET likewise
    --- origin TARGET [close|drop|hang]
                              what the origin answers to this request target; any other target is answered with the
                              request itself as text. Afterwards: keep the connection (default), close it, send
                              nothing and close it (drop), or send nothing at all (hang).
    --- request [expect=N]    bytes of one connection: every line ends with CRLF, a missing empty line after the head
                              is added. N answers are awaited (default: one for each request line in it).
                              `tls` or `tls=NAME` behind it: over TLS (with this server name), whoever answers.
    --- get TARGET            the same for `GET TARGET HTTP/1.1`, `Host: localhost` and the header lines below it
    --- head TARGET           likewise with HEAD
    --- raw                   bytes of one connection with nothing added, not even after an unfinished head
    --- differs REASON        below a request: the right answer, as printed, where Debian's nginx gives another one
    --- log NAME              a log file under logs/ to compare at the end
    --- fails                 the configuration must be refused: exit code and messages of `-t` are compared

In requests and origin answers a line `~~~` waits for an answer before the rest is sent, `~~~ 0.05` only for so many
seconds. Escapes in files, requests and answers: \r \n \t \0 \xHH \\, \{TEXT*COUNT} repeats, and \ at the end of a line
leaves out the line's end. Empty lines at the end of a file do not count: write \r\n where the last one matters.
Placeholders everywhere: %PORT% %PORT2% (of this server) %ROOT% (document root) %PREFIX% (of this server) %ORIGIN%
(host:port of the origin) %DEAD% (host:port nobody listens at).
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

CONF, TREE, SENT = ("main", "http", "server"), ("file", "dir", "link"), ("request", "raw", "get", "head")
KINDS = {*CONF, *TREE, *SENT, "origin", "differs", "log", "fails", "modules"}
ESCAPE = re.compile(rb"\\(?:\{(.+?)\*(\d+)\}|x([0-9a-fA-F]{2})|([rnt0\\]))", re.DOTALL)
SIMPLE = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}
FIRST_LINE = re.compile(rb"[A-Z]+ \S+ HTTP/1")
PAUSE = re.compile(r"~~~(?: ([\d.]+))?$")


class CaseError(ValueError):
    """A case file is not written as it should be."""


@dataclass(slots=True)
class Part:
    """Bytes to send, then a wait: for an answer (None) or for some seconds."""

    data: bytes
    seconds: float | None = None


@dataclass(slots=True)
class Exchange:
    """What happens on one connection."""

    title: str
    parts: list[Part]
    expect: int = 0
    mainline: str | None = None
    tls: str | None = None  # the server name to send, "" for none; None: no TLS


@dataclass(slots=True)
class Answer:
    """What the origin does when asked for a target."""

    parts: list[Part]
    then: str


@dataclass(slots=True)
class Case:
    path: Path
    about: str = ""
    main: str = ""
    modules: list[str] = field(default_factory=list)
    http: str = ""
    servers: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    dirs: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    fails: bool = False


def unescape(data: bytes) -> bytes:
    def replaced(match: re.Match[bytes]) -> bytes:
        text, count, code, letter = match.groups()
        if text is not None:
            return unescape(text) * int(count)
        return bytes.fromhex(code.decode()) if code is not None else SIMPLE[letter]

    return ESCAPE.sub(replaced, data)


def joined(lines: list[str], end: str) -> bytes:
    """The lines with their ends, but for those that close with an odd number of backslashes."""
    out = []
    for line in lines:
        backslashes = len(line) - len(line.rstrip("\\"))
        out.append(line[:-1] if backslashes % 2 else line + end)
    return unescape("".join(out).encode())


def parts(lines: list[str]) -> list[Part]:
    found: list[Part] = []
    rest: list[str] = []
    for line in lines:
        if pause := PAUSE.match(line):
            found.append(Part(joined(rest, "\r\n"), float(pause[1]) if pause[1] else None))
            rest = []
        else:
            rest.append(line)
    found.append(Part(joined(rest, "\r\n")))
    return found


def finish_head(sent: list[Part]) -> list[Part]:
    last = sent[-1]
    *heads, tail = re.split(rb"\n\r?\n", last.data)
    if FIRST_LINE.match(tail) or (last.data and len(sent) == 1 and not heads):
        last.data += b"\r\n"
    return sent


def strip_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def add_request(case: Case, kind: str, words: list[str], lines: list[str]) -> None:
    expect, tls = 0, None
    if words and words[-1].partition("=")[0] == "tls":
        tls = words.pop().partition("=")[2]
    if words and words[-1].startswith("expect="):
        expect = int(words.pop()[len("expect=") :])
    if kind in ("get", "head"):
        if len(words) != 1:
            raise CaseError(f"{case.path}: --- {kind} takes a target")
        first = f"{kind.upper()} {words[0]} HTTP/1.1"
        lines = [first, "Host: localhost", *strip_end(lines), ""]
    title = next((line for line in lines if line), "").strip()[:100]
    sent = parts(lines)
    case.exchanges.append(Exchange(title, sent if kind == "raw" else finish_head(sent), expect, tls=tls))


def add_tree(case: Case, kind: str, words: list[str], lines: list[str]) -> None:
    if kind == "dir":
        case.dirs.append(words[0])
    elif kind == "link":
        case.links[words[0]] = words[1]
    else:
        case.files[words[0]] = joined(strip_end(lines), "\n")


def add_conf(case: Case, kind: str, lines: list[str]) -> None:
    text = "\n".join(strip_end(lines)) + "\n"
    if kind == "server":
        case.servers.append(text)
    else:
        setattr(case, kind, text)


def add(case: Case, kind: str, words: list[str], lines: list[str]) -> None:
    if kind in CONF:
        add_conf(case, kind, lines)
    elif kind in TREE:
        add_tree(case, kind, words, lines)
    elif kind in SENT:
        add_request(case, kind, words, lines)
    elif kind == "origin":
        case.answers[words[0]] = Answer(parts(lines), words[1] if len(words) > 1 else "keep")
    elif kind == "differs":
        case.exchanges[-1].mainline = "\n".join(strip_end(lines)) + "\n"
    elif kind == "modules":
        case.modules += words
    elif kind == "log":
        case.logs.append(words[0])
    else:
        case.fails = True


def read(path: Path) -> Case:
    """Read a case file; raises CaseError if a section is unknown or the case asks for nothing."""
    case = Case(path)
    kind, words, lines = "", [""], []
    for line in [*path.read_text().splitlines(), "--- end"]:
        if not line.startswith("--- "):
            lines.append(line)
            continue
        if kind:
            add(case, kind, words, lines)
        else:
            case.about = "\n".join(lines).strip()
        kind, *words = line[4:].split()
        lines = []
        if kind not in KINDS and line != "--- end":
            raise CaseError(f"{path}: unknown section {line!r}")
    if not case.exchanges and not case.fails:
        raise CaseError(f"{path}: no request")
    return case
