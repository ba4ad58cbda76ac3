"""Ask for a name and a password (`auth_basic`; ngx_http_auth_basic_module).

nginx reads the password file for every request and checks the password anew. Here a file is read again when it has
changed, and a password that was right is remembered, as a digest under a key of this process, until the file says
otherwise. Schemes that are made to be slow (bcrypt, SHA-2 crypt …) are checked in a thread.

Source: https://nginx.org/en/docs/http/ngx_http_auth_basic_module.html
"""

import os
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from errno import ENOENT
from hashlib import blake2b
from typing import Any

from gateway import log
from gateway.config.args import text
from gateway.config.schema import ANYWHERE, Arg, In, Text, block, directive
from gateway.http.access import Admitted
from gateway.http.message import Handler, HttpError, Request
from gateway.http.passwords import CryptError, matches, slow
from gateway.http.report import report
from gateway.module import Build, Compiled, Module, Phase

KEPT = 1024  # passwords remembered, and password files
CHECKERS = 2  # threads for slow schemes: a flood of guesses takes no more

_END = re.compile(rb"[:\r]")
_IN = ANYWHERE | In.LIMIT_EXCEPT


@block
class AuthBasic:
    """Basic authentication."""

    auth_basic: Text | None = directive(
        _IN,
        text("string | off"),
        None,
        "Ask for a password; the string is the realm that clients show.",
        default_text="off",
    )
    auth_basic_user_file: tuple[Text, str] | None = directive(
        _IN,
        Arg("file", 1, 1, lambda statement: (Text(statement.args[0], statement.place), statement.paths.conf_prefix)),
        None,
        "Who may come in: lines of name:password, the password hashed as htpasswd does.",
        default_text="-",
    )


@dataclass(slots=True)
class Users:
    """A password file as it was: names and what is stored for them."""

    stamp: tuple[int, int, int]
    stored: dict[bytes, bytes]


def parsed(data: bytes) -> dict[bytes, bytes]:
    """Names and stored passwords: a name's first line counts; a password ends at a colon or a carriage return."""
    found: dict[bytes, bytes] = {}
    for line in data.split(b"\n"):
        name, colon, rest = line.partition(b":")
        if colon and name[:1] not in (b"#", b"\r"):
            found.setdefault(name, _END.split(rest, 1)[0])
    return found


class Checker:
    """What one site knows of password files and passwords."""

    def __init__(self) -> None:
        self.files: dict[bytes, Users] = {}
        self.right: set[bytes] = set()  # digests of stored and given password together
        self.secret = os.urandom(32)
        self.threads: Any = None

    def users(self, path: bytes) -> dict[bytes, bytes]:
        """The names in a file as it is now. Raises OSError."""
        stat = os.stat(path)
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        known = self.files.get(path)
        if known is None or known.stamp != stamp:
            with open(path, "rb") as file:
                data = file.read()
            if len(self.files) >= KEPT:
                self.files.clear()
            known = self.files[path] = Users(stamp, parsed(data))
        return known.stored

    def verdict(self, password: bytes, stored: bytes) -> bool | Awaitable[bool]:
        """Whether a password is right, at once or by and by. Raises CryptError."""
        digest = blake2b(stored + b"\n" + password, key=self.secret, digest_size=32).digest()
        if digest in self.right:
            return True
        if slow(stored):
            return self._slowly(password, stored, digest)
        return self._remember(matches(password, stored), digest)

    async def _slowly(self, password: bytes, stored: bytes, digest: bytes) -> bool:
        from asyncio import get_running_loop

        if self.threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self.threads = ThreadPoolExecutor(CHECKERS, "passwords")
        found = await get_running_loop().run_in_executor(self.threads, matches, password, stored)
        return self._remember(found, digest)

    def _remember(self, found: bool, digest: bytes) -> bool:
        if found:
            if len(self.right) >= KEPT:
                self.right.clear()
            self.right.add(digest)
        return found


def credentials(request: Request) -> tuple[bytes, bytes] | None:
    """Name and password of the Authorization header; None if there are none that can be read."""
    value = request.headers.get(b"authorization")
    if value is None or value[:6].lower() != b"basic ":
        return None
    code = value[6:].lstrip(b" ").partition(b"=")[0]
    try:
        name, colon, password = b64decode(code + b"=" * (-len(code) % 4), validate=True).partition(b":")
    except ValueError:
        return None
    return (name, password) if name and colon else None


def asking(conf: AuthBasic, build: Build) -> Handler | None:
    """The handler of a level that asks for a password."""
    if conf.auth_basic is None or conf.auth_basic_user_file is None:
        return None
    realm = build.text(conf.auth_basic)
    if realm.constant == b"off":
        return None
    file, folder = conf.auth_basic_user_file
    path = build.text(file)
    checker: Checker = build.shared.setdefault(Checker, Checker())
    sole = build.settings.satisfy == "any"
    beside = os.fsencode(folder)  # names that are not absolute are relative to the configuration
    return _handler(realm, lambda request: os.path.join(beside, path(request)), checker, sole=sole)


def _handler(realm: Compiled, path: Callable[[Request], bytes], checker: Checker, *, sole: bool) -> Handler:
    def auth_basic(request: Request) -> Any:
        asked = realm(request)
        if asked == b"off":
            return None
        given = credentials(request)
        if given is None:
            report(request, log.INFO, "no user/password was provided for basic authentication")
            raise _refusal(asked)
        name, password = given
        stored = _stored(request, checker, path(request), name)
        if stored is None:
            raise _refusal(asked)
        try:
            found = checker.verdict(password, stored)
        except CryptError as error:
            raise _broken(request, error) from None
        if not isinstance(found, bool):
            return _settle(request, name, asked, found, sole=sole)
        _settled(request, name, asked, found, sole=sole)
        return None

    return auth_basic


async def _settle(request: Request, name: bytes, realm: bytes, found: Awaitable[bool], *, sole: bool) -> None:
    try:
        right = await found
    except CryptError as error:
        raise _broken(request, error) from None
    _settled(request, name, realm, right, sole=sole)


def _settled(request: Request, name: bytes, realm: bytes, right: bool, *, sole: bool) -> None:
    if not right:
        report(request, log.ERROR, f'user "{_text(name)}": password mismatch')
        raise _refusal(realm)
    if sole:
        raise Admitted


def _stored(request: Request, checker: Checker, path: bytes, name: bytes) -> bytes | None:
    """What is stored for a name, None if it is unknown. Raises HttpError if the file cannot be read."""
    try:
        stored = checker.users(path).get(name)
    except OSError as error:
        absent = error.errno == ENOENT
        report(request, log.ERROR if absent else log.CRIT, f'open() "{_text(path)}" failed {log.reason(error)}')
        raise HttpError(403 if absent else 500) from None
    if stored is None:
        report(request, log.ERROR, f'user "{_text(name)}" was not found in "{_text(path)}"')
    return stored


def _refusal(realm: bytes) -> HttpError:
    return HttpError(401, fields=[(b"WWW-Authenticate", b'Basic realm="' + realm + b'"')])


def _broken(request: Request, error: Exception) -> HttpError:
    report(request, log.CRIT, f"auth_basic: {error}")
    return HttpError(500)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


module = Module(name="auth_basic", conf=AuthBasic, handlers={Phase.ACCESS: asking})
