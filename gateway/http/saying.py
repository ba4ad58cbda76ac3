"""The words of echo commands: options, and the strings that they give out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.config.schema import Arg, Statement, Text
from gateway.http.message import Request


class Compiling(Protocol):
    """What is needed of the level being compiled."""

    def text(self, text: Text | str) -> Callable[[Request], bytes]:
        """Compile a value with variables."""


@dataclass(frozen=True, slots=True)
class Words:
    """The arguments of one command: leading options, without their dash, and the rest."""

    options: tuple[str, ...]
    texts: tuple[Text, ...]


def _words(statement: Statement) -> Words:
    """What begins with a dash up to the first word that does not, or up to `--`, is an option."""
    options, rest = [], list(statement.args)
    while rest and len(rest[0]) > 1 and rest[0].startswith("-") and "$" not in rest[0]:
        word = rest.pop(0)
        if word.startswith("--"):
            break
        options.append(word[1:])
    return Words(tuple(options), tuple(Text(word, statement.place) for word in rest))


def words(syntax: str, least: int, most: int | None) -> Arg[Words]:
    """The grammar of a command."""
    return Arg(syntax, least, most, _words)


def compiled(words: Words, build: Compiling) -> list[Callable[[Request], bytes]]:
    """The arguments, as they are for a request."""
    return [build.text(text) for text in words.texts]


def joined(words: Words, build: Compiling) -> Callable[[Request], bytes]:
    """What `echo` gives out."""
    texts, end = compiled(words, build), b"" if words.options[:1] == ("n",) else b"\n"
    return lambda request: b" ".join([text(request) for text in texts]) + end
