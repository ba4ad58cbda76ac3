"""TLS to upstream servers: what a location asks for, and the handshake on each new connection.

Source: https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_ssl_certificate; ngx_http_upstream_ssl_name,
ngx_http_upstream_ssl_handshake.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gateway.config.args import bits, flag, integer, path, string, text
from gateway.config.schema import ANYWHERE, ConfigError, Text, block, directive, many
from gateway.http import keyfiles
from gateway.http.flow import Wait
from gateway.http.keyfiles import Name, Pair, command_argument, name_argument, passwords_argument
from gateway.http.message import Request
from gateway.module import Build
from gateway.upstream.balance import Peer
from gateway.upstream.link import Link, UpstreamError
from gateway.upstream.pool import Group
from gateway.upstream.target import literal

if TYPE_CHECKING:
    from gateway.net.tls import Context, Secured

_TWINS = 1024  # groups kept of one location: more names than that begin anew
_DOING = "while SSL handshaking to upstream"


@block
class ProxySsl:
    """TLS to upstream servers."""

    proxy_ssl_certificate: Name = directive(
        ANYWHERE, name_argument(), ("", "", None), "Our certificate, for servers that ask for one.", default_text="-"
    )
    proxy_ssl_certificate_key: Name = directive(
        ANYWHERE, name_argument(), ("", "", None), "The key of our certificate.", default_text="-"
    )
    proxy_ssl_password_file: tuple[bytes, ...] = directive(
        ANYWHERE, passwords_argument(), (), "Pass phrases of keys, one on each line.", default_text="-"
    )
    proxy_ssl_ciphers: str = directive(ANYWHERE, string("ciphers"), "DEFAULT", "Ciphers offered, in OpenSSL's words.")
    proxy_ssl_protocols: frozenset[str] = directive(
        ANYWHERE,
        bits("sslv2", "sslv3", "tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3"),
        frozenset(("tlsv1.2", "tlsv1.3")),
        "Versions that are spoken.",
        default_text="TLSv1.2 TLSv1.3",
    )
    proxy_ssl_conf_command: tuple[tuple[str, str, str], ...] = many(
        ANYWHERE, command_argument(), "A command of OpenSSL's configuration."
    )
    proxy_ssl_name: Text = directive(
        ANYWHERE, text("name"), Text(""), "The server's name, for SNI and for verification.", default_text="$proxy_host"
    )
    proxy_ssl_server_name: bool = directive(ANYWHERE, flag(), False, "Tell the server which name is wanted (SNI).")
    proxy_ssl_session_reuse: bool = directive(ANYWHERE, flag(), True, "Resume sessions.")
    proxy_ssl_verify: bool = directive(ANYWHERE, flag(), False, "Verify the server's certificate and its name.")
    proxy_ssl_verify_depth: int = directive(ANYWHERE, integer(0), 1, "How long its chain may be.")
    proxy_ssl_trusted_certificate: str = directive(
        ANYWHERE, path(conf=True, syntax="file"), "", "Authorities that are trusted, PEM."
    )
    proxy_ssl_crl: str = directive(ANYWHERE, path(conf=True, syntax="file"), "", "Revoked certificates, PEM.")


class Way:
    """How one location speaks TLS, with the groups of connections that are made so."""

    __slots__ = ("context", "name", "pair", "passwords", "reuse", "sends_name", "twins", "verify")

    def __init__(self, conf: ProxySsl, build: Build) -> None:
        """Raises ConfigError."""
        from gateway.net.openssl import TlsError

        self.sends_name, self.reuse, self.verify = (
            conf.proxy_ssl_server_name,
            conf.proxy_ssl_session_reuse,
            conf.proxy_ssl_verify,
        )
        self.name = build.text(conf.proxy_ssl_name) if conf.proxy_ssl_name.raw else None
        self.pair: Pair | None = None
        self.passwords = list(conf.proxy_ssl_password_file)
        self.twins: dict[Any, Group] = {}
        if self.verify and not conf.proxy_ssl_trusted_certificate:
            raise ConfigError("no proxy_ssl_trusted_certificate for proxy_ssl_verify")
        certificate, key = conf.proxy_ssl_certificate, conf.proxy_ssl_certificate_key
        if certificate[0] and not key[0]:
            raise ConfigError(f'no "proxy_ssl_certificate_key" is defined for certificate "{certificate[0]}"')
        try:
            self.context = _context(conf, build, self.passwords)
        except TlsError as error:
            raise ConfigError(str(error)) from None
        if "$" in certificate[0] + key[0]:
            self.pair = keyfiles.made_of_variables(certificate, key, build)

    def group(self, request: Request, group: Group) -> Group:
        """The twin of a group whose connections speak TLS in this way, to the name that this request wants."""
        name = group.name if self.name is None else self.name(request)
        name = _bare(name)
        pair = self.pair(request) if self.pair is not None else None
        key = (group, name, pair)
        twin = self.twins.get(key)
        if twin is None:
            if len(self.twins) >= _TWINS:
                self.twins.clear()
            twin = self.twins[key] = replace(group, kept={}, tls=Over(self, name, pair))
        return twin


def way_of(url: str, build: Build) -> Any:
    """The way of a location whose URL is, or may come to be, https://; None for the others. Raises ConfigError."""
    return None if url[:7].lower() == "http://" else Way(build.conf(ProxySsl), build)


def _context(conf: ProxySsl, build: Build, passwords: list[bytes]) -> "Context":
    """Raises TlsError."""
    from gateway.net import openssl, tls

    protocols = [word.upper().replace("V", "v") for word in conf.proxy_ssl_protocols]
    context = tls.context(protocols, conf.proxy_ssl_ciphers, server=False)
    files: dict[str, bytes] = build.shared.setdefault(keyfiles.FILES, {})
    certificate, key = conf.proxy_ssl_certificate, conf.proxy_ssl_certificate_key
    if certificate[0] and "$" not in certificate[0] + key[0]:
        chain, chain_name = keyfiles.read(certificate, files, "certificate")
        secret, key_name = keyfiles.read(key, files, "certificate key")
        openssl.use_pair(context.pointer, chain, secret, passwords, (chain_name, key_name))
    if conf.proxy_ssl_verify:
        openssl.ask_certificate(context.pointer, conf.proxy_ssl_verify_depth)
        trusted = conf.proxy_ssl_trusted_certificate
        data, _ = keyfiles.read((trusted, "", None), files, "certificate")
        openssl.trust(context.pointer, data, trusted, announce=False)
        if conf.proxy_ssl_crl:
            data, _ = keyfiles.read((conf.proxy_ssl_crl, "", None), files, "CRL")
            openssl.revoke(context.pointer, data, conf.proxy_ssl_crl)
    openssl.command(context.pointer, conf.proxy_ssl_conf_command)
    return context


def _bare(name: bytes) -> bytes:
    """A name without its port (it may come of $http_host)."""
    if name.startswith(b"["):
        return name[: name.find(b"]") + 1] or name
    return name.partition(b":")[0]


class Over:
    """What the connections of one group have in common: the way, the name, our certificate, the last sessions."""

    __slots__ = ("name", "pair", "sessions", "sni", "way")

    def __init__(self, way: Way, name: bytes, pair: Any) -> None:
        self.way, self.name, self.pair = way, name, pair
        shown = name.decode("latin-1")
        # RFC 6066 section 3: addresses are not sent
        self.sni = shown if way.sends_name and shown and literal(shown) is None else None
        self.sessions: dict[Peer, Any] = {}

    def secured(self, link: Link, peer: Peer) -> "Secured":
        """What stands between a new connection and its link."""
        from gateway.net.tls import Secured

        return Secured(link, Handshake(self, peer))


class Handshake:
    """The plan of one connection (see `gateway.net.tls.Plan`); `wait` is answered with its link."""

    __slots__ = ("over", "peer", "wait")

    def __init__(self, over: Over, peer: Peer) -> None:
        self.over, self.peer, self.wait = over, peer, Wait()

    def context(self) -> "Context":
        """The location's."""
        return self.over.way.context

    def begin(self, secured: "Secured") -> None:
        """Make ready, with the last session and our certificate. Raises TlsError."""
        over = self.over
        session = over.sessions.get(self.peer) if over.way.reuse else None
        secured.begin(server_side=False, server_hostname=over.sni, session=session)
        if over.pair is not None and over.pair[0]:
            from gateway.net.openssl import use_pair_now

            chain, key, names = over.pair
            use_pair_now(secured.pointer, chain, key, over.way.passwords, names)

    def established(self, secured: "Secured") -> None:
        """Judge the server, and hand the connection over. Raises TlsError."""
        from gateway.net import openssl

        if self.over.way.verify:
            number, words = openssl.verdict(secured.pointer)
            if number:
                raise openssl.TlsError(f"upstream SSL certificate verify error: ({number}:{words})")
            if not openssl.matches(secured.pointer, self.over.name):
                name = self.over.name.decode("latin-1")
                raise openssl.TlsError(f'upstream SSL certificate does not match "{name}"')
        link = secured.inner
        link.connection_made(secured)
        if self.wait.settled:
            link.close()
        else:
            self.wait.done(link)

    def failed(self, secured: "Secured", message: str) -> None:
        """Tell whoever waits."""
        if not self.wait.settled:
            self.wait.fail(UpstreamError("error", f"{message} {_DOING}"))

    def broken(self, secured: "Secured", message: str) -> None:
        """The exchange will tell that its connection is gone."""

    def ended(self, secured: "Secured") -> None:
        """Keep the session for the next connection."""
        if not secured.established:
            self.failed(secured, "peer closed connection in SSL handshake")
        elif self.over.way.reuse and secured.inner.transport is not None and secured.ssl.session is not None:
            self.over.sessions[self.peer] = secured.ssl.session
