"""Rules that change what an upstream's headers point at: proxy_redirect, proxy_cookie_domain, _path and _flags.

Source: ngx_http_proxy_rewrite_redirect, ngx_http_proxy_rewrite_cookie;
https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_redirect.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.config.args import encode
from gateway.config.schema import ConfigError, Statement, Text
from gateway.http.message import Request, Response
from gateway.module import Build, Compiled
from gateway.pattern import Pattern, PatternError

Attribute = tuple[bytes, bytes | None]  # name as sent, value (None: no "=")
_SAMESITE = {b"strict": b"Strict", b"lax": b"Lax", b"none": b"None"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One replacement: of a prefix (redirects, paths), of a whole name (domains) or of what a pattern matches."""

    match: Compiled | Pattern
    replacement: Compiled
    whole: bool = False  # a domain: the whole value is compared, in any case

    def apply(self, request: Request, value: bytes) -> bytes | None:
        """The new value, None if the rule does not hold."""
        if isinstance(self.match, Pattern):
            found = self.match.search(value)
            if found is None:
                return None
            request.captures = found
            for name, number in self.match.names.items():
                request.assign(name, found[number])
            return self.replacement(request)
        wanted = self.match(request)
        if self.whole:
            # nginx compares without leading dots, and the value keeps its own
            dot = b"." if value.startswith(b".") else b""
            same = value[len(dot) :].lower() == wanted.removeprefix(b".").lower()
            return dot + self.replacement(request).removeprefix(b".") if same else None
        return self.replacement(request) + value[len(wanted) :] if value.startswith(wanted) else None


@dataclass(frozen=True, slots=True)
class FlagRule:
    """`proxy_cookie_flags`: flags to set or clear on a cookie by its name."""

    match: Compiled | Pattern
    flags: tuple[Compiled, ...]

    def holds(self, request: Request, name: bytes) -> bool:
        """Whether the rule is for this cookie."""
        if isinstance(self.match, Pattern):
            return self.match.matches(name)
        return self.match(request).lower() == name.lower()


def first(rules: Sequence[Rule], request: Request, value: bytes) -> bytes | None:
    """The value that the first rule that holds gives."""
    for rule in rules:
        made = rule.apply(request, value)
        if made is not None:
            return made
    return None


@dataclass(frozen=True, slots=True)
class Rewriter:
    """All rules of a location."""

    redirects: tuple[Rule, ...] = ()
    domains: tuple[Rule, ...] = ()
    paths: tuple[Rule, ...] = ()
    flags: tuple[FlagRule, ...] = ()

    def rewritten(self, request: Request, response: Response) -> None:
        """Rewrite the values of an answer's headers."""
        fields = [(name, self._value(request, name.lower(), value)) for name, value in response.fields]
        for index, (name, value) in enumerate(fields):
            # what was rewritten into a path is made absolute, and then stands where our own Location does
            relative = value.startswith(b"/") and value != response.fields[index][1]
            if relative and name.lower() == b"location" and request.location.settings.absolute_redirect:
                response.location = value
                del fields[index]
                break
        response.fields = fields

    def _value(self, request: Request, lower: bytes, value: bytes) -> bytes:
        if lower == b"location":
            made = first(self.redirects, request, value)
            return value if made is None else made
        if lower == b"refresh":
            at = value.lower().find(b"url=")
            made = first(self.redirects, request, value[at + 4 :]) if at >= 0 else None
            return value if made is None else value[: at + 4] + made
        if lower == b"set-cookie" and (self.domains or self.paths or self.flags):
            return self._cookie(request, value)
        return value

    def _cookie(self, request: Request, value: bytes) -> bytes:
        attributes = [_attribute(part) for part in value.split(b";")]
        changed = [attributes[0], *(self._attribute(request, item) for item in attributes[1:])]
        for rule in self.flags:
            if rule.holds(request, attributes[0][0]):
                changed = _flagged(changed, [flag(request) for flag in rule.flags])
                break
        if changed == attributes:
            return value
        return b"; ".join([name if text is None else name + b"=" + text for name, text in changed])

    def _attribute(self, request: Request, item: Attribute) -> Attribute:
        name, value = item
        rules = {b"domain": self.domains, b"path": self.paths}.get(name.lower(), ())
        made = None if value is None else first(rules, request, value)
        return item if made is None else (name, made)


def _attribute(part: bytes) -> Attribute:
    name, equals, value = part.strip(b" ").partition(b"=")
    return name, value if equals else None


def _without(attributes: Sequence[Attribute], lower: bytes) -> list[Attribute]:
    return [item for item in attributes if item[0].lower() != lower]


def _flagged(attributes: list[Attribute], flags: Sequence[bytes]) -> list[Attribute]:
    cookie, rest = attributes[0], list(attributes[1:])
    added: dict[bytes, Attribute] = {}
    for flag in flags:
        lower = flag.lower()
        key = (lower[2:] if lower.startswith(b"no") else lower).partition(b"=")[0]
        if key not in (b"secure", b"httponly", b"samesite"):
            continue
        rest = _without(rest, key)
        added.pop(key, None)
        if lower.startswith(b"samesite="):
            added[key] = (b"SameSite", _SAMESITE.get(lower[9:], b"Lax"))
        elif not lower.startswith(b"no"):
            added[key] = (b"Secure" if key == b"secure" else b"HttpOnly", None)
    ordered = [added[key] for key in (b"secure", b"httponly", b"samesite") if key in added]
    return [cookie, *rest, *ordered]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two words of a rule, either of which may hold variables; `replacement` None for `off` and `default`."""

    match: Text
    replacement: Text | None


def rule_argument(statement: Statement) -> Pair:
    """Read the words of a rule. Raises ConfigError."""
    words = [Text(word, statement.place) for word in statement.args]
    if len(words) == 1 and words[0].raw not in ("off", "default"):
        raise ConfigError(f'invalid parameter "{words[0].raw}"', statement.place)
    return Pair(words[0], words[1] if len(words) == 2 else None)


def caseless(source: str) -> tuple[str, bool] | None:
    """Split `~*regex` or `~regex`: (source, caseless); None for a plain text."""
    if source.startswith("~*"):
        return source[2:], True
    return (source[1:], False) if source.startswith("~") else None


def _pattern(source: str, place: Any, *, ignore_case: bool) -> Pattern:
    try:
        return Pattern(encode(source), ignore_case)
    except PatternError as error:
        raise ConfigError(str(error), place) from None


def rules_of(pairs: Sequence[Pair], build: Build, *, domain: bool = False) -> tuple[Rule, ...]:
    """Compile rules; `off` leaves none. Raises ConfigError."""
    if any(pair.replacement is None for pair in pairs):
        return ()
    return tuple(_compiled(pair, build, domain=domain) for pair in pairs)


def _compiled(pair: Pair, build: Build, *, domain: bool = False) -> Rule:
    regex = caseless(pair.match.raw)
    replacement = build.text(pair.replacement or "")
    if regex is not None:
        source, ignore_case = regex
        return Rule(_pattern(source, pair.match.place, ignore_case=ignore_case or domain), replacement)
    return Rule(build.text(pair.match), replacement, whole=domain)


def redirects_of(pairs: Sequence[Pair], url: str, prefix: bytes, build: Build) -> tuple[Rule, ...]:
    """Compile proxy_redirect for a location; `url` is its proxy_pass, "" if that has variables. Raises ConfigError."""
    if any(pair.match.raw == "off" and pair.replacement is None for pair in pairs):
        return ()
    rules = []
    for pair in pairs or (Pair(Text("default"), None),):
        if pair.replacement is not None:
            rules.append(_compiled(pair, build))
        elif url:
            with_uri = "/" in url.split("://", 1)[1].removeprefix("unix:/")
            match, replacement = (url, prefix.decode("utf-8", "surrogateescape")) if with_uri else (url + "/", "/")
            rules.append(Rule(build.text(match), build.text(replacement)))
        elif pairs:
            message = '"proxy_redirect default" cannot be used with "proxy_pass" directive with variables'
            raise ConfigError(message, pair.match.place)
    return tuple(rules)


def flags_of(lines: Sequence[tuple[Text, ...]], build: Build) -> tuple[FlagRule, ...]:
    """Compile proxy_cookie_flags; `off` leaves none. Raises ConfigError."""
    rules = []
    for words in lines:
        if words[0].raw == "off":
            return ()
        regex = caseless(words[0].raw)
        match = build.text(words[0]) if regex is None else _pattern(regex[0], words[0].place, ignore_case=True)
        rules.append(FlagRule(match, tuple(build.text(word) for word in words[1:])))
    return tuple(rules)
