"""Name the charset of text answers, and recode them where a table says how (ngx_http_charset_module)."""

from dataclasses import dataclass

from gateway.config.args import encode, flag, mime_types, string
from gateway.config.schema import (
    ANYWHERE,
    Arg,
    ConfigError,
    In,
    Level,
    Merge,
    Place,
    Statement,
    Text,
    block,
    directive,
    many,
)
from gateway.http.message import Filter, Request, Response, Transform
from gateway.module import Build, Module

IN_IF = ANYWHERE | In.IF_LOCATION
_DEFAULT = frozenset(
    (b"text/html", b"text/xml", b"text/plain", b"text/vnd.wap.wml", b"application/javascript", b"application/rss+xml")
)
_UTF8 = b"utf-8"


@dataclass(frozen=True, slots=True)
class Table:
    """One `charset_map`: bytes of the first charset to bytes (of UTF-8: sequences) of the second."""

    source: bytes
    target: bytes
    pairs: tuple[tuple[int, bytes], ...]
    place: Place


def _map(statement: Statement) -> Table:
    source, target = (encode(word.lower()) for word in statement.args)
    if source == target:
        raise ConfigError(
            f'"charset_map" between the same charsets "{statement.args[0]}" and "{statement.args[1]}"', statement.place
        )
    if source == _UTF8:
        raise ConfigError('"charset_map" from utf-8: name utf-8 as the second charset', statement.place)
    pairs = []
    for entry in statement.block or ():
        if len(entry.args) != 1:
            raise ConfigError("invalid parameters number", entry.place)
        code = int.from_bytes(_hexadecimal(entry.name, entry.place), "big")
        text = _hexadecimal(entry.args[0], entry.place)
        if code > 255:
            raise ConfigError(f'invalid value "{entry.name}"', entry.place)
        if len(text) != 1 and target != _UTF8:
            raise ConfigError(f'invalid value "{entry.args[0]}"', entry.place)
        pairs.append((code, text))
    return Table(source, target, tuple(pairs), statement.place)


def _hexadecimal(word: str, place: Place) -> bytes:
    try:
        return bytes.fromhex(word.zfill(len(word) + len(word) % 2))
    except ValueError:
        raise ConfigError(f'invalid value "{word}"', place) from None


@block
class Charset:
    """Which charset text is in, and which it is sent in."""

    charset: Text = directive(
        IN_IF,
        Arg("charset | off", 1, 1, lambda s: Text(s.args[0], s.place)),
        Text("off"),
        "Charset added to Content-Type.",
        default_text="off",
    )
    source_charset: str = directive(
        IN_IF, string(), "", "Charset of the files, where it differs from `charset`.", default_text="-"
    )
    override_charset: bool = directive(IN_IF, flag(), False, "Replace the charset that an upstream named.")
    charset_types: frozenset[bytes] = directive(
        ANYWHERE,
        mime_types(),
        _DEFAULT,
        "Types that get a charset.",
        default_text="text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml",
    )
    charset_map: tuple[Table, ...] = many(
        In.HTTP,
        Arg("charset1 charset2 { ... }", 2, 2, _map, block=True),
        "A recoding table, used in both directions.",
        merge=Merge.INHERIT,
    )


class Recode:
    """Single bytes to bytes, or to the sequences of UTF-8."""

    def __init__(self, table: list[bytes]) -> None:
        self.table = table
        self.plain = b"".join(table) if all(len(item) == 1 for item in table) else None

    def feed(self, chunk: bytes) -> bytes:
        """Recode a piece."""
        if self.plain is not None:
            return chunk.translate(self.plain)
        table = self.table
        return b"".join([table[byte] for byte in chunk])

    def flush(self) -> bytes:
        """Nothing is held back."""
        return b""

    def finish(self) -> bytes:
        """Nothing is held back."""
        return b""


class FromUtf8:
    """UTF-8 to single bytes; what has none becomes a numeric character reference, as nginx writes it."""

    def __init__(self, table: dict[str, bytes]) -> None:
        import codecs

        self.table = table
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, chunk: bytes) -> bytes:
        """Recode a piece; a character cut in two waits for the next."""
        return self._encode(self.decoder.decode(chunk))

    def flush(self) -> bytes:
        """Half a character cannot be given out."""
        return b""

    def finish(self) -> bytes:
        """What is left of a cut character is "?"."""
        return self._encode(self.decoder.decode(b"", True))

    def _encode(self, text: str) -> bytes:
        table = self.table
        return b"".join([char.encode() if char < "\x80" else table.get(char) or _reference(char) for char in text])


def _reference(char: str) -> bytes:
    return b"?" if char == "\ufffd" else b"&#%d;" % ord(char)


def judge(conf: Charset, level: Level) -> None:
    """nginx refuses two tables for a pair of charsets, and a pair without one."""
    known: set[frozenset[bytes]] = set()
    for table in conf.charset_map:
        pair = frozenset((table.source, table.target))
        if pair in known:
            names = f'"{table.source.decode()}" and "{table.target.decode()}"'
            raise ConfigError(f'duplicate "charset_map" between {names}', table.place)
        known.add(pair)
    source, target = encode(conf.source_charset.lower()), encode(conf.charset.raw.lower())
    if not source or b"$" in source + target or target in (b"off", source):
        return
    if {source, target} not in known:
        raise ConfigError(f'no "charset_map" between the charsets "{conf.source_charset}" and "{conf.charset.raw}"')


def naming(conf: Charset, build: Build) -> Filter | None:
    """Add the charset to answers of the listed types, and recode those in another one."""
    if conf.charset.raw == "off":
        return None
    name, types, override = build.text(conf.charset), conf.charset_types, conf.override_charset
    every, own = b"*" in types, encode(conf.source_charset.lower())
    tables = {(table.source, table.target): table for table in conf.charset_map}

    def charset(request: Request, response: Response) -> Transform | None:
        kind = response.content_type
        if not kind or request.main is not request or (not every and kind.lower() not in types):
            return None
        if response.status in (301, 302):  # nginx: an old browser would take it for the next page's
            return None
        stated = response.charset
        if (stated is not None and not override) or response.find(b"content-encoding") is not None:
            return None
        target = name(request)
        if not target or target == b"off":
            return None
        response.charset = target
        return _recoding(tables, (stated or own).lower(), target.lower(), response) if tables else None

    return charset


def _recoding(
    tables: dict[tuple[bytes, bytes], Table], source: bytes, target: bytes, response: Response
) -> Transform | None:
    if not source or source == target:
        return None
    table, back = tables.get((source, target)), tables.get((target, source))
    if table is None and back is None:
        return None
    if _UTF8 in (source, target):
        response.length = -1
    if table is not None:
        forth = [bytes((byte,)) if byte < 0x80 else b"?" for byte in range(256)]
        for code, text in table.pairs:
            forth[code] = text
        return Recode(forth)
    assert back is not None
    if source == _UTF8:
        return FromUtf8({text.decode("utf-8", "replace"): bytes((code,)) for code, text in back.pairs})
    reverse = [bytes((byte,)) if byte < 0x80 else b"?" for byte in range(256)]
    for code, text in back.pairs:
        reverse[text[0]] = bytes((code,))
    return Recode(reverse)


module = Module(
    name="charset",
    conf=Charset,
    check=judge,
    filter=naming,
    steady=lambda conf, build: build.text(conf.charset).constant is not None,
)
