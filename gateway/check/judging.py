"""Judge one configuration as loading it would, without what loading needs: names of hosts and users, included files.

The configuration is bound and compiled by the very code that serves it. After a mistake the statement that made it is
taken out and the rest judged again, so that all mistakes are told, not only the first.
"""

import grp
import hashlib
import os
import pwd
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway import build, log, modules
from gateway.check import names, reading, traps, wrapping
from gateway.check.verdict import Finding, Verdict, gathered
from gateway.config import bind, source
from gateway.config.schema import ConfigError, Level, Paths, Place, Statement
from gateway.process import settings

_MOST = 60  # problems told of one file

# Mistakes of the machine that the configuration is judged on, not of the configuration.
_MACHINE = re.compile(
    r'getpwnam\(|getgrnam\(|host not found|cannot load certificate|no "ssl_certificate(?:_key)?" is defined'
    r"|\((?:2|13|20|21): |BIO_new_file|PEM_read|mkdir\(\)"
)
# Names that another file of the same configuration may define.
_ELSEWHERE = re.compile(
    r'^unknown "[^"]*" variable|unknown log format|unknown zone|zone "[^"]*" is unknown|zero size shared memory zone'
    r"|^unknown limit_|has no servers|no servers are inside"
)
# What a block lacks once a mistake was taken out of it.
_LEFT_EMPTY = re.compile(r"no servers are inside|no handler for")
_QUOTED = re.compile(r'"([^"]*)"')
_LINE = re.compile(r"^(?P<message>.*) in (?P<file>.+):(?P<line>\d+)$", re.DOTALL)


class _Heard(log.ErrorLog):
    """A log that keeps the warnings of a configuration."""

    __slots__ = ("said",)

    def __init__(self) -> None:
        super().__init__(())
        self.said: list[str] = []

    def write(self, level: int, message: str, number: int = 0, *, lines: bool = False) -> None:
        """See `ErrorLog`."""
        if level <= log.WARN:
            self.said.append(message)


def _addresses(host: Any, port: Any, *_: Any, type: int = 0, **__: Any) -> list[Any]:
    """Any host is found, at an address of the network that RFC 2544 sets aside for tests."""
    text = host.decode("latin-1") if isinstance(host, bytes) else str(host)
    high, low = hashlib.blake2s(text.encode("utf-8", "replace"), digest_size=2).digest()
    address = "127.0.0.1" if text == "localhost" else f"198.18.{high}.{low}"
    return [(socket.AF_INET, type, 0, "", (address, int(port or 0)))]


@contextmanager
def offline(heard: _Heard) -> Iterator[None]:
    """While it lasts, every host and user is there, the network is not touched, and warnings go to `heard`."""
    before = socket.getaddrinfo, pwd.getpwnam, grp.getgrnam, log.main
    swapped: list[tuple[Any, str, Any]] = [
        (socket, "getaddrinfo", _addresses),
        (pwd, "getpwnam", lambda name: pwd.struct_passwd((name, "x", 0, 0, "", "/", "/bin/sh"))),
        (grp, "getgrnam", lambda name: grp.struct_group((name, "x", 0, []))),
        (log, "main", heard),
    ]
    for module, name, value in swapped:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(swapped, before, strict=True):
            setattr(module, name, value)


def judge(file: str, data: bytes, files: reading.Lying | None = None) -> Verdict:
    """The verdict on a file with this content: a configuration, a dump of one, or a part of one."""
    dump = reading.parts(data)
    if dump:
        main = next(iter(dump))
        files = reading.Dumped(os.path.join(os.path.dirname(main), ""), dump)
    else:
        main = file
        files = files or reading.Lying(os.path.join(os.path.dirname(os.path.abspath(file)), ""))
        files.given[file] = data
    case = _Case(Verdict(file), Paths(files.folder, files.folder), files)
    heard = _Heard()
    with offline(heard):
        case.read(main)
        if dump:
            case.verdict.shape = f"dump of {len(dump)} files"
        root = case.peeled(heard)
    case.conclude(root, heard)
    return case.verdict


@dataclass(slots=True)
class _Case:
    """A file being judged."""

    verdict: Verdict
    paths: Paths
    files: reading.Lying
    whole: tuple[Statement, ...] = ()
    statements: tuple[Statement, ...] = ()  # the same, less what was found wrong
    headless: bool = False  # a file that is not here may hold main-level blocks
    partial: bool = False  # what it names may be defined in a file that is not here
    texts: dict[str, bytes] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)  # placeholders because of which something was not judged
    thinned: set[Place] = field(default_factory=set)  # blocks out of which something was taken

    def read(self, main: str) -> None:
        """Read the file, tell its mistake of syntax if it has one, and put the blocks around it that it lacks."""
        text = source.read(main, self.paths, "", self.files)
        self.texts = dict(text.files)
        statements, mistakes = _parted(text.statements)
        statements = _unrun(statements)
        self.headless = any(one.name == reading.MISSING for one in text.statements)
        for one in mistakes:
            self.problem(ConfigError(one.args[0], one.place), None, "syntax")
        place = Place(main, 1)
        context = wrapping.level(statements)
        self.verdict.shape = wrapping.shape(context)
        self.partial = context is not None or bool(self.files.missing) or self.files.unmatched
        if context is not None and wrapping.of_stream(statements):
            self.verdict.shape = "stream-level snippet"
            statements = wrapping.streaming(statements, place, self.paths)
        elif context is not None and wrapping.is_table(statements):
            self.verdict.shape = "lines of a table"
            statements = ()
        elif context is not None:
            statements = wrapping.wrapped(statements, context, place, self.paths)
        self.whole = self.statements = statements

    def peeled(self, heard: _Heard) -> Level | None:
        """Bind and compile, without what turns out to be wrong; None if too much is."""
        for _ in range(_MOST):
            heard.said.clear()
            try:
                used = modules.load(modules.needed(self.statements))
                root = bind.bind(self.statements, [*settings.TABLES, *build.tables(used)])
                build.Compiler(root, self.paths, used).site()
                if not self.headless and any(one.name == "http" for one in self.statements):
                    settings.read(root)
            except ConfigError as error:
                culprit = _culprit(self.statements, error)
                self.tell(error, culprit)
                if culprit is None:
                    return None
                self.statements = self.without(self.statements, culprit)
            else:
                return root
        return None

    def tell(self, error: ConfigError, culprit: Statement | None) -> None:
        """A mistake as a problem or, where it is none of the configuration's own, as a note or not at all."""
        if culprit is not None and reading.left_open(culprit):
            self.open += reading.left_open(culprit)
        elif _MACHINE.search(error.message) or (_LEFT_EMPTY.search(error.message) and error.place in self.thinned):
            return
        elif self.partial and _ELSEWHERE.search(error.message):
            message = f"{error.message}: it has to be defined in a file that is not here"
            self.note("elsewhere", message, error.place or (culprit.place if culprit else None))
        else:
            self.problem(error, culprit, _kind(error.message))

    def without(self, statements: tuple[Statement, ...], culprit: Statement) -> tuple[Statement, ...]:
        """The statements less one, at any depth; what does not hold it stays the same object."""
        if any(one is culprit for one in statements):
            return tuple(one for one in statements if one is not culprit)
        for at, one in enumerate(statements):
            block = self.without(one.block, culprit) if one.block else one.block
            if block is not one.block:
                self.thinned.add(one.place)
                thinner = Statement(one.name, one.args, block, one.place, one.paths)
                return (*statements[:at], thinner, *statements[at + 1 :])
        return statements

    def note(self, kind: str, message: str, place: Place | None = None) -> None:
        self.verdict.notes.append(Finding(kind, message, place))

    def problem(self, error: ConfigError, culprit: Statement | None, kind: str) -> None:
        place = error.place or (culprit.place if culprit is not None else None)
        self.verdict.problems.append(Finding(kind, error.message, place, self.hint(error.message, culprit)))

    def hint(self, message: str, culprit: Statement | None) -> str:
        """A remedy for a mistake."""
        name = culprit.name if culprit is not None else ""
        if message.startswith("unknown directive"):
            return names.unknown(name)
        if message.endswith("directive is not allowed here"):
            return names.misplaced(name)
        if message == 'unexpected "}"':
            return 'perhaps a ";" is missing before it'
        if culprit is not None and (word := traps.swallowed(culprit, self.texts)):
            return f'perhaps a ";" is missing before "{word}"'
        return ""

    def conclude(self, root: Level | None, heard: _Heard) -> None:
        """Add what is to be noted of a configuration, whether it loads or not."""
        for name in self.files.missing:
            self.note("missing", f'the included file "{name}" is not here and was passed over')
        if found := list(dict.fromkeys([*reading.placeholders(self.whole), *self.open])):
            listed = ", ".join(found[:8]) + (" …" if len(found) > 8 else "")
            self.note("placeholder", f"values are left open: {listed}")
        for message in heard.said:
            match = _LINE.match(message)
            place = Place(match["file"], int(match["line"])) if match else None
            if "block is ignored" not in message:  # said below, as without effect
                self.note("warning", match["message"] if match else message, place)
        if root is not None:
            for row, place in bind.idle(root):
                self.note("idle", f'"{row.name}" has no effect here: {row.idle}', place)
        for trap, at in traps.found(self.whole, self.texts):
            self.note("trap", trap, at)
        self.verdict.notes = gathered(self.verdict.notes)
        self.verdict.problems = gathered(self.verdict.problems)


def _kind(message: str) -> str:
    if message.startswith("unknown directive"):
        return "unknown"
    return "unsupported" if "not supported yet" in message else "invalid"


def _parted(statements: Iterable[Statement]) -> tuple[tuple[Statement, ...], list[Statement]]:
    """The statements without the mistake of syntax among them, and that mistake."""
    kept: list[Statement] = []
    mistakes: list[Statement] = []
    for one in statements:
        if isinstance(one, source.Broken):
            mistakes.append(one)
        elif one.name == reading.MISSING:
            continue
        elif one.block is None:
            kept.append(one)
        else:
            block, inner = _parted(one.block)
            mistakes += inner
            kept.append(Statement(one.name, one.args, block, one.place, one.paths))
    return tuple(kept), mistakes


def _unrun(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Without the Lua that would run already on loading: a check runs nobody's code."""
    kept = []
    for one in statements:
        if not one.name.startswith("init_by_lua"):
            block = one.block if one.block is None else _unrun(one.block)
            kept.append(one if block == one.block else Statement(one.name, one.args, block, one.place, one.paths))
    return tuple(kept)


def _culprit(statements: Sequence[Statement], error: ConfigError) -> Statement | None:
    """The innermost statement that an error is about: by its place and the names that the message quotes."""
    quoted = _QUOTED.findall(error.message)
    best: tuple[int, Statement] | None = None
    for one in _all(statements):
        if error.place is not None:
            if one.place != error.place:
                continue
            score = 4 * (one.place is error.place) + 2 * (one.name in quoted) + any(w in quoted for w in one.args)
        else:
            score = 2 * (one.name in quoted) + any(q in w for w in one.args for q in quoted if q)
            if not score:
                continue
        if best is None or score > best[0]:
            best = score, one
    return best[1] if best else None


def _all(statements: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement, inner ones first."""
    for one in statements:
        yield from _all(one.block or ())
        yield one


