"""Known traps: what loads, in nginx as here, and means something else than it seems to.

Sources: https://nginx.org/en/docs/ (each directive's page), and what is asked about again and again.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gateway.check.names import rows
from gateway.config.schema import Place, Statement

Trap = tuple[str, Place]
_INHERITED = ("add_header", "add_trailer", "proxy_set_header")
_CONTENT = ("proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "return", "alias", "root")
_FINAL = frozenset({"last", "break", "redirect", "permanent"})
_PATTERN = ("~", "~*")
_DECODED = re.compile(r"\$\{?(?:uri|document_uri)\b")
_REST = re.compile(r"[^/]*//[^/]+(/.*)?", re.DOTALL)
_FIRST = re.compile(rb"[ \t]*([^\s;{}#]+)")
_ALIASED = "a request for {uri}../ reaches the folder beside {folder}: end the location with a slash too"


@dataclass(slots=True)
class Scope:
    """One block, with what stands in it and around it."""

    statement: Statement | None
    inside: tuple[Statement, ...]
    outer: "Scope | None" = None
    inner: "list[Scope]" = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.statement.name if self.statement is not None else ""

    def own(self, name: str) -> list[Statement]:
        return [one for one in self.inside if one.name == name]

    def nearest(self, name: str) -> list[Statement]:
        """What holds here of a directive that inner levels inherit only if they have none of their own."""
        scope: Scope | None = self
        while scope is not None:
            if found := scope.own(name):
                return found
            scope = scope.outer
        return []


def found(statements: Sequence[Statement], texts: Mapping[str, bytes]) -> Iterator[Trap]:
    """All traps of a configuration; `texts` are its files."""
    root = _scope(None, tuple(statements), None)
    for scope in _scopes(root):
        if scope.name in ("stream", "mail", "rtmp"):
            continue
        for look in _LOOKS:
            yield from look(scope)
        for one in scope.inside:
            if word := swallowed(one, texts):
                yield f'"{word}" begins a line of "{one.name}": perhaps a ";" is missing before it', one.place


def _scope(statement: Statement | None, inside: tuple[Statement, ...], outer: Scope | None) -> Scope:
    scope = Scope(statement, inside, outer)
    scope.inner = [_scope(one, one.block, scope) for one in inside if one.block is not None]
    return scope


def _scopes(scope: Scope) -> Iterator[Scope]:
    yield scope
    for inner in scope.inner:
        if inner.name not in ("stream", "mail", "rtmp"):
            yield from _scopes(inner)


def swallowed(statement: Statement, texts: Mapping[str, bytes]) -> str:
    """The directive's name that begins a line amid a statement's words, "" if none does."""
    wanted = [word for word in statement.args if word in rows() and len(word) > 2]
    if not wanted or statement.block is not None:
        return ""
    lines = texts.get(statement.place.file, b"").split(b"\n")[: statement.place.line]
    for line in reversed(lines):
        match = _FIRST.match(line)
        word = match[1].decode("utf-8", "replace") if match else ""
        if word == statement.name:
            return ""
        if word in wanted:
            return word
    return ""


# --- one function for each trap


def _lost(scope: Scope) -> Iterator[Trap]:
    """Headers that outer levels set and this one does not inherit."""
    if scope.outer is None:
        return
    for name in _INHERITED:
        own = scope.own(name)
        outer = scope.outer.nearest(name)
        rule = scope.nearest(f"{name}_inherit")
        if not own or not outer or (rule and rule[0].args[:1] in (("merge",), ("off",))):
            continue
        names = {one.args[0].lower() for one in own if one.args}
        lost = [one.args[0] for one in outer if one.args and one.args[0].lower() not in names]
        if lost:
            listed = ", ".join(dict.fromkeys(lost))
            said = f'"{name}" of an outer level ({outer[0].place}) is not inherited by a level that has its own'
            yield f"{said}; lost here: {listed}", own[0].place


def _if_and_try_files(scope: Scope) -> Iterator[Trap]:
    if scope.name != "location" or not scope.own("try_files"):
        return
    for one in scope.own("if"):
        if not _leaves(one.block or ()):
            yield '"try_files" does not apply to requests for which this "if" holds', one.place


def _leaves(block: Sequence[Statement]) -> bool:
    """Whether a block ends in an answer or in another location."""
    return any(
        one.name == "return" or (one.name == "rewrite" and one.args[-1:] and one.args[-1] in _FINAL) for one in block
    )


def _if_and_proxy_pass(scope: Scope) -> Iterator[Trap]:
    """A URI after `proxy_pass`'s host is not used once `rewrite … break` has changed the request's."""
    passed = scope.own("proxy_pass") or (scope.nearest("proxy_pass") if scope.name == "if" else [])
    if scope.name not in ("location", "if") or not passed or not passed[0].args:
        return
    rest = _REST.fullmatch(passed[0].args[0])
    if rest is None or not rest[1] or "$" in passed[0].args[0]:
        return
    for block in (scope, *(one for one in scope.inner if one.name == "if")):
        for one in block.own("rewrite"):
            if one.args[-1] == "break":
                yield f'after this "rewrite … break" the "{rest[1]}" of "proxy_pass" is not used', one.place


def _alias(scope: Scope) -> Iterator[Trap]:
    statement = scope.statement
    aliases = scope.own("alias")
    if statement is None or scope.name != "location" or not aliases or not aliases[0].args:
        return
    modifier = statement.args[0] if len(statement.args) == 2 else ""
    uri, folder = statement.args[-1], aliases[0].args[0]
    if modifier in (*_PATTERN, "=") or uri.startswith(("~", "=", "@")) or "$" in folder:
        return
    if not uri.endswith("/") and folder.endswith("/"):
        yield f"alias traversal: {_ALIASED.format(uri=uri, folder=folder)}", aliases[0].place
    elif uri.endswith("/") and len(uri) > 1 and not folder.endswith("/"):
        yield f'{uri}x becomes {folder}x: the "alias" lacks a slash at its end', aliases[0].place


def _cache(scope: Scope) -> Iterator[Trap]:
    cache, buffering = scope.nearest("proxy_cache"), scope.nearest("proxy_buffering")
    if not cache or not buffering or not (scope.own("proxy_cache") or scope.own("proxy_buffering")):
        return
    if cache[0].args != ("off",) and buffering[0].args == ("off",):
        at = (scope.own("proxy_cache") or scope.own("proxy_buffering"))[0]
        yield '"proxy_cache" keeps nothing while "proxy_buffering" is off', at.place


def _referers(scope: Scope) -> Iterator[Trap]:
    for one in scope.own("valid_referers"):
        if "none" in one.args:
            yield '"valid_referers none": whoever sends no Referer at all is let in', one.place
        if not any("invalid_referer" in word for inner in scope.inside for word in inner.args):
            yield '"valid_referers" alone keeps nobody out: an "if ($invalid_referer)" has to', one.place


def _root(scope: Scope) -> Iterator[Trap]:
    if scope.name != "server" or scope.nearest("root"):
        return
    locations = [one for one in scope.inner if one.name == "location" and one.statement is not None]
    whole = [one for one in locations if one.statement is not None and one.statement.args == ("/",)]
    bare = [one for one in locations if not any(one.own(name) for name in _CONTENT) and _serves_files(one)]
    if whole and whole[0].own("root") and bare:
        names = ", ".join(" ".join(one.statement.args) for one in bare if one.statement is not None)
        said = '"root" inside "location /" does not hold for the other locations'
        yield f"{said}: {names}", whole[0].own("root")[0].place


def _serves_files(scope: Scope) -> bool:
    """Whether a location answers with files, as far as can be seen."""
    statement = scope.statement
    makers = [one for one in scope.inside if one.name in rows() and one.name.endswith(("_lua_block", "_lua_file"))]
    known = {"stub_status", "deny", "if", "internal", "echo", "empty_gif", "include", "rewrite", "try_files"}
    named = statement is not None and statement.args[-1].startswith("@")
    return not makers and not named and not any(one.name in known for one in scope.inside) and not scope.inner


def _tls(scope: Scope) -> Iterator[Trap]:
    if scope.name != "server":
        return
    listens = scope.own("listen")
    speaks = any({"ssl", "quic"} & set(one.args[1:]) for one in listens) or scope.nearest("ssl")
    certificates = scope.own("ssl_certificate")
    if listens and not speaks and not scope.own("include"):
        if certificates:
            yield '"ssl_certificate" in a server without "listen … ssl": it speaks plain HTTP', certificates[0].place
        else:
            for one in listens:
                if re.fullmatch(r"(?:.*:)?443", one.args[0] if one.args else ""):
                    yield "port 443 without the parameter ssl: it speaks plain HTTP", one.place


def _split(scope: Scope) -> Iterator[Trap]:
    """A decoded URI in a redirect: a `%0d%0a` in it becomes a line end in the answer's head."""
    for one in scope.inside:
        redirect = one.name == "return" and len(one.args) == 2 and one.args[0] in ("301", "302", "303", "307", "308")
        if redirect and _DECODED.search(one.args[1]):
            yield '"$uri" is decoded: in a redirect it lets a client add header lines; use "$request_uri"', one.place


def _servers(scope: Scope) -> Iterator[Trap]:
    """The same location twice is refused on loading; the same name in one `server_name` is told here."""
    for one in scope.own("server_name"):
        for first, second in pairwise(sorted(one.args)):
            if first == second:
                yield f'"{first}" stands twice in one "server_name"', one.place


_LOOKS: tuple[Callable[[Scope], Iterator[Trap]], ...] = (
    _lost,
    _if_and_try_files,
    _if_and_proxy_pass,
    _alias,
    _cache,
    _referers,
    _root,
    _tls,
    _split,
    _servers,
)
