"""What a check reads: files that may miss what they include, dumps of `nginx -T`, templates with values left open."""

import glob
import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from gateway.config.schema import Statement

_PART = re.compile(rb"^# configuration file (\S.*):\r?$", re.MULTILINE)
_BRACED = re.compile(rb"\{\{-?[ \t]*\.?([A-Za-z_][\w.]*)[ \t]*-?\}\}")
_ALONE = re.compile(
    rb"^[ \t]*(?:__[A-Za-z0-9_]+?__|%[A-Za-z_]+%|\$\{[A-Z][A-Z0-9_]*\}|\$[A-Z][A-Z0-9_]+)[ \t]*(?:#.*)?\r?$",
    re.MULTILINE,
)
_OPEN = re.compile(
    r"__[A-Za-z0-9](?:\w*?[A-Za-z0-9])?__|%[A-Za-z_]+%|\$\{[A-Z][A-Z0-9_]*\}|\$[A-Z][A-Z0-9_]+|@[A-Z][A-Z0-9_]+@"
    r"|<[A-Za-z][\w -]*>"
)
_COMMENT = re.compile(rb"(?:^|(?<=[\s;{}]))#[^\n]*", re.MULTILINE)
MISSING = "missing-include"  # the statement that stands for a file that is not there
_LARGEST = 16 << 20  # bytes of one file: a check reads what people send


class Lying:
    """Files as they lie around: what is not there is passed over, and kept in `missing`.

    A name relative to the configuration's folder is looked for in the folder above too: snippets lie one folder below
    the one that nginx starts from.
    """

    def __init__(self, folder: str, given: dict[str, bytes] | None = None) -> None:
        self.folder = folder
        self.given = given or {}
        self.missing: list[str] = []
        self.unmatched = False  # a name with wildcards stood for nothing

    def names(self, pattern: str) -> list[str]:
        """See `gateway.config.source.Files`."""
        found = sorted(name for one in self._spellings(pattern) for name in glob.glob(one) if os.path.isfile(name))
        self.unmatched = self.unmatched or not found
        return found

    def data(self, name: str) -> bytes:
        """See `gateway.config.source.Files`."""
        if name in self.given:
            return settled(self.given[name])
        for one in self._spellings(name):
            if os.path.isfile(one) and os.path.getsize(one) <= _LARGEST:
                try:
                    with open(one, "rb") as file:
                        return settled(file.read())
                except PermissionError:
                    continue
        if name not in self.missing:
            self.missing.append(name)
        return f"{MISSING};".encode()

    def _spellings(self, name: str) -> tuple[str, ...]:
        if not name.startswith(self.folder):
            return (name,)
        above = os.path.dirname(os.path.dirname(self.folder))
        return name, os.path.join(above, name[len(self.folder) :])


# what nginx prints before a dump: its verdict, and lines of its log
_SPOKEN = re.compile(rb"nginx: |\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[")


class Dumped(Lying):
    """The files in a dump: nothing else is read."""

    def names(self, pattern: str) -> list[str]:
        """See `gateway.config.source.Files`."""
        depth = pattern.count("/")
        found = sorted(name for name in self.given if name.count("/") == depth and fnmatchcase(name, pattern))
        self.unmatched = self.unmatched or not found
        return found

    def _spellings(self, name: str) -> tuple[str, ...]:
        return ()


def parts(data: bytes) -> dict[str, bytes]:
    """The files of a dump of `nginx -T`, in order; nothing if it is none. Before the first, nginx itself may speak."""
    marks = list(_PART.finditer(data))
    spoken = data[: marks[0].start()].split(b"\n") if marks else []
    if not marks or not all(_SPOKEN.match(line) for line in spoken if line.strip()):
        return {}
    ends = [mark.start() for mark in marks[1:]] + [len(data)]
    found = {}
    for mark, end in zip(marks, ends, strict=True):
        found[os.fsdecode(mark[1])] = data[mark.end() : end].removeprefix(b"\n")
    return found


def settled(data: bytes) -> bytes:
    """A template's text with `{{NAME}}` spelt `__NAME__`, and without what stands for whole statements."""
    if b"{{" in data:
        data = _BRACED.sub(lambda match: b"__" + match[1].replace(b".", b"_") + b"__", data)
    pieces, at = [], 0
    for match in _ALONE.finditer(data):
        before = _COMMENT.sub(b"", data[max(0, match.start() - 4096) : match.start()]).rstrip()
        if before[-1:] in (b"", b";", b"{", b"}"):
            pieces.append(data[at : match.start()])
            at = match.end()
    return b"".join([*pieces, data[at:]])


def left_open(statement: Statement) -> list[str]:
    """The placeholders among a statement's words."""
    return [found for word in (statement.name, *statement.args) for found in _OPEN.findall(word)]


def placeholders(statements: Iterable[Statement]) -> list[str]:
    """All placeholders, each once."""
    found: list[str] = []
    for statement in statements:
        # "$UPPER" may be a variable like any other, and "<" part of a regular expression: told if they do not load
        found += [one for one in left_open(statement) if one[0] in "_%@"]
        found += placeholders(statement.block or ())
    return list(dict.fromkeys(found))
