"""Conditions as `if` has them: a variable, a comparison, a pattern, a file test (ngx_http_rewrite_if_condition)."""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway import log
from gateway.config.args import encode
from gateway.config.schema import ConfigError, Statement, Text
from gateway.http.message import HttpError, Request
from gateway.http.report import report
from gateway.http.router import captured
from gateway.pattern import MatchError, Pattern, PatternError

if TYPE_CHECKING:
    from gateway.http.plan import Build

Test = Callable[[Request], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """`if`: `kind` is "" (a variable is true), "=", "~" or one of "f", "d", "e", "x"."""

    kind: str
    negative: bool = False
    variable: str = ""
    value: Text | None = None
    pattern: Pattern | None = None


def compiled(source: str, caseless: bool = False) -> Pattern:
    """Compile a pattern. Raises ConfigError with PCRE's reason."""
    try:
        return Pattern(encode(source), caseless)
    except PatternError as error:
        raise ConfigError(str(error)) from None


def parsed(statement: Statement) -> Condition:
    """`if (condition)`, in the words that nginx splits it into."""
    words, at, last = list(statement.args), 0, len(statement.args) - 1
    if not words[0].startswith("("):
        raise ConfigError(f'invalid condition "{words[0]}"')
    if words[0] == "(":
        at = 1
    else:
        words[0] = words[0][1:]
    if not words[last].endswith(")"):
        raise ConfigError(f'invalid condition "{words[last]}"')
    if words[last] == ")":
        last -= 1
    else:
        words[last] = words[last][:-1]
    first, words = words[at], words[at : last + 1]
    if len(first) > 1 and first[0] == "$":
        return _compared(words, statement)
    if first in _FILE_TESTS and len(words) == 2:
        return Condition(first[-1], first[0] == "!", value=Text(words[1], statement.place))
    raise ConfigError(f'invalid condition "{first}"')


_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_FILE_TESTS = frozenset(mark + "-" + kind for mark in ("", "!") for kind in "fdex")


def _compared(words: list[str], statement: Statement) -> Condition:
    """A variable alone, or compared with a text or a pattern."""
    variable = words[0][1:]
    if len(words) == 1:
        return Condition("", variable=variable)
    if len(words) != 3:
        raise ConfigError(f'invalid condition "{words[0]}"')
    operator, value = words[1:]
    negative = operator.startswith("!")
    if operator in ("=", "!="):
        return Condition("=", negative, variable, Text(value, statement.place))
    if operator in ("~", "~*", "!~", "!~*"):
        return Condition("~", negative, variable, pattern=compiled(value, operator.endswith("*")))
    raise ConfigError(f'unexpected "{operator}" in condition')


def searching(pattern: Pattern, logged: bool) -> Callable[[Request, bytes], bool]:
    """Search, and leave the captures with the request; without a match it has none."""
    find, name = pattern.search, _shown(pattern.source)

    def search(request: Request, subject: bytes) -> bool:
        try:
            groups = find(subject)
        except MatchError as error:
            report(request, log.ALERT, str(error))
            raise HttpError(500) from None
        if logged:
            verb = "does not match" if groups is None else "matches"
            report(request, log.NOTICE, f'"{name}" {verb} "{_shown(subject)}"')
        if groups is None:
            request.captures = ()
            return False
        captured(request, pattern, groups)
        return True

    return search


def testing(condition: Condition, build: "Build", *, logged: bool) -> Test:
    """Compile a condition, without its negation."""
    if condition.kind in _FILES:
        return _file_testing(condition, build)
    get = build.variable(condition.variable).get
    if condition.pattern is not None:
        search = searching(condition.pattern, logged)
        return lambda request: search(request, get(request) or b"")
    if condition.value is not None:
        value = build.text(condition.value)
        return lambda request: (get(request) or b"") == value(request)
    return lambda request: (get(request) or b"0") != b"0"


def _any_kind(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


_FILES: dict[str, Callable[[int], bool]] = {
    "f": stat.S_ISREG,
    "d": stat.S_ISDIR,
    "e": _any_kind,
    "x": lambda mode: bool(mode & stat.S_IXUSR),
}


def _file_testing(condition: Condition, build: "Build") -> Test:
    path, judge = build.text(condition.value or ""), _FILES[condition.kind]

    def test(request: Request) -> bool:
        name = path(request)
        try:
            return judge(os.stat(name).st_mode)
        except ValueError:  # a NUL
            return False
        except OSError as error:
            if error.errno not in _MISSING:
                report(request, log.ERROR, f'stat() "{_shown(name)}" failed ({error.errno}: {error.strerror})')
            return False

    return test


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
