"""HTTPS: certificates, protocols and what is asked of clients' certificates (ngx_http_ssl_module).

Everything is loaded by the master when it reads the configuration, before workers change their user. Servers whose
directives come from the same place share a context.
Source: https://nginx.org/en/docs/http/ngx_http_ssl_module.html
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from gateway.config.args import bits, bytes_of, choice, duration, flag, integer, path, resolved, size, strings
from gateway.config.schema import Arg, ConfigError, In, Statement, block, directive, many
from gateway.http.escape import escape_component
from gateway.http.keyfiles import (
    FILES,
    Name,
    Pair,
    command_argument,
    made_of_variables,
    name_argument,
    opened,
    passwords_argument,
    read,
)
from gateway.http.message import Request
from gateway.http.router import Listen
from gateway.http.secured import PLAN, Port, ServerPlan, plan_of
from gateway.module import Build, Module, Phase, Variable
from gateway.net import openssl, tls, x509
from gateway.net.openssl import TlsError
from gateway.net.tls import Context, Secured

SERVERS = In.HTTP | In.SERVER
CONTEXTS = "contexts of TLS"  # in a site's shared state
PLACE = "place of a server"  # a note of its own level
_SERVER_CACHE, _NO_CLEAR, _NO_STORE = 0x2, 0x80, 0x200  # SSL_SESS_CACHE_…
_NO_TICKET = 1 << 14
_TICKET_KEY = 80  # bytes: name, HMAC key, AES-256 key


def _session_cache(statement: Statement) -> tuple[str, int]:
    """`off | none | [builtin[:size]] [shared:name:size]`: what kind, and for how many sessions (0: OpenSSL decides)."""
    kind, room = "none", 0
    for word in statement.args:
        name, _, rest = word.partition(":")
        if word in ("off", "none"):
            kind = word
        elif name == "builtin" and (not rest or rest.isdigit()):
            kind, room = "builtin", int(rest or 20480)
        elif name == "shared" and rest.count(":") == 1 and rest[:1] != ":":
            kind, room = "shared", _sessions(rest, word)
        else:
            raise ConfigError(f'invalid session cache "{word}"')
    return kind, room


def _sessions(rest: str, word: str) -> int:
    try:
        room = bytes_of(rest.partition(":")[2])
    except ValueError:
        raise ConfigError(f'invalid session cache "{word}"') from None
    if room < 8 * 4096:
        raise ConfigError(f'session cache "{word}" is too small')
    return room // 256  # nginx: one megabyte holds about 4000


def _curves(statement: Statement) -> str:
    return statement.args[0]


def _ticket_key(statement: Statement) -> bytes:
    name = resolved(statement, statement.args[0], conf=True)
    key = opened(name, statement.place)
    if len(key) != _TICKET_KEY:
        raise ConfigError(f'"{name}" must be {_TICKET_KEY} bytes: shorter keys are not supported yet')
    return key


def _off(statement: Statement) -> None:
    if statement.args != ("off",):
        raise ConfigError(f'"{statement.name}" is not supported yet')


@block
class Ssl:
    """How servers speak TLS."""

    ssl_certificate: tuple[Name, ...] = many(SERVERS, name_argument(), "A certificate, with its chain, PEM.")
    ssl_certificate_key: tuple[Name, ...] = many(SERVERS, name_argument(), "The key of a certificate, PEM.")
    ssl_password_file: tuple[bytes, ...] = directive(
        SERVERS, passwords_argument(), (), "Pass phrases of keys, one on each line.", default_text="-"
    )
    ssl_protocols: frozenset[str] = directive(
        SERVERS,
        bits("sslv2", "sslv3", "tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3"),
        frozenset(("tlsv1.2", "tlsv1.3")),
        "Versions that are spoken.",
        default_text="TLSv1.2 TLSv1.3",
    )
    ssl_ciphers: str = directive(
        SERVERS, Arg("ciphers", 1, 1, _curves), "HIGH:!aNULL:!MD5", "Ciphers, in OpenSSL's words."
    )
    ssl_prefer_server_ciphers: bool = directive(SERVERS, flag(), False, "Our order of ciphers counts.")
    ssl_ecdh_curve: str = directive(SERVERS, Arg("curve", 1, 1, _curves), "auto", "Curves, joined by colons.")
    ssl_dhparam: str = directive(SERVERS, path(conf=True), "", "Parameters for DHE ciphers, PEM.")
    ssl_conf_command: tuple[tuple[str, str, str], ...] = many(
        SERVERS, command_argument(), "A command of OpenSSL's configuration."
    )
    ssl_buffer_size: int = directive(SERVERS, size(), 16384, "The largest record.", default_text="16k")
    ssl_session_cache: tuple[str, int] = directive(
        SERVERS,
        Arg("off | none | [builtin[:size]] [shared:name:size]", 1, 2, _session_cache),
        ("none", 0),
        "Where sessions are kept: in each worker, shared or not; tickets work across workers.",
        default_text="none",
    )
    ssl_session_timeout: float = directive(
        SERVERS, duration(whole=True), 300.0, "How long sessions may be used again.", default_text="5m"
    )
    ssl_session_tickets: bool = directive(SERVERS, flag(), True, "Let clients keep their sessions.")
    ssl_session_ticket_key: tuple[bytes, ...] = many(
        SERVERS, Arg("file", 1, 1, _ticket_key), "80 random bytes that tickets are made with; the first file counts."
    )
    ssl_reject_handshake: bool = directive(SERVERS, flag(), False, "Refuse handshakes for this server.")
    ssl_verify_client: str = directive(
        SERVERS, choice("off", "on", "optional", "optional_no_ca"), "off", "Ask clients for certificates."
    )
    ssl_verify_depth: int = directive(SERVERS, integer(), 1, "How long their chains may be.")
    ssl_client_certificate: str = directive(
        SERVERS, path(conf=True, syntax="file"), "", "Authorities that clients are told of, PEM."
    )
    ssl_trusted_certificate: str = directive(
        SERVERS, path(conf=True, syntax="file"), "", "Authorities that clients are not told of, PEM."
    )
    ssl_crl: str = directive(SERVERS, path(conf=True, syntax="file"), "", "Revoked certificates, PEM.")
    ssl_key_log: str = directive(SERVERS, path(syntax="file"), "", "Where secrets are written, for network analysers.")

    missing: tuple[Any, ...] = many(
        SERVERS,
        dict.fromkeys(("ssl_early_data", "ssl_ocsp", "ssl_ech_file"), Arg("off", 1, None, _off)),
        "Not supported yet; only what switches it off is accepted.",
    )
    idle: tuple[Any, ...] = many(
        SERVERS,
        {
            name: strings()
            for name in (
                "ssl_certificate_cache", "ssl_certificate_compression", "ssl_ocsp_cache", "ssl_ocsp_responder",
                "ssl_stapling", "ssl_stapling_file", "ssl_stapling_responder", "ssl_stapling_verify",
            )
        },
        "Accepted without effect.",
        idle="certificates are neither stapled, cached nor compressed yet",
    )  # fmt: skip


# --- compiling a server


def securing(conf: Ssl, build: Build) -> None:
    """Make a server's plan, for `listening`. Raises ConfigError."""
    if build.level.context is not In.SERVER:
        return
    build.notes[PLACE] = build.level.place
    made: dict[int, tuple[Ssl, ServerPlan]] = build.shared.setdefault(CONTEXTS, {})
    known = made.get(id(conf))
    if known is None:
        try:
            known = made[id(conf)] = (conf, _plan(conf, build))
        except TlsError as error:
            raise ConfigError(str(error)) from None
    build.notes[PLAN] = known[1]


def _plan(conf: Ssl, build: Build) -> ServerPlan:
    pairs = _pairs(conf)
    plan = ServerPlan(None, conf.ssl_verify_client, conf.ssl_reject_handshake)
    if not pairs and not conf.ssl_reject_handshake:
        return plan
    context = plan.context = tls.context(
        _protocols(conf.ssl_protocols), conf.ssl_ciphers, server=True, prefer=conf.ssl_prefer_server_ciphers
    )
    files: dict[str, bytes] = build.shared.setdefault(FILES, {})
    phrases = list(conf.ssl_password_file)
    digest = sha256()
    dynamic: list[Pair] = []
    for certificate, key in pairs:
        if "$" in certificate[0] + key[0]:
            dynamic.append(made_of_variables(certificate, key, build))
        else:
            chain, chain_name = read(certificate, files, "certificate")
            secret, key_name = read(key, files, "certificate key")
            openssl.use_pair(context.pointer, chain, secret, phrases, (chain_name, key_name))
            digest.update(chain)
    plan.pairs, plan.passwords = tuple(dynamic), tuple(phrases)
    _ask(conf, context, files, digest)
    _tune(conf, context, digest.digest())
    openssl.command(context.pointer, conf.ssl_conf_command)
    return plan


def _protocols(words: frozenset[str]) -> list[str]:
    return [word.upper().replace("V", "v") for word in words]


def _pairs(conf: Ssl) -> list[tuple[Name, Name]]:
    names, keys = conf.ssl_certificate, conf.ssl_certificate_key
    if len(keys) < len(names):
        raise ConfigError(f'no "ssl_certificate_key" is defined for certificate "{names[-1][0]}"')
    return list(zip(names, keys, strict=False))


def _ask(conf: Ssl, context: Context, files: dict[str, bytes], digest: Any) -> None:
    """What is asked of clients' certificates."""
    told, trusted, asked = conf.ssl_client_certificate, conf.ssl_trusted_certificate, conf.ssl_verify_client
    if asked not in ("off", "optional_no_ca") and not told and not trusted:
        raise ConfigError("no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client")
    if asked != "off":
        openssl.ask_certificate(context.pointer, conf.ssl_verify_depth)
        digest.update(asked.encode())
    for name, announced in ((told if asked != "off" else "", True), (trusted, False)):
        if name:
            data, _ = read((name, "", None), files, "certificate")
            openssl.trust(context.pointer, data, name, announce=announced)
            digest.update(data)
    if conf.ssl_crl:
        data, _ = read((conf.ssl_crl, "", None), files, "CRL")
        openssl.revoke(context.pointer, data, conf.ssl_crl)


def _tune(conf: Ssl, context: Context, identity: bytes) -> None:
    """Sessions, curves, sizes."""
    pointer, control = context.pointer, openssl.ctx_ctrl
    openssl.ctx_session_id(pointer, identity, 32)  # a session is good only where it was made
    kind, room = conf.ssl_session_cache
    modes = {"off": 0, "none": _SERVER_CACHE | _NO_CLEAR | _NO_STORE}
    control(pointer, openssl.SET_MODE_CACHE, modes.get(kind, _SERVER_CACHE), None)
    if kind not in modes:
        control(pointer, openssl.SET_CACHE_SIZE, room, None)
    openssl.ctx_timeout(pointer, int(conf.ssl_session_timeout))
    if not conf.ssl_session_tickets:
        openssl.ctx_set_options(pointer, _NO_TICKET)
    elif conf.ssl_session_ticket_key:
        key = openssl.text(conf.ssl_session_ticket_key[0])
        control(pointer, openssl.SET_TICKET_KEYS, _TICKET_KEY, key)
    if conf.ssl_buffer_size < 16384:
        control(pointer, openssl.SET_MAX_FRAGMENT, max(conf.ssl_buffer_size, 512), None)
    curves = conf.ssl_ecdh_curve
    if curves != "auto" and not control(pointer, openssl.SET_GROUPS, 0, openssl.text(curves)):
        raise openssl.failed(f'SSL_CTX_set1_curves_list("{curves}") failed')
    if conf.ssl_dhparam:
        tls.dh_parameters(context, conf.ssl_dhparam)
    if conf.ssl_key_log:
        context.object.keylog_filename = conf.ssl_key_log


def listening(listens: Sequence[Listen]) -> None:
    """Give the addresses that speak TLS their plans. Raises ConfigError where no certificate is for one."""
    for listen in listens:
        if "ssl" not in listen.options:
            continue
        plans = [plan for server in listen.servers() if (plan := plan_of(server)) is not None]
        first = plan_of(listen.default)
        if first is None or first.context is None:
            place = listen.default.location.notes.get(PLACE)
            raise ConfigError(f'no "ssl_certificate" is defined for the "listen ... ssl" directive in {place}')
        listen.tls = Port(listen, first.context, verifies=any(plan.verify != "off" for plan in plans))


# --- variables


def _of(read_one: Callable[[Secured], bytes | None], *, keep: str = "") -> Variable:
    """A variable of the connection; `keep`: under this name its value is remembered, for it does not change."""

    def get(request: Request) -> bytes | None:
        transport: Any = getattr(request.main.peer, "transport", None)
        secured: Secured | None = transport.get_extra_info("tls") if transport is not None else None
        if secured is None or (secured.ssl is None):
            return None
        if not keep:
            return read_one(secured)
        if secured.known is None:
            secured.known = {}
        if keep not in secured.known:
            secured.known[keep] = read_one(secured)
        return secured.known[keep]

    return Variable(get)


def _text(value: str | None) -> bytes | None:
    return value.encode() if value else None


def _cipher(secured: Secured) -> bytes | None:
    found = secured.ssl.cipher()
    return found[0].encode() if found else None


def _ciphers(secured: Secured) -> bytes | None:
    return b":".join(openssl.offered_ciphers(secured.pointer))


def _session(secured: Secured) -> bytes | None:
    session = secured.ssl.session
    return session.id.hex().encode() if session is not None and session.id else None


def _verified(secured: Secured) -> bytes | None:
    if not secured.ssl.getpeercert(True):
        return b"NONE"
    number, words = openssl.verdict(secured.pointer)
    return b"FAILED:" + words.encode() if number else b"SUCCESS"


def _der(make: Callable[[bytes], bytes]) -> Callable[[Secured], bytes | None]:
    def get(secured: Secured) -> bytes | None:
        der = secured.ssl.getpeercert(True)
        return make(der) if der else None

    return get


def _fact(fact: x509.Fact) -> Callable[[Secured], bytes | None]:
    def get(secured: Secured) -> bytes | None:
        certificate = openssl.peer_certificate(secured.pointer)
        if not certificate:
            return None
        try:
            return fact(certificate)
        finally:
            openssl.certificate_free(certificate)

    return get


def _curve(secured: Secured) -> bytes | None:
    number = openssl.ssl_ctrl(secured.pointer, openssl.GET_GROUP, 0, None)
    return x509.group_name(number) if number else None


_CLIENT: dict[str, Callable[[Secured], bytes | None]] = {
    "cert": _der(lambda der: x509.pem(der).replace(b"\n", b"\n\t")),
    "raw_cert": _der(lambda der: x509.pem(der) + b"\n"),
    "escaped_cert": _der(lambda der: escape_component(x509.pem(der) + b"\n")),
    "fingerprint": _der(x509.fingerprint),
    "verify": _verified,
    "serial": _fact(x509.serial),
    "s_dn": _fact(x509.subject),
    "i_dn": _fact(x509.issuer),
    "s_dn_legacy": _fact(x509.subject_legacy),
    "i_dn_legacy": _fact(x509.issuer_legacy),
    "v_start": _fact(x509.start),
    "v_end": _fact(x509.end),
}

module = Module(
    name="ssl",
    conf=Ssl,
    handlers={Phase.POST_READ: securing},
    listening=listening,
    variables={
        "ssl_protocol": _of(lambda secured: _text(secured.ssl.version()), keep="protocol"),
        "ssl_cipher": _of(_cipher, keep="cipher"),
        "ssl_ciphers": _of(_ciphers, keep="ciphers"),
        "ssl_curve": _of(_curve, keep="curve"),
        "ssl_alpn_protocol": _of(lambda secured: _text(secured.ssl.selected_alpn_protocol()), keep="alpn"),
        "ssl_server_name": _of(lambda secured: secured.name),
        "ssl_session_id": _of(_session),
        "ssl_session_reused": _of(lambda secured: b"r" if secured.ssl.session_reused else b"."),
        "ssl_early_data": _of(lambda secured: None),
        "ssl_client_v_remain": _of(_fact(x509.remain)),
        **{f"ssl_client_{name}": _of(get, keep=name) for name, get in _CLIENT.items()},
    },
)
