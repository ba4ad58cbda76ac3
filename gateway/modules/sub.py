"""Replace texts in answers (ngx_http_sub_module).

Source: https://nginx.org/en/docs/http/ngx_http_sub_module.html.
"""

from dataclasses import dataclass

from gateway.config.args import flag, mime_types
from gateway.config.schema import ANYWHERE, Arg, ConfigError, Level, Statement, Text, block, directive, many
from gateway.http.changing import has_type, undate
from gateway.http.message import Filter, Request, Response, Transform
from gateway.http.needles import Replacing
from gateway.module import Build, Compiled, Module

_MOST = 255  # patterns at one level


@dataclass(frozen=True, slots=True)
class Pair:
    """One `sub_filter`: what is looked for, and what stands in its place."""

    text: Text
    value: Text


def _pair(statement: Statement) -> Pair:
    text, value = statement.args
    if not text:
        raise ConfigError("empty search pattern", statement.place)
    return Pair(Text(text, statement.place), Text(value, statement.place))


@block
class Sub:
    """What is replaced where."""

    sub_filter: tuple[Pair, ...] = many(
        ANYWHERE, Arg("string replacement", 2, 2, _pair), "Replace a text, whatever its case."
    )
    sub_filter_once: bool = directive(ANYWHERE, flag(), True, "Replace each text the first time only.")
    sub_filter_last_modified: bool = directive(ANYWHERE, flag(), False, "Keep Last-Modified, and a weak ETag.")
    sub_filter_types: frozenset[bytes] = directive(
        ANYWHERE, mime_types(), frozenset((b"text/html",)), "Types of answers.", default_text="text/html"
    )


def judge(_conf: Sub, level: Level) -> None:
    """nginx's own limit."""
    own = level.values.get((Sub, "sub_filter"), ())
    if len(own) > _MOST:
        raise ConfigError(f"number of search patterns exceeds {_MOST}", own[_MOST].text.place)


def replacing(conf: Sub, build: Build) -> Filter | None:
    """Replace in the types wanted; of subrequests too."""
    if not conf.sub_filter:
        return None
    pairs = [(build.text(pair.text), build.text(pair.value)) for pair in conf.sub_filter]
    fixed = _fixed(pairs)
    types, once, keep = conf.sub_filter_types, conf.sub_filter_once, conf.sub_filter_last_modified

    def sub(request: Request, response: Response) -> Transform | None:
        if response.known_length() == 0 or not has_type(response, types):
            return None
        texts, values = fixed, [value for _, value in pairs]
        if texts is None:
            found = [(text(request).lower(), value) for text, value in pairs]
            found = [pair for pair in found if pair[0]]
            texts, values = tuple(text for text, _ in found), [value for _, value in found]
            if not texts:
                return None
        response.length = -1
        if request.main is request:
            undate(response, keep)
        return Replacing(texts, [lambda value=value: value(request) for value in values], once)  # type: ignore[misc]

    return sub


def _fixed(pairs: list[tuple[Compiled, Compiled]]) -> tuple[bytes, ...] | None:
    """The texts, if none of them depends on the request."""
    texts = [text.constant for text, _ in pairs]
    return None if None in texts else tuple(text.lower() for text in texts if text is not None)


module = Module(name="sub", conf=Sub, check=judge, filter=replacing)
