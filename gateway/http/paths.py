"""From a URI to a file name by `root` and `alias`, and to a content type (ngx_http_map_uri_to_path)."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.config.args import encode
from gateway.http.message import Request
from gateway.http.mime import extension

if TYPE_CHECKING:
    from gateway.module import Build

TYPES_KEPT = 1024  # memo of extensions seen; real sites have a few dozen


def folder(build: "Build") -> Callable[[Request], bytes]:
    """The location's root or alias folder itself, without a trailing slash for `root`: $document_root."""
    settings = build.settings
    prefix = encode(build.prefix)
    text = build.text(settings.alias if settings.alias is not None else settings.root)
    if text.constant is not None:
        constant = os.path.join(prefix, text.constant)
        constant = constant.rstrip(b"/") if settings.alias is None else constant
        return lambda request: constant

    def folder_of(request: Request) -> bytes:
        value = os.path.join(prefix, text(request))
        return value.rstrip(b"/") if settings.alias is None else value

    return folder_of


def mapping(build: "Build") -> Callable[[Request], bytes]:
    """A function that maps the request's present URI to a file name."""
    settings = build.settings
    base = folder(build)
    if settings.alias is None:
        constant = _constant(build)
        if constant is not None:
            return lambda request: constant + request.uri
        return lambda request: base(request) + request.uri
    cut = len(build.location_prefix)
    if cut == 0 and build.location_is_pattern:
        return base  # a regular expression's alias is the whole file name
    return lambda request: base(request) + request.uri[cut:]


def _constant(build: "Build") -> bytes | None:
    text = build.text(build.settings.root)
    return None if text.constant is None else os.path.join(encode(build.prefix), text.constant).rstrip(b"/")


def mime(build: "Build") -> Callable[[bytes], bytes]:
    """A function that gives the content type for a URI: by extension, else `default_type`."""
    table = {key: encode(value) for key, value in build.settings.types.items()}
    default = encode(build.settings.default_type)
    return lambda uri: table.get(extension(uri), default)
