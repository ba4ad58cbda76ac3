"""The `types` block and the lookup of a content type by extension."""

from gateway.config.schema import Arg, Statement

# nginx's built-in table, used where no `types` block is set: mime.types is the operator's to include.
DEFAULT_TYPES: dict[bytes, str] = {b"html": "text/html", b"gif": "image/gif", b"jpg": "image/jpeg"}


def _types(statement: Statement) -> dict[bytes, str]:
    table: dict[bytes, str] = {}
    for entry in statement.block or ():
        for extension in entry.args:
            table[extension.lower().encode()] = entry.name
    return table


def types_block() -> Arg[dict[bytes, str]]:
    """`types { type extension ...; }`."""
    return Arg("{ type extension ...; }", 0, 0, _types, block=True)


def extension(uri: bytes) -> bytes:
    """What follows the last dot of the last path segment, in lower case (ngx_http_set_exten).

    b"" if there is no dot, and for a dot file.
    """
    dot = uri.rfind(b".")
    if dot < 2 or uri[dot - 1] == 0x2F or uri.rfind(b"/") > dot:
        return b""
    return uri[dot + 1 :].lower()
