"""Certificates and keys as configurations name them: files, read once, or `data:`, either with variables.

Source: https://nginx.org/en/docs/http/ngx_http_ssl_module.html#ssl_certificate.
"""

from collections.abc import Callable

from gateway import log
from gateway.config.args import encode, resolved
from gateway.config.schema import Arg, ConfigError, Place, Statement, Text
from gateway.http.message import Request
from gateway.http.plan import Build

FILES = "files of TLS"  # in a site's shared state: what was read, by name

Name = tuple[str, str, Place | None]  # as written, the folder that it is relative to, where
# a certificate and its key, PEM, made of variables: (chain, key, their names)
Pair = Callable[[Request], tuple[bytes, bytes, tuple[str, str]]]


def name_argument(syntax: str = "file") -> Arg[Name]:
    """A file's name that may have variables, or `data:` and the text itself."""
    return Arg(syntax, 1, 1, lambda statement: (statement.args[0], statement.paths.conf_prefix, statement.place))


def command_argument() -> Arg[tuple[str, str, str]]:
    """A command for OpenSSL: its name, its value, the folder that a file in it is relative to."""

    def parse(statement: Statement) -> tuple[str, str, str]:
        name, value = statement.args
        return name, value, statement.paths.conf_prefix

    return Arg("name value", 2, 2, parse)


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
        from gateway.net import openssl

        files[whole] = openssl.read(whole, f'cannot load {what} "{whole}": BIO_new_file() failed')
    return files[whole], whole


def passwords_argument() -> Arg[tuple[bytes, ...]]:
    """A file with pass phrases, one on each line."""

    def parse(statement: Statement) -> tuple[bytes, ...]:
        data = opened(resolved(statement, statement.args[0], conf=True), statement.place)
        return tuple(line.rstrip(b"\r") for line in data.split(b"\n") if line)

    return Arg("file", 1, 1, parse)


def opened(name: str, place: Place) -> bytes:
    """A file's bytes. Raises ConfigError."""
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f'open() "{name}" failed {log.reason(error)}', place) from None


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
