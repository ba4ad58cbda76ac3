"""`rewrite`, `return`, `set`, `if` and `break`: one program per level, in the order written (ngx_http_rewrite_module).

A program is compiled at load to a flat tuple of steps. A step takes the request and says what follows: nothing (the
next step), one of the three signals below, or a finished Response. An `if` holds the steps of its block, and the plan
that the request moves to when its condition holds; the steps after it run all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway import log
from gateway.config.args import flag, nothing
from gateway.config.schema import (
    ANYWHERE,
    Arg,
    ConfigError,
    In,
    Item,
    Level,
    Merge,
    Statement,
    Text,
    block,
    directive,
    many,
)
from gateway.http.condition import Condition, compiled, parsed, searching, testing
from gateway.http.declared import declare, declare_names, kept, variable_name
from gateway.http.message import Handler, HttpError, Outcome, Redirect, Request, Response
from gateway.http.mime import extension
from gateway.http.report import report
from gateway.http.substitution import Substitution
from gateway.module import Build, Module, Phase, Variable
from gateway.pattern import Pattern

BLOCKS = In.SERVER | In.LOCATION | In.IF_SERVER | In.IF_LOCATION
ABSOLUTE = ("http://", "https://", "$scheme")
REDIRECTS = (301, 302, 303, 307, 308)

CHANGED = "changed"  # the URI was changed: find a location after the program's end
LAST = "last"  # … and the program ends here
BREAK = "break"  # the program ends and the request stays in its location
REWRITTEN = Redirect(rewritten=True)

Step = Callable[[Request], "str | Response | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """`rewrite`: `kind` is "", "last", "break", "redirect" or "permanent"."""

    pattern: Pattern
    replacement: Text
    kind: str


@dataclass(frozen=True, slots=True)
class Answer:
    """`return`."""

    status: int
    text: Text | None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`set`."""

    name: str
    value: Text


def rewrite_argument(statement: Statement) -> Rule:
    """`rewrite regex replacement [flag]`."""
    pattern = compiled(statement.args[0])
    replacement = statement.args[1]
    if not replacement:
        raise ConfigError("empty replacement")
    kind = "redirect" if replacement.startswith(ABSOLUTE) else ""
    if len(statement.args) == 3:
        word = statement.args[2]
        if word not in ("last", "break", "redirect", "permanent"):
            raise ConfigError(f'invalid parameter "{word}"')
        kind = word if word in ("redirect", "permanent") or not kind else kind
    return Rule(pattern, Text(replacement, statement.place), kind)


def return_argument(statement: Statement) -> Answer:
    """`return code [text]`, `return code URL` or `return URL`."""
    word, *rest = statement.args
    if not (word.isascii() and word.isdigit()):
        if rest or not word.startswith(ABSOLUTE):
            raise ConfigError(f'invalid return code "{word}"')
        return Answer(302, Text(word, statement.place))
    if int(word) > 999:
        raise ConfigError(f'invalid return code "{word}"')
    return Answer(int(word), Text(rest[0], statement.place) if rest else None)


def set_argument(statement: Statement) -> Assignment:
    """`set $name value`."""
    name, value = statement.args
    return Assignment(variable_name(name), Text(value, statement.place))


def _if_context(outer: In) -> In:
    """The level that an `if` opens. Raises ConfigError inside another `if`."""
    if outer is In.SERVER:
        return In.IF_SERVER
    if outer is In.LOCATION:
        return In.IF_LOCATION
    raise ConfigError('"if" directive is not allowed here')


@block
class Rewrite:
    """The program of a level and how it is logged."""

    program: tuple[Item[Any], ...] = many(
        BLOCKS,
        {
            "rewrite": Arg("regex replacement [last | break | redirect | permanent]", 2, 3, rewrite_argument),
            "return": Arg("code [text] | code URL | URL", 1, 2, return_argument),
            "set": Arg("$variable value", 2, 2, set_argument),
            "if": Arg("(condition)", 1, None, parsed),
            "break": nothing(),
        },
        {
            "rewrite": "Change the URI if it matches; a replacement with a scheme redirects the client.",
            "return": "End with a status, a text or a redirect.",
            "set": "Set a variable.",
            "if": "What holds if a condition does; not inside another `if`.",
            "break": "End the program here.",
        },
        merge=Merge.OWN,
        opens={"if": _if_context},
    )
    rewrite_log: bool = directive(ANYWHERE | BLOCKS, flag(), False, "Log what `rewrite` does, at level notice.")
    uninitialized_variable_warn: bool = directive(
        ANYWHERE | BLOCKS, flag(), True, "Warn when a variable is read before it is set."
    )


def defining(conf: Rewrite, build: Build) -> None:
    """Declare what `set` and named captures of this level bring."""
    quiet: set[str] = build.shared.setdefault("rewrite.quiet", set())
    for item in conf.program:
        value = item.value.head if isinstance(item.value, Level) else item.value
        if isinstance(value, Assignment):
            if not conf.uninitialized_variable_warn:
                quiet.add(value.name)
            declare(build, value.name, _user_variable(value.name, quiet), item.place)
        elif isinstance(value, Rule | Condition) and value.pattern is not None:
            declare_names(build, value.pattern, item.place)


def _user_variable(name: str, quiet: set[str]) -> Variable:
    """A variable of `set`: empty, with a warning, until it is set."""

    def get(request: Request) -> bytes | None:
        values = request.values
        if values is None or name not in values:
            if name not in quiet:
                report(request, log.WARN, f'using uninitialized "{name}" variable')
            return b""
        return values[name]

    return Variable(get, kept(name).set)


def programming(conf: Rewrite, build: Build) -> Handler | None:
    """Compile a level's program."""
    steps = _steps(conf.program, conf, build)
    if not steps:
        return None
    if len(steps) == 1 and isinstance(conf.program[0].value, Answer):
        return steps[0]  # type: ignore[return-value]  # it gives no signals

    def rewrite(request: Request) -> Outcome:
        result = _run(steps, request)
        if result is None or result is BREAK:
            return None
        if result is CHANGED or result is LAST:
            return REWRITTEN
        return result  # type: ignore[return-value]

    return rewrite


def _run(steps: tuple[Step, ...], request: Request) -> str | Response | None:
    """Run steps to their end, or to the first that ends the program."""
    changed = None
    for step in steps:
        result = step(request)
        if result is not None:
            if result is not CHANGED:
                if result is BREAK and changed is not None:
                    request.valid_location = False
                return result
            changed = CHANGED
    return changed


def _steps(program: tuple[Item[Any], ...], conf: Rewrite, build: Build) -> tuple[Step, ...]:
    return tuple(_step(item.value, conf, build) for item in program)


def _step(value: Any, conf: Rewrite, build: Build) -> Step:
    if isinstance(value, Rule):
        return _rewriting(value, conf, build)
    if isinstance(value, Answer):
        return _returning(value, build)
    if isinstance(value, Assignment):
        return _setting(value, build)
    if isinstance(value, Level):
        return _branching(value, conf, build)
    return lambda request: BREAK


def _setting(assignment: Assignment, build: Build) -> Step:
    store, text = build.variable(assignment.name, assignment.value.place).set, build.text(assignment.value)
    if store is None:
        raise ConfigError(f'the duplicate "{assignment.name}" variable', assignment.value.place)

    def set_step(request: Request) -> None:
        store(request, text(request))

    return set_step


def _returning(answer: Answer, build: Build) -> Step:
    status = answer.status
    if status >= 400 and (answer.text is None or not answer.text.raw):

        def refuse(_request: Request) -> Response:
            raise HttpError(status)

        return refuse
    raw = answer.text.raw if answer.text is not None else ""
    text, with_status = build.text(answer.text or ""), "{status}" in raw or "$status" in raw

    def redirect(request: Request) -> Response:
        if with_status:
            request.response = Response(status)
        raise HttpError(status, location=text(request))

    def respond(request: Request) -> Response:
        settings = request.location.settings  # those of an `if` that held before
        kind = settings.types.get(extension(request.uri), settings.default_type)
        request.response = response = Response(status)
        response.body, response.content_type = text(request), kind.encode()
        return response

    return redirect if status in REDIRECTS else respond


def _rewriting(rule: Rule, conf: Rewrite, build: Build) -> Step:
    search = searching(rule.pattern, conf.rewrite_log)
    substitution = Substitution(rule.replacement, rule.kind in ("redirect", "permanent"), build.variable)
    after = {"": CHANGED, "last": LAST, "break": BREAK}.get(rule.kind)
    status = 301 if rule.kind == "permanent" else 302
    logged = conf.rewrite_log

    def redirect(request: Request) -> None:
        if search(request, request.uri):
            request.internal = True
            target = substitution.location(request)
            if logged:
                report(request, log.NOTICE, f'rewritten redirect: "{_shown(target)}"')
            raise HttpError(status, location=target)

    def rewrite(request: Request) -> str | None:
        if not search(request, request.uri):
            return None
        request.internal = True
        request.unparsed = False
        if after is BREAK:
            request.valid_location = False
        uri, request.args = substitution.target(request)
        if logged:
            report(request, log.NOTICE, f'rewritten data: "{_shown(uri)}", args: "{_shown(request.args)}"')
        if not uri:
            report(request, log.ERROR, "the rewritten URI has a zero length")
            raise HttpError(500)
        request.uri = uri
        request.unparsed = False
        if after is BREAK:
            request.valid_location = False
        return after

    return redirect if after is None else rewrite


def _branching(level: Level, conf: Rewrite, build: Build) -> Step:
    judged: Condition = level.head
    holds, wanted = testing(judged, build, logged=conf.rewrite_log), not judged.negative
    steps = _steps(tuple(level.values.get((Rewrite, "program"), ())), conf, build)
    plan = build.inner(level) if level.context is In.IF_LOCATION else None

    def branch(request: Request) -> str | Response | None:
        if holds(request) is not wanted:
            return None
        if plan is not None:
            request.location = plan
        return _run(steps, request)

    return branch


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


module = Module(name="rewrite", conf=Rewrite, define=defining, handlers={Phase.REWRITE: programming})
