"""Check the links that a site has signed (ngx_http_secure_link_module).

Two forms: `secure_link` and `secure_link_md5`, where a link carries an MD5 of what the site chooses and perhaps an end
of its life; and `secure_link_secret`, where a URI is /prefix/hash/link and the hash is that of link and secret.

Source: https://nginx.org/en/docs/http/ngx_http_secure_link_module.html
"""

import hmac
import time
from base64 import urlsafe_b64decode
from hashlib import md5

from gateway.config.args import encode, number, string, text
from gateway.config.schema import ANYWHERE, ConfigError, Level, Text, block, directive
from gateway.http.message import Getter, Request
from gateway.module import Build, Module, Variable

RESULT, EXPIRES = "secure_link", "secure_link_expires"
_LONGEST = 24  # base64 of 16 bytes, padded


@block
class SecureLink:
    """Signed links."""

    secure_link: Text | None = directive(
        ANYWHERE,
        text("expression"),
        None,
        "Where the link has its hash and, after a comma, the time when it ends.",
        default_text="-",
    )
    secure_link_md5: Text | None = directive(
        ANYWHERE, text("expression"), None, "What the hash is made of.", default_text="-"
    )
    secure_link_secret: str = directive(
        ANYWHERE, string("word"), "", "The secret of links /prefix/hash/link.", default_text="-"
    )


def _check(conf: SecureLink, level: Level) -> None:
    own = {name for table, name in level.values if table is SecureLink}
    if "secure_link_secret" in own and len(own) > 1:
        said = '"secure_link_secret" cannot be mixed with "secure_link" and "secure_link_md5"'
        raise ConfigError(said, level.place)


def remembering(conf: SecureLink, build: Build) -> None:
    """Leave with the location how its links are judged. No filter is needed."""
    if conf.secure_link_secret and _secret_counts(build.level):
        build.notes[SecureLink] = _by_secret(encode(conf.secure_link_secret))
    elif conf.secure_link is not None and conf.secure_link_md5 is not None:
        build.notes[SecureLink] = _by_expression(conf.secure_link, conf.secure_link_md5, build)


def _secret_counts(level: Level) -> bool:
    """Whether the nearest level with either form has the secret: one with the other form does not inherit it."""
    at: Level | None = level
    while at is not None:
        if (SecureLink, "secure_link_secret") in at.values:
            return True
        if (SecureLink, "secure_link") in at.values or (SecureLink, "secure_link_md5") in at.values:
            return False
        at = at.parent
    return False


def _by_secret(secret: bytes) -> Getter:
    def judge(request: Request) -> bytes | None:
        """What stands behind the hash, if that is right."""
        parts = request.main.target[1:].split(b"/", 2)
        if len(parts) < 3 or len(parts[1]) != 32 or not parts[2]:
            return None
        right = md5(parts[2] + secret, usedforsecurity=False).hexdigest().encode()
        return parts[2] if hmac.compare_digest(parts[1].lower(), right) else None

    return judge


def _by_expression(link: Text, hashed: Text, build: Build) -> Getter:
    given, expected = build.text(link), build.text(hashed)

    def judge(request: Request) -> bytes | None:
        """1 if the hash is right, 0 if the link's time is over."""
        code, comma, moment = given(request).partition(b",")
        ends = 0
        if comma:
            ends = _moment(moment)
            if not ends:
                return None
            request.assign(EXPIRES, moment)
        right = md5(expected(request), usedforsecurity=False).digest()
        if not hmac.compare_digest(_decoded(code), right):
            return None
        return b"0" if ends and ends < int(time.time()) else b"1"

    return judge


def _moment(digits: bytes) -> int:
    try:
        return number(digits.decode("latin-1"))
    except ValueError:
        return 0


def _decoded(code: bytes) -> bytes:
    """base64 for URLs, up to its padding; b"" if it is none."""
    code = code.partition(b"=")[0] if len(code) <= _LONGEST else b""
    if not code.replace(b"-", b"").replace(b"_", b"").isalnum():
        return b""
    try:
        return urlsafe_b64decode(code + b"=" * (-len(code) % 4))
    except ValueError:
        return b""


def _result(request: Request) -> bytes | None:
    values = request.values
    if values is not None and RESULT in values:
        return values[RESULT]
    judge = request.location.notes.get(SecureLink)
    value = judge(request) if judge is not None else None
    request.assign(RESULT, value)
    return value


module = Module(
    name="secure_link",
    conf=SecureLink,
    check=_check,
    filter=remembering,
    variables={RESULT: Variable(_result), EXPIRES: Variable(lambda request: request.value(EXPIRES))},
)
