"""TLS between a TCP transport and a protocol: records go through memory, in the turn they come, without a Task.

A `Secured` is the transport's protocol and its own protocol's transport. It works in the same way for clients that
connect to us and for upstream servers that we connect to; who decides (which context, what to do with plain HTTP)
gives it a `Plan`. The event loop's own `ssl=` costs a quarter more CPU for each request.
"""

import _ssl
import asyncio
import ssl  # noqa: TID251
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from gateway import log
from gateway.net import openssl
from gateway.net.openssl import TlsError

_RECORD = 16384  # bytes of plain text in a record, at most (RFC 8446 section 5.1)
_HANDSHAKE = 0x16  # the first byte of a greeting (RFC 8446 section 5.1); 0x80 and above: SSLv2's
_INTERNAL_ERROR = 80
_NO_RENEGOTIATION = 1 << 30
_SERVER_CIPHERS = 1 << 22
_OFF = {
    "SSLv3": 1 << 25,
    "TLSv1": 1 << 26,
    "TLSv1.1": 1 << 28,
    "TLSv1.2": 1 << 27,
    "TLSv1.3": 1 << 29,
}


@dataclass(slots=True, eq=False)
class Context:
    """A context of the ssl module, and OpenSSL's own under it."""

    object: ssl.SSLContext
    pointer: int


def context(protocols: Iterable[str], ciphers: str, *, server: bool, prefer: bool = False) -> Context:
    """A new context without certificates. Raises TlsError.

    `protocols`: nginx's names of versions. `prefer`: the server's order of ciphers counts.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    if not server:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    pointer = openssl.context_pointer(made)
    spoken = set(protocols)
    openssl.ctx_ctrl(pointer, openssl.SET_LEAST_VERSION, 0, None)  # the options below say it, version by version
    openssl.ctx_ctrl(pointer, openssl.SET_MOST_VERSION, 0, None)
    off = sum(bit for name, bit in _OFF.items() if name not in spoken)
    openssl.ctx_clear_options(pointer, _SERVER_CIPHERS | sum(_OFF.values()))
    openssl.ctx_set_options(pointer, _NO_RENEGOTIATION | off | (_SERVER_CIPHERS if prefer else 0))
    if not openssl.ctx_ciphers(pointer, ciphers.encode()):
        raise openssl.failed(f'SSL_CTX_set_cipher_list("{ciphers}") failed')
    if server:
        made.set_alpn_protocols(["http/1.1", "http/1.0"])
        openssl.on_hello(pointer, _HELLO)
    return Context(made, pointer)


def dh_parameters(made: Context, path: str) -> None:
    """`ssl_dhparam`. Raises TlsError."""
    openssl.read(path, f'BIO_new_file("{path}") failed')
    try:
        made.object.load_dh_params(path)
    except ssl.SSLError as error:
        raise TlsError(f'PEM_read_bio_DHparams("{path}") failed ({explained(error)})') from None


def _check_pointers() -> None:
    """Read a context's options in both ways; else this Python keeps its pointers elsewhere. Raises ImportError."""
    probe = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    probe.options |= ssl.OP_NO_TICKET
    if openssl.ctx_options(openssl.context_pointer(probe)) != int(probe.options) & (1 << 64) - 1:
        raise ImportError("TLS is not supported with this build of Python")


def explained(error: Exception) -> str:
    """What nginx would write of OpenSSL's error."""
    reason = getattr(error, "reason", None)
    if isinstance(error, ssl.SSLError) and reason:
        library = error.library or "SSL"
        return f"SSL: error:{_code(library, reason):08X}:{library} routines::{reason.lower().replace('_', ' ')}"
    return str(error)


@cache
def _code(library: str, reason: str) -> int:
    """OpenSSL 3's number of an error, of which the ssl module keeps the names alone."""
    libraries = getattr(_ssl, "lib_codes_to_names", {})
    for (number, code), name in getattr(_ssl, "err_codes_to_names", {}).items():
        if name == reason and libraries.get(number) == library:
            return int(number) << 23 | int(code)
    return 0


class Plan(Protocol):
    """Who decides about a connection."""

    def context(self) -> Context:
        """The context to begin with."""

    def greeted(self, secured: "Secured", connection: int, name: bytes | None) -> int:
        """A client has said which host it wants: change the context, or return an alert to refuse; 0 goes on."""

    def established(self, secured: "Secured") -> None:
        """The handshake is over: `secured.inner` gets what follows. Raises TlsError to end it here."""

    def plain(self, secured: "Secured") -> None:
        """A client speaks without TLS: `secured.inner` gets it as it is."""

    def failed(self, secured: "Secured", message: str) -> None:
        """There was no handshake."""

    def broken(self, secured: "Secured", message: str) -> None:
        """The records make no sense: the connection ends."""

    def begin(self, secured: "Secured") -> None:
        """As a client: call `secured.begin`. Raises TlsError."""

    def ended(self, secured: "Secured") -> None:
        """The connection is gone."""


class Secured(asyncio.Protocol):
    """One connection under TLS."""

    __slots__ = (
        "established",
        "incoming",
        "inner",
        "known",
        "name",
        "outgoing",
        "plan",
        "shut",
        "ssl",
        "transport",
    )

    def __init__(self, inner: Any, plan: Any = None) -> None:
        self.inner, self.plan = inner, plan
        self.transport: Any = None
        self.ssl: Any = None  # made with the first bytes
        self.incoming: Any = None
        self.outgoing: Any = None
        self.name: bytes | None = None  # asked for in the greeting
        self.known: dict[str, bytes | None] | None = None  # what variables have found out
        self.established = False
        self.shut = True  # nothing is to be written: not yet, or not any more

    @property
    def pointer(self) -> int:
        """OpenSSL's own connection."""
        return openssl.connection_pointer(self.ssl)

    def begin(self, **options: Any) -> None:
        """Make ready for a handshake; `options` are those of `SSLContext.wrap_bio`."""
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        made: Any = self.plan.context().object.wrap_bio(self.incoming, self.outgoing, **options)
        self.ssl = made._sslobj  # its methods without the wrappers

    # --- as the transport's protocol

    def connection_made(self, transport: Any) -> None:
        """A client has connected (its first byte will say whether it speaks TLS), or we have."""
        self.transport = transport
        if self.plan is not None:  # we are the client
            self._begin_as_client()
            return
        self.inner.connection_made(self)
        self.plan = self.inner.listen.tls
        if self.plan is None:
            self._step_aside()

    def _begin_as_client(self) -> None:
        try:
            self.plan.begin(self)
        except TlsError as error:
            self._fail(str(error))
            return
        self.shake()

    def _step_aside(self) -> None:
        inner, self.inner = self.inner, None
        inner.transport = self.transport
        self.transport.set_protocol(inner)

    def data_received(self, data: bytes) -> None:
        """Records."""
        if self.established:
            self.incoming.write(data)
            self._decrypt()
            return
        if self.ssl is None:
            if data[0] != _HANDSHAKE and data[0] < 0x80:
                inner = self.inner
                self.plan.plain(self)
                self._step_aside()
                inner.data_received(data)
                return
            self.begin(server_side=True)
        self.incoming.write(data)
        self.shake()

    def shake(self) -> None:
        """Go on with the handshake as far as what came allows."""
        _shaking.append(self)
        try:
            self.ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()  # the alert
            self._fail(f"SSL_do_handshake() failed ({explained(error)})")
            return
        finally:
            _shaking.pop()
        self.established, self.shut = True, False
        self._flush()
        try:
            self.plan.established(self)
        except TlsError as error:
            self._fail(str(error))
            return
        if self.incoming.pending and self.inner is not None:
            self._decrypt()

    def _fail(self, message: str) -> None:
        self.plan.failed(self, message)
        if self.transport is not None:
            self.transport.close()

    def _decrypt(self) -> None:
        read, incoming, inner = self.ssl.read, self.incoming, self.inner
        try:
            while data := read(_RECORD):  # a whole record: nothing is left inside OpenSSL
                inner.data_received(data)
                if self.inner is None:
                    return
                if not incoming.pending:
                    break
            else:
                self._closed_by_peer()
                return
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            if not self.shut:
                self.plan.broken(self, f"SSL_read() failed ({explained(error)})")
            self.transport.abort()
            return
        if self.outgoing.pending:
            self._flush()

    def _closed_by_peer(self) -> None:
        """The other side has said good-bye."""
        inner = self.inner
        if inner is not None and not inner.eof_received():
            self.close()

    def eof_received(self) -> bool:
        """The other side sends no more, and has not said so within TLS."""
        if self.established:
            return bool(self.inner.eof_received())
        if self.ssl is not None:
            self._fail("peer closed connection in SSL handshake")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._say_goodbye()  # unsaid, OpenSSL takes the session for a bad one
        if self.plan is not None:
            self.plan.ended(self)
        inner, self.inner = self.inner, None
        if inner is not None and inner.transport is not None:
            inner.connection_lost(error)

    def pause_writing(self) -> None:
        """The other side reads more slowly than we write."""
        if self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """The other side has caught up."""
        if self.inner is not None:
            self.inner.resume_writing()

    # --- as the inner protocol's transport

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        if self.shut or not data:
            return
        try:
            self.ssl.write(data)
        except ssl.SSLError as error:
            self.plan.broken(self, f"SSL_write() failed ({explained(error)})")
            self.transport.abort()
            return
        self.transport.write(self.outgoing.read())

    def _flush(self) -> None:
        if self.outgoing.pending:
            self.transport.write(self.outgoing.read())

    def _say_goodbye(self) -> None:
        if self.shut:
            return
        self.shut = True
        try:
            self.ssl.shutdown()
        except (ssl.SSLError, OSError):
            return  # it waits for the other side's good-bye: we do not

    def close(self) -> None:
        """Close when all is sent."""
        if not self.transport.is_closing():
            self._say_goodbye()
            if self.outgoing is not None:
                self._flush()
        self.transport.close()

    def write_eof(self) -> None:
        """Send no more."""
        self._say_goodbye()
        if self.outgoing is not None:
            self._flush()
        self.transport.write_eof()

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The transport's, but for its socket, which takes no plain text; `tls` is this itself."""
        if name == "tls":
            return self
        return default if name == "socket" else self.transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return bool(self.transport.is_closing())

    def can_write_eof(self) -> bool:
        return bool(self.transport.can_write_eof())

    def get_write_buffer_size(self) -> int:
        return int(self.transport.get_write_buffer_size())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.transport.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        self.transport.resume_reading()


def serving(factory: Callable[[], Any]) -> Callable[[], Secured]:
    """A factory of secured connections around one of protocols that have a `listen`, whose `tls` is the plan."""
    return lambda: Secured(factory())


# --- OpenSSL calls back

_shaking: list[Secured] = []  # whose handshake runs


def _greeted(connection: int, alert: Any, _argument: Any) -> int:
    try:
        secured = _shaking[-1]
        refusal = secured.plan.greeted(secured, connection, openssl.server_name(connection))
    except Exception as error:
        log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__))
        refusal = _INTERNAL_ERROR
    if refusal:
        alert[0] = refusal
    return 0 if refusal else 1


_HELLO = openssl.HELLO(_greeted)
_check_pointers()
