"""What Python's ssl module leaves out of OpenSSL: its own functions, called on the library that module is linked with.

nginx lets a bad client certificate through the handshake, changes protocols by server name and loads keys without
files; the ssl module can do none of it. Contexts stay the module's (`ssl.SSLContext`): this file reads the pointer that
such an object holds, after a test at import that it is read from the right place, and hands it to OpenSSL.
Source: https://docs.openssl.org/3.0/man3/
"""

import _ssl  # for the library it is linked with
import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_long, c_size_t, c_uint64, c_ulong, c_void_p
from typing import Any

HELLO = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_int), c_void_p)  # SSL, its alert, argument
_VERIFY = ctypes.CFUNCTYPE(c_int, c_int, c_void_p)
_HEAD = object.__basicsize__  # of any object; the pointer stands right behind it (PySSLContext of CPython's _ssl.c)
_TEXT = 0x01  # ERR_TXT_STRING
_NO_START_LINE = (9, 108)  # ERR_LIB_PEM, PEM_R_NO_START_LINE
VERIFY_NONE, VERIFY_PEER = 0, 1
# of SSL_ctrl and SSL_CTX_ctrl
SET_MODE_CACHE, SET_MAX_FRAGMENT, SET_TICKET_KEYS, SET_CHAIN, ADD_CHAIN, SET_GROUPS = 44, 52, 59, 88, 89, 92
SET_CACHE_SIZE, SET_LEAST_VERSION, SET_MOST_VERSION, GET_GROUP = 42, 123, 124, 134
_RAW_CIPHERS = 110


class TlsError(Exception):
    """OpenSSL refuses; the message is nginx's, with OpenSSL's reasons."""


def _load() -> Any:
    try:
        library = ctypes.PyDLL(getattr(_ssl, "__file__", None))
        library.SSL_CTX_set_client_hello_cb  # noqa: B018  # raises AttributeError where it cannot be reached
    except (OSError, AttributeError):
        raise ImportError("TLS needs a Python whose ssl module is linked with a shared OpenSSL library") from None
    return library


_library = _load()


def function(name: str, result: Any, *arguments: Any) -> Any:
    """One of OpenSSL's, with its types."""
    found = getattr(_library, name)
    found.restype, found.argtypes = result, arguments
    return found


_pointer = c_void_p
ctx_ctrl = function("SSL_CTX_ctrl", c_long, _pointer, c_int, c_long, c_void_p)
ssl_ctrl = function("SSL_ctrl", c_long, _pointer, c_int, c_long, c_void_p)
ctx_options = function("SSL_CTX_get_options", c_uint64, _pointer)
ctx_set_options = function("SSL_CTX_set_options", c_uint64, _pointer, c_uint64)
ctx_clear_options = function("SSL_CTX_clear_options", c_uint64, _pointer, c_uint64)
ctx_ciphers = function("SSL_CTX_set_cipher_list", c_int, _pointer, c_char_p)
ctx_timeout = function("SSL_CTX_set_timeout", c_long, _pointer, c_long)
ctx_session_id = function("SSL_CTX_set_session_id_context", c_int, _pointer, c_char_p, c_int)
ctx_depth = function("SSL_CTX_set_verify_depth", None, _pointer, c_int)
_ctx_get_depth = function("SSL_CTX_get_verify_depth", c_int, _pointer)
_ctx_get_mode = function("SSL_CTX_get_verify_mode", c_int, _pointer)
_ctx_set_verify = function("SSL_CTX_set_verify", None, _pointer, c_int, c_void_p)
_ctx_set_hello = function("SSL_CTX_set_client_hello_cb", None, _pointer, c_void_p, c_void_p)
_ctx_certificate = function("SSL_CTX_use_certificate", c_int, _pointer, _pointer)
_ctx_key = function("SSL_CTX_use_PrivateKey", c_int, _pointer, _pointer)
_ctx_store = function("SSL_CTX_get_cert_store", _pointer, _pointer)
_ctx_client_ca = function("SSL_CTX_add_client_CA", c_int, _pointer, _pointer)
_ssl_ctx = function("SSL_set_SSL_CTX", _pointer, _pointer, _pointer)
_ssl_set_verify = function("SSL_set_verify", None, _pointer, c_int, c_void_p)
_ssl_depth = function("SSL_set_verify_depth", None, _pointer, c_int)
_ssl_options = function("SSL_get_options", c_uint64, _pointer)
_ssl_set_options = function("SSL_set_options", c_uint64, _pointer, c_uint64)
_ssl_clear_options = function("SSL_clear_options", c_uint64, _pointer, c_uint64)
_ssl_certificate = function("SSL_use_certificate", c_int, _pointer, _pointer)
_ssl_key = function("SSL_use_PrivateKey", c_int, _pointer, _pointer)
_ssl_result = function("SSL_get_verify_result", c_long, _pointer)
_PEER = "SSL_get1_peer_certificate" if hasattr(_library, "SSL_get1_peer_certificate") else "SSL_get_peer_certificate"
peer_certificate = function(_PEER, _pointer, _pointer)  # the latter is OpenSSL 1.1.1's
_extension = function(
    "SSL_client_hello_get0_ext", c_int, _pointer, c_int, POINTER(POINTER(ctypes.c_ubyte)), POINTER(c_size_t)
)
_result_text = function("X509_verify_cert_error_string", c_char_p, c_long)
_store_add = function("X509_STORE_add_cert", c_int, _pointer, _pointer)
_store_crl = function("X509_STORE_add_crl", c_int, _pointer, _pointer)
_store_flags = function("X509_STORE_set_flags", c_int, _pointer, c_ulong)
_subject = function("X509_get_subject_name", _pointer, _pointer)
_name_hash = function("X509_NAME_oneline", c_void_p, _pointer, c_char_p, c_int)
certificate_free = function("X509_free", None, _pointer)
_crl_free = function("X509_CRL_free", None, _pointer)
_key_free = function("EVP_PKEY_free", None, _pointer)
_check_host = function("X509_check_host", c_int, _pointer, c_char_p, c_size_t, ctypes.c_uint, c_void_p)
_check_ip = function("X509_check_ip_asc", c_int, _pointer, c_char_p, ctypes.c_uint)
_new_buffer = function("BIO_new_mem_buf", _pointer, c_char_p, c_int)
_new_file = function("BIO_new_file", _pointer, c_char_p, c_char_p)
_memory = function("BIO_s_mem", _pointer)
_new = function("BIO_new", _pointer, _pointer)
_read = function("BIO_read", c_int, _pointer, c_char_p, c_int)
_free = function("BIO_free", c_int, _pointer)
_pem_first = function("PEM_read_bio_X509_AUX", _pointer, _pointer, c_void_p, c_void_p, c_void_p)
_pem_next = function("PEM_read_bio_X509", _pointer, _pointer, c_void_p, c_void_p, c_void_p)
_pem_crl = function("PEM_read_bio_X509_CRL", _pointer, _pointer, c_void_p, c_void_p, c_void_p)
_pem_key = function("PEM_read_bio_PrivateKey", _pointer, _pointer, c_void_p, c_void_p, c_char_p)
_error_next = function("ERR_get_error", c_ulong)
_error_peek = function("ERR_peek_error_data", c_ulong, POINTER(c_char_p), POINTER(c_int))
_error_last = function("ERR_peek_last_error", c_ulong)
_error_text = function("ERR_error_string_n", None, c_ulong, c_char_p, c_size_t)
_cipher = function("SSL_CIPHER_find", _pointer, _pointer, c_char_p)
_cipher_name = function("SSL_CIPHER_get_name", c_char_p, _pointer)
_conf_new = function("SSL_CONF_CTX_new", _pointer)
_conf_flags = function("SSL_CONF_CTX_set_flags", ctypes.c_uint, _pointer, ctypes.c_uint)
_conf_target = function("SSL_CONF_CTX_set_ssl_ctx", None, _pointer, _pointer)
_conf_type = function("SSL_CONF_cmd_value_type", c_int, _pointer, c_char_p)
_conf_command = function("SSL_CONF_cmd", c_int, _pointer, c_char_p, c_char_p)
_conf_finish = function("SSL_CONF_CTX_finish", c_int, _pointer)
_conf_free = function("SSL_CONF_CTX_free", None, _pointer)


LIBRARY = str(function("OpenSSL_version", c_char_p, c_int)(0).decode())  # `OpenSSL 3.0.17 1 Jul 2025`


def context_pointer(context: Any) -> int:
    """The SSL_CTX of an `ssl.SSLContext`."""
    return c_void_p.from_address(id(context) + _HEAD).value or 0


def connection_pointer(connection: Any) -> int:
    """The SSL of an `_ssl._SSLSocket`: its second field (`PyObject *Socket; SSL *ssl`)."""
    return c_void_p.from_address(id(connection) + _HEAD + ctypes.sizeof(c_void_p)).value or 0


def reasons() -> str:
    """Take what OpenSSL has to say of its failure: ` (SSL: error:…)`, or nothing (ngx_ssl_error)."""
    parts = []
    data, flags, text = c_char_p(), c_int(), ctypes.create_string_buffer(256)
    while code := _error_peek(byref(data), byref(flags)):
        _error_text(code, text, len(text))
        words = text.value.decode("utf-8", "replace")
        if data.value and flags.value & _TEXT:
            words += ":" + data.value.decode("utf-8", "replace")
        parts.append(words)
        _error_next()
    return f" (SSL: {' '.join(parts)})" if parts else ""


def text(value: str | bytes) -> c_void_p:
    """A string as an argument of `ctx_ctrl`, which copies it."""
    return ctypes.cast(c_char_p(value if isinstance(value, bytes) else value.encode()), c_void_p)


def failed(what: str) -> TlsError:
    """The error for a call that failed."""
    return TlsError(what + reasons())


# --- files in PEM


@contextmanager
def _buffer(data: bytes) -> Iterator[int]:
    bio = _new_buffer(data, len(data))
    try:
        yield bio
    finally:
        _free(bio)


def printed(write: Callable[[int], Any]) -> bytes:
    """What a function of OpenSSL prints into a BIO."""
    bio = _new(_memory())
    pieces, piece = [], ctypes.create_string_buffer(4096)
    try:
        write(bio)
        while (count := _read(bio, piece, len(piece))) > 0:
            pieces.append(piece.raw[:count])
    finally:
        _free(bio)
    return b"".join(pieces)


def read(path: str, message: str) -> bytes:
    """A file's bytes. Raises TlsError with the message and the reasons that nginx's BIO_new_file() has."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        name = path.encode("utf-8", "surrogateescape")
        bio = _new_file(name, b"r")
        if bio:
            _free(bio)
        raise failed(message) from None


def certificates(data: bytes, what: str) -> list[int]:
    """The X509s of a PEM text, to be freed by the caller. Raises TlsError."""
    found = []
    with _buffer(data) as bio:
        first = _pem_first(bio, None, None, None)
        if not first:
            raise failed(f"{what}: PEM_read_bio_X509_AUX() failed")
        while first:
            found.append(first)
            first = _pem_next(bio, None, None, None)
        last = _error_last()
        if last and (last >> 23 & 0xFF, last & 0x7FFFFF) != _NO_START_LINE:
            raise failed(f"{what}: PEM_read_bio_X509() failed")
    reasons()
    return found


def private_key(data: bytes, passwords: list[bytes], what: str) -> int:
    """The EVP_PKEY of a PEM text, to be freed by the caller; every password is tried. Raises TlsError."""
    for password in passwords or [b""]:
        with _buffer(data) as bio:
            key: int = _pem_key(bio, None, None, password)
        if key:
            reasons()
            return key
    raise failed(f"{what}: PEM_read_bio_PrivateKey() failed")


def use_pair(target: int, chain: bytes, key: bytes, passwords: list[bytes], names: tuple[str, str]) -> None:
    """Give a context a certificate, its chain and its key, all PEM; `names` are their files. Raises TlsError."""
    _use(ctx_ctrl, _ctx_certificate, _ctx_key, "SSL_CTX_use", target, chain, key, passwords, names)


def use_pair_now(target: int, chain: bytes, key: bytes, passwords: list[bytes], names: tuple[str, str]) -> None:
    """The same for one connection (an SSL)."""
    _use(ssl_ctrl, _ssl_certificate, _ssl_key, "SSL_use", target, chain, key, passwords, names)


def _use(
    control: Any, use: Any, use_key: Any, name: str, target: int, chain: bytes, key: bytes, passwords: Any, names: Any
) -> None:
    found = certificates(chain, f'cannot load certificate "{names[0]}"')
    try:
        if not use(target, found[0]):
            raise failed(f'{name}_certificate("{names[0]}") failed')
        control(target, SET_CHAIN, 0, None)
        for one in found[1:]:
            if not control(target, ADD_CHAIN, 1, one):
                raise failed(f'{name[:-4]}_add1_chain_cert("{names[0]}") failed')
    finally:
        for one in found:
            certificate_free(one)
    pointer = private_key(key, passwords, f'cannot load certificate key "{names[1]}"')
    try:
        if not use_key(target, pointer):
            raise failed(f'{name}_PrivateKey("{names[1]}") failed')
    finally:
        _key_free(pointer)


def trust(context: int, data: bytes, path: str, *, announce: bool) -> None:
    """Add authorities, PEM; `announce` names them to clients, each once. Raises TlsError."""
    store, seen = _ctx_store(context), set()
    for one in certificates(data, f'cannot load certificate "{path}"'):
        name = printed_name(_subject(one))
        if not _store_add(store, one):
            raise failed(f'X509_STORE_add_cert("{path}") failed')
        if announce and name not in seen:
            _ctx_client_ca(context, one)
        seen.add(name)
        certificate_free(one)


def revoke(context: int, data: bytes, path: str) -> None:
    """Add lists of revoked certificates, PEM, and check every certificate against them. Raises TlsError."""
    store, count = _ctx_store(context), 0
    with _buffer(data) as bio:
        while crl := _pem_crl(bio, None, None, None):
            _store_crl(store, crl)
            _crl_free(crl)
            count += 1
    if not count:
        raise failed(f'cannot load CRL "{path}": PEM_read_bio_X509_CRL() failed')
    reasons()
    _store_flags(store, 0x4 | 0x8)  # X509_V_FLAG_CRL_CHECK, X509_V_FLAG_CRL_CHECK_ALL


_library.CRYPTO_free.argtypes, _library.CRYPTO_free.restype = (c_void_p, c_char_p, c_int), None


def printed_name(name: int) -> bytes:
    """A distinguished name in OpenSSL's old form: /CN=…"""
    pointer = _name_hash(name, None, 0)
    if not pointer:
        return b""
    text = ctypes.string_at(pointer)
    _library.CRYPTO_free(pointer, b"", 0)
    return text


# --- contexts and connections


def _through(_ok: int, _store: Any) -> int:
    return 1  # judged after the handshake, by `verdict` (ngx_ssl_verify_callback)


_let_through = _VERIFY(_through)


def ask_certificate(context: int, depth: int) -> None:
    """Ask the other side for a certificate, and let the handshake go on whatever it shows."""
    _ctx_set_verify(context, VERIFY_PEER, ctypes.cast(_let_through, c_void_p))
    ctx_depth(context, depth)


def on_hello(context: int, callback: Any) -> None:
    """Call a `HELLO` function, which must be kept alive, when a client's greeting has come."""
    _ctx_set_hello(context, ctypes.cast(callback, c_void_p), None)


def server_name(connection: int) -> bytes | None:
    """The host name in a greeting (RFC 6066 section 3), None if there is none. Only inside `HELLO`."""
    data, size = POINTER(ctypes.c_ubyte)(), c_size_t()
    if not _extension(connection, 0, byref(data), byref(size)) or size.value < 5:
        return None
    raw = ctypes.string_at(data, size.value)
    length = int.from_bytes(raw[3:5], "big")
    return raw[5 : 5 + length] if raw[2] == 0 and len(raw) >= 5 + length else None


def change_context(connection: int, context: int) -> None:
    """Go on with another context, its options and what it asks of clients (ngx_http_ssl_servername)."""
    _ssl_ctx(connection, context)
    mode = _ctx_get_mode(context)
    _ssl_set_verify(connection, mode, ctypes.cast(_let_through, c_void_p) if mode else None)
    _ssl_depth(connection, _ctx_get_depth(context))
    options = ctx_options(context)
    _ssl_clear_options(connection, _ssl_options(connection) & ~options)
    _ssl_set_options(connection, options)


def offered_ciphers(connection: int) -> list[bytes]:
    """The ciphers that a client has offered, in its order; unknown ones by their number."""
    raw = c_char_p()
    size = ssl_ctrl(connection, _RAW_CIPHERS, 0, ctypes.cast(byref(raw), c_void_p))
    data = ctypes.string_at(ctypes.cast(raw, c_void_p), size) if size > 0 else b""
    pairs = [data[at : at + 2] for at in range(0, len(data), 2)]
    known = [(one, _cipher(connection, one)) for one in pairs]
    return [_cipher_name(cipher) if cipher else b"0x" + one.hex().encode() for one, cipher in known]


def verdict(connection: int) -> tuple[int, str]:
    """The number and the words for how the other side's certificate was judged; 0 is good."""
    number = int(_ssl_result(connection))
    return number, str((_result_text(number) or b"").decode())


def matches(connection: int, name: bytes) -> bool:
    """Whether the other side's certificate is for a host or address."""
    certificate = peer_certificate(connection)
    if not certificate:
        return False
    bare = name[1:-1] if name.startswith(b"[") else name
    good: bool = _check_host(certificate, bare, len(bare), 0, None) == 1 or _check_ip(certificate, bare, 0) == 1
    certificate_free(certificate)
    return good


def command(context: int, commands: Iterable[tuple[str, str, str]]) -> None:
    """Run commands of SSL_CONF_cmd(3): name, value, the folder of relative file names. Raises TlsError."""
    conf = _conf_new()
    try:
        _conf_flags(conf, 0x2 | 0x4 | 0x8 | 0x10 | 0x20)  # FILE, CLIENT, SERVER, SHOW_ERRORS, CERTIFICATE
        _conf_target(conf, context)
        for name, value, folder in commands:
            if _conf_type(conf, name.encode()) in (2, 3) and not value.startswith("/"):  # a file, a folder
                value = folder + value
            if _conf_command(conf, name.encode(), value.encode("utf-8", "surrogateescape")) <= 0:
                raise failed(f'SSL_CONF_cmd("{name}", "{value}") failed')
        if not _conf_finish(conf):
            raise failed("SSL_CONF_finish() failed")
    finally:
        _conf_free(conf)
