"""Tell modern browsers from ancient ones by their User-Agent ($modern_browser, $ancient_browser, $msie;
ngx_http_browser_module).

Source: https://nginx.org/en/docs/http/ngx_http_browser_module.html
"""

import re
from dataclasses import dataclass

from gateway.config.args import encode, string, strings
from gateway.config.schema import ANYWHERE, Arg, ConfigError, Statement, block, directive, many
from gateway.http.message import Request
from gateway.module import Build, Module, Variable

UNLISTED = "unlisted"
_IMPOSSIBLE = 4001000000  # a version that no browser has: Opera is judged first, for it calls itself what others do


@dataclass(frozen=True, slots=True)
class Kind:
    """How a browser shows itself: `mark` is looked for from byte `skip` on, its version begins `gap` bytes after."""

    skip: int
    mark: bytes
    gap: int = 0


# In the order in which they are tried.
KINDS = {
    "opera": Kind(0, b"Opera", 1),
    "msie": Kind(len("Mozilla/4.0 (compatible; "), b"MSIE "),
    "gecko": Kind(len("Mozilla/5.0 ("), b"rv:"),
    "safari": Kind(len("Mozilla/5.0 ("), b"Safari/"),
    "konqueror": Kind(len("Mozilla/5.0 (compatible; "), b"Konqueror/"),
}
_VERSION = re.compile(r"[0-9.]*")
_FOUND = re.compile(rb"[0-9.]*")
_NETSCAPE4 = re.compile(rb"Mozilla/[1-4].{5}", re.DOTALL)


def version_of(text: bytes) -> int:
    """Up to four numbers with dots between them, as one: each but the first below a hundred."""
    total, scale = 0, 1000000
    for part in text.split(b"."):
        total += int(part or 0) * scale
        scale //= 100
    return total


def _modern(statement: Statement) -> tuple[str, int]:
    if len(statement.args) == 1:
        if statement.args[0] == UNLISTED:
            return UNLISTED, 0
        raise ConfigError(f'"{statement.name}" needs a version after "{statement.args[0]}"', statement.place)
    name, text = statement.args
    if name not in KINDS:
        raise ConfigError(f'unknown browser name "{name}"', statement.place)
    if not _VERSION.fullmatch(text):
        raise ConfigError(f'invalid browser version "{text}"', statement.place)
    return name, version_of(encode(text))


@block
class Browser:
    """Modern and ancient browsers."""

    modern_browser: tuple[tuple[str, int], ...] = many(
        ANYWHERE,
        Arg("browser version | unlisted", 1, 2, _modern),
        "From which version on a browser (msie, gecko, opera, safari, konqueror) is modern; or all not listed.",
    )
    ancient_browser: tuple[tuple[str, ...], ...] = many(
        ANYWHERE, strings(1), "Texts in a User-Agent that show an ancient browser; netscape4 stands for all of that."
    )
    modern_browser_value: str = directive(ANYWHERE, string(), "1", "The value of $modern_browser.")
    ancient_browser_value: str = directive(ANYWHERE, string(), "1", "The value of $ancient_browser.")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a level holds for modern; `modern` is None if it names none."""

    modern: tuple[tuple[Kind, int], ...] | None
    unlisted: bool
    ancient: tuple[bytes, ...]
    netscape4: bool
    modern_value: bytes
    ancient_value: bytes

    def is_modern(self, agent: bytes | None) -> bool:
        """Judge a User-Agent."""
        if agent is None:
            return self.unlisted
        if self.modern is not None:
            for kind, least in self.modern:
                at = agent.find(kind.mark, kind.skip) if kind.skip < len(agent) else -1
                end = at + len(kind.mark) + kind.gap
                if at >= 0 and end < len(agent):
                    found = _FOUND.match(agent, end)
                    return version_of(found[0] if found else b"") >= least
            if not self.unlisted:
                return False
        if self.netscape4 and _NETSCAPE4.match(agent):
            return False
        return self.unlisted and not any(text in agent for text in self.ancient)


def remembering(conf: Browser, build: Build) -> None:
    """Leave the rules with the location. No filter is needed."""
    named = [(name, least) for name, least in conf.modern_browser if name != UNLISTED]
    words = [word for line in conf.ancient_browser for word in line]
    if not conf.modern_browser and not words:
        return
    if named and all(name != "opera" for name, _least in named):
        named.append(("opera", _IMPOSSIBLE))
    order = list(KINDS)
    modern = tuple((KINDS[name], least) for name, least in sorted(named, key=lambda item: order.index(item[0])))
    build.notes[Browser] = Rules(
        modern or None,
        any(name == UNLISTED for name, _least in conf.modern_browser),
        tuple(encode(word) for word in words if word != "netscape4"),
        "netscape4" in words,
        encode(conf.modern_browser_value),
        encode(conf.ancient_browser_value),
    )


_NO_RULES = Rules(None, False, (), False, b"1", b"1")


def _modern_browser(request: Request) -> bytes | None:
    rules: Rules = request.location.notes.get(Browser, _NO_RULES)
    return rules.modern_value if rules.is_modern(request.headers.get(b"user-agent")) else b""


def _ancient_browser(request: Request) -> bytes | None:
    rules: Rules = request.location.notes.get(Browser, _NO_RULES)
    return b"" if rules.is_modern(request.headers.get(b"user-agent")) else rules.ancient_value


def _msie(request: Request) -> bytes | None:
    agent = request.headers.get(b"user-agent") or b""
    at = agent.find(b"MSIE ")
    return b"1" if 0 <= at < len(agent) - 7 and b"Opera" not in agent else b""


module = Module(
    name="browser",
    conf=Browser,
    filter=remembering,
    variables={
        "modern_browser": Variable(_modern_browser),
        "ancient_browser": Variable(_ancient_browser),
        "msie": Variable(_msie),
    },
)
