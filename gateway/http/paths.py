"""From a URI to a file name by `root` and `alias`, and to a content type (ngx_http_map_uri_to_path)."""

import os
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from gateway.config.args import encode
from gateway.config.bind import place_of
from gateway.config.schema import ConfigError, Level, Text
from gateway.http.message import Request
from gateway.http.mime import extension
from gateway.http.settings import Http
from gateway.http.text import split

if TYPE_CHECKING:
    from gateway.http.plan import Build

BELOW_ALIAS = "below alias"  # a note: the URI is a name below the alias of a regular expression
TYPES_KEPT = 1024  # memo of extensions seen; real sites have a few dozen


def judge(level: Level) -> None:
    """What nginx refuses of a level's own `root` and `alias`. Raises ConfigError."""
    found = [name for table, name in level.values if table is Http and name in ("root", "alias")]
    for earlier, later in pairwise(found):
        text = f'"{later}" directive is duplicate, "{earlier}" directive was specified earlier'
        raise ConfigError(text, place_of(level, Http, later))
    for name in found:
        place = place_of(level, Http, name)
        if name == "alias" and level.head[0] == "@":
            raise ConfigError('the "alias" directive cannot be used inside the named location', place)
        for part in split(level.values[Http, name].raw, place):
            if part in ("document_root", "realpath_root"):
                raise ConfigError(f'the ${part} variable cannot be used in the "{name}" directive', place)


def alias(build: "Build") -> tuple[Text, bytes | None] | None:
    """The `alias` in force and the prefix it stands for (None: it is the whole name), None where `root` is in force.

    To nginx both are one setting: the innermost level that has either decides, and an alias keeps the prefix of its
    own location.
    """
    level: Level | None = build.level
    while level is not None and (Http, "root") not in level.values:
        text = level.values.get((Http, "alias"))
        if text is not None:
            modifier, pattern = level.head
            return text, None if modifier in ("~", "~*") else encode(pattern)
        level = level.parent
    return None


def folder(build: "Build") -> Callable[[Request], bytes]:
    """The location's root or alias folder itself, without a trailing slash for `root`: $document_root."""
    aliased = alias(build)
    prefix = encode(build.prefix)
    text = build.text(build.settings.root if aliased is None else aliased[0])
    if text.constant is not None:
        constant = os.path.join(prefix, text.constant)
        constant = constant.rstrip(b"/") if aliased is None else constant
        return lambda request: constant

    def folder_of(request: Request) -> bytes:
        value = os.path.join(prefix, text(request))
        return value.rstrip(b"/") if aliased is None else value

    return folder_of


def mapping(build: "Build") -> Callable[[Request], bytes]:
    """A function that maps the request's present URI to a file name."""
    base, aliased = folder(build), alias(build)
    if aliased is None:
        constant = _constant(build)
        if constant is not None:
            return lambda request: constant + request.uri
        return lambda request: base(request) + request.uri
    if aliased[1] is None:
        # the whole file name, unless something found a file below it (nginx's add_uri_to_alias)
        return lambda request: base(request) + request.uri if request.note(BELOW_ALIAS) else base(request)
    cut = len(aliased[1])
    return lambda request: base(request) + request.uri[cut:]


def constant(build: "Build") -> bool:
    """Whether no variable is in the root or alias in force."""
    aliased = alias(build)
    return build.text(build.settings.root if aliased is None else aliased[0]).constant is not None


def _constant(build: "Build") -> bytes | None:
    text = build.text(build.settings.root)
    return None if text.constant is None else os.path.join(encode(build.prefix), text.constant).rstrip(b"/")


def mime(build: "Build") -> Callable[[bytes], bytes]:
    """A function that gives the content type for a URI: by extension, else `default_type`."""
    table = {key: encode(value) for key, value in build.settings.types.items()}
    default = encode(build.settings.default_type)
    return lambda uri: table.get(extension(uri), default)
