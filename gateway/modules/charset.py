"""Name the charset of text answers (ngx_http_charset_module)."""

from gateway.config.args import encode, flag, mime_types, string
from gateway.config.schema import ANYWHERE, Arg, ConfigError, In, Level, Text, block, directive, many
from gateway.http.message import Filter, Request, Response, Transform
from gateway.module import Build, Module

IN_IF = ANYWHERE | In.IF_LOCATION
_DEFAULT = frozenset(
    (b"text/html", b"text/xml", b"text/plain", b"text/vnd.wap.wml", b"application/javascript", b"application/rss+xml")
)


def _unsupported(statement: object) -> None:
    raise ConfigError('"charset_map" is not supported yet: recode the files instead', statement.place)  # type: ignore[attr-defined]


@block
class Charset:
    """Which charset text is in."""

    charset: Text = directive(
        IN_IF, Arg("charset | off", 1, 1, lambda s: Text(s.args[0], s.place)), Text("off"), "Charset added to Content-Type.", default_text="off"
    )
    source_charset: str = directive(IN_IF, string(), "", "Charset of the files, where it differs from `charset`.", default_text="-")
    override_charset: bool = directive(IN_IF, flag(), False, "Replace the charset that an upstream named.")
    charset_types: frozenset[bytes] = directive(
        ANYWHERE, mime_types(), _DEFAULT, "Types that get a charset.", default_text="text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml"
    )
    charset_map: tuple[None, ...] = many(In.HTTP, Arg("charset1 charset2 { ... }", 2, 2, _unsupported, block=True), "A recoding table.")


def judge(conf: Charset, level: Level) -> None:
    """Recoding is not there: say so when it is asked for."""
    source, target = conf.source_charset.lower(), conf.charset.raw.lower()
    if source and target not in ("off", source) and (Charset, "source_charset") in level.values:
        raise ConfigError(f'no "charset_map" between the charsets "{conf.source_charset}" and "{conf.charset.raw}"', level.place)


def naming(conf: Charset, build: Build) -> Filter | None:
    """Add the charset to answers of the listed types that name none."""
    if conf.charset.raw == "off":
        return None
    name, types, override = build.text(conf.charset), conf.charset_types, conf.override_charset
    every = b"*" in types
    constant = encode(conf.charset.raw) if name.constant is not None else None

    def charset(request: Request, response: Response) -> Transform | None:
        kind = response.content_type
        if not kind or request.main is not request or (response.charset is not None and not override):
            return None
        if not every and kind.lower() not in types:
            return None
        if response.find(b"content-encoding") is None:
            value = constant if constant is not None else name(request)
            response.charset = value or response.charset
        return None

    return charset


module = Module(name="charset", conf=Charset, check=judge, filter=naming)
