"""Ask another location whether a request may pass (ngx_http_auth_request_module).

Source: https://nginx.org/en/docs/http/ngx_http_auth_request_module.html.
"""

from dataclasses import dataclass

from gateway import log
from gateway.config.args import encode, string
from gateway.config.schema import ANYWHERE, Arg, Statement, Text, block, directive, many
from gateway.http.access import Admitted
from gateway.http.declared import declare, kept, variable_name
from gateway.http.message import Fields, Handler, HttpError, Outcome, Request
from gateway.http.report import report
from gateway.http.subrequest import answered, made
from gateway.module import Build, Module, Phase


@dataclass(frozen=True, slots=True)
class Taken:
    """One `auth_request_set`."""

    name: str
    value: Text


def _taken(statement: Statement) -> Taken:
    name, value = statement.args
    return Taken(variable_name(name), Text(value, statement.place))


@block
class AuthRequest:
    """Whom to ask, and what to take from the answer."""

    auth_request: str = directive(
        ANYWHERE, string("uri | off"), "off", "Let a subrequest decide: 2xx admits, 401 and 403 are passed on."
    )
    auth_request_set: tuple[Taken, ...] = many(
        ANYWHERE, Arg("$variable value", 2, 2, _taken), "Set a variable from the subrequest's answer."
    )


def defining(conf: AuthRequest, build: Build) -> None:
    """Declare the variables."""
    for taken in conf.auth_request_set:
        declare(build, taken.name, kept(taken.name), taken.value.place)


def asking(conf: AuthRequest, build: Build) -> Handler | None:
    """Run the subrequest for its head, and judge by its status."""
    uri, any_admits = encode(conf.auth_request), build.settings.satisfy == "any"
    sets = [
        (build.variable(taken.name, taken.value.place).set, build.text(taken.value)) for taken in conf.auth_request_set
    ]
    if conf.auth_request == "off":
        return None

    async def auth_request(request: Request) -> Outcome:
        sub = made(request, uri, share_body=False, head_only=True)
        answer = await answered(sub)
        for store, text in sets:
            if store is not None:
                store(request, text(sub))
        status = answer.status
        if 200 <= status < 300:
            if any_admits:
                raise Admitted
            return None
        if status == 403:
            raise HttpError(403)
        if status == 401:
            raise HttpError(401, fields=_challenge(answer.fields) or _challenge_of_upstream(sub))
        report(request, log.ERROR, f"auth request unexpected status: {status}")
        raise HttpError(500)

    return auth_request


def _challenge(fields: Fields) -> Fields:
    return [item for item in fields if item[0].lower() == b"www-authenticate"]


def _challenge_of_upstream(sub: Request) -> Fields:
    """What an upstream server asked for, though it is not passed on."""
    last = sub.tries[-1] if sub.tries else None
    return _challenge(last.head.items()) if last is not None and last.head is not None else []


module = Module(name="auth_request", conf=AuthRequest, define=defining, handlers={Phase.ACCESS: asking})
