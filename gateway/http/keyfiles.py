"""Certificates and keys as configurations name them: files, read once, or `data:`, either with variables.

Source: https://nginx.org/en/docs/http/ngx_http_ssl_module.html#ssl_certificate.
"""

from collections.abc import Callable

from gateway.config.args import encode
from gateway.config.schema import Arg, Place, Text
from gateway.http.message import Request
from gateway.http.plan import Build
from gateway.net import openssl

FILES = "files of TLS"  # in a site's shared state: what was read, by name

Name = tuple[str, str, Place | None]  # as written, the folder that it is relative to, where
# a certificate and its key, PEM, made of variables: (chain, key, their names)
Pair = Callable[[Request], tuple[bytes, bytes, tuple[str, str]]]


def name_argument(syntax: str = "file") -> Arg[Name]:
    """A file's name that may have variables, or `data:` and the text itself."""
    return Arg(syntax, 1, 1, lambda statement: (statement.args[0], statement.paths.conf_prefix, statement.place))


def shown(name: Name) -> str:
    """A whole name, as messages have it."""
    raw, folder, _ = name
    return raw if raw.startswith(("/", "data:", "$")) else folder + raw


def read(name: Name, files: dict[str, bytes], what: str) -> tuple[bytes, str]:
    """The bytes of a file, read once for all who name it, and its whole name. Raises TlsError."""
    whole = shown(name)
    if whole.startswith("data:"):
        return encode(whole[5:]), whole
    if whole not in files:
        files[whole] = openssl.read(whole, f'cannot load {what} "{whole}"')
    return files[whole], whole


def passwords(name: str) -> list[bytes]:
    """The pass phrases in a file, one on each line. Raises TlsError."""
    if not name:
        return []
    return [line.rstrip(b"\r") for line in openssl.read(name, f'cannot load passwords "{name}"').split(b"\n") if line]


def made_of_variables(certificate: Name, key: Name, build: Build) -> Pair:
    """A pair whose names are known only with a request; they are read each time. Raises ConfigError."""
    texts = [(build.text(Text(name[0], name[2])), name[1]) for name in (certificate, key)]

    def pair(request: Request) -> tuple[bytes, bytes, tuple[str, str]]:
        found = []
        for (text, folder), what in zip(texts, ("certificate", "certificate key"), strict=True):
            value = text(request).decode("utf-8", "surrogateescape")
            found.append(read((value, folder, None), {}, what) if value else (b"", ""))
        (chain, chain_name), (secret, key_name) = found
        return chain, secret, (chain_name, key_name)

    return pair
