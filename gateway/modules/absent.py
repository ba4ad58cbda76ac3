"""Directives of nginx's modules that are not here: every documented name is known, so that none is silently wrong.

Where ignoring a directive would change answers or open what was closed, it is refused: "not supported yet". Tuning that
only means something beside such a directive is accepted, and listed by `-t` as without effect.

A module that comes to be takes its names out of here; test_architecture.py finds names declared twice.
Source: the lists of directives on https://nginx.org/en/docs/
"""

from typing import Any

from gateway.config.absence import idle, refused, unserved
from gateway.config.merge import merged
from gateway.config.schema import ANYWHERE, ConfigError, In, Item, Level, block
from gateway.http.settings import Addressing
from gateway.module import Module

SERVERS = In.HTTP | In.SERVER
_UNHEARD = {"quic", "proxy_protocol"}
IN_IF = In.LOCATION | In.IF_LOCATION
GUARDED = ANYWHERE | In.LIMIT_EXCEPT


def _prefixed(prefix: str, names: str) -> str:
    return " ".join(prefix + name for name in names.split())


# What directives of the modules that pass requests on have in common, by kind; then what only those with buffers have.
_ALL = {
    "flags": "bind_dynamic socket_keepalive",
    "numbers": "next_upstream_tries",
    "sizes": "buffer_size",
    "times": "connect_timeout next_upstream_timeout read_timeout send_timeout",
    "words": "allow_upstream bind next_upstream",
}
_ANSWERS = {
    "flags": "intercept_errors request_dynamic",
    "sizes": "socket_rcvbuf socket_sndbuf",
    "words": "hide_header ignore_headers pass_header",
}
_BUFFERED = {
    "buffers": "buffers",
    "flags": "buffering cache_background_update cache_lock cache_revalidate force_ranges ignore_client_abort"
    " pass_request_body pass_request_headers request_buffering",
    "numbers": "cache_max_range_offset cache_min_uses",
    "sizes": "busy_buffers_size max_temp_file_size temp_file_write_size",
    "times": "cache_lock_age cache_lock_timeout",
    "words": "cache cache_bypass cache_key cache_methods cache_purge cache_use_stale cache_valid limit_rate"
    " no_cache param store store_access temp_path",
}
_OVER_TLS = {
    "flags": "ssl_server_name ssl_session_reuse ssl_verify",
    "numbers": "ssl_verify_depth",
    "words": "ssl_certificate ssl_certificate_cache ssl_certificate_key ssl_ciphers ssl_conf_command ssl_crl"
    " ssl_key_log ssl_name ssl_password_file ssl_protocols ssl_trusted_certificate",
}


def passing(prefix: str, what: str, *groups: dict[str, str]) -> tuple[Item[Any], ...]:
    """The tuning rows of one module that passes requests on."""
    kinds: dict[str, str] = {}
    for group in groups:
        for kind, names in group.items():
            kinds[kind] = f"{kinds.get(kind, '')} {_prefixed(prefix, names)}"
    return idle(ANYWHERE, what, **kinds)


@block
class Absent:
    """What is not here."""

    protocols: tuple[Item[Any], ...] = unserved("stream mail")
    process: tuple[Item[Any], ...] = idle(
        In.MAIN,
        "the commercial licence, profiling, hardware engines",
        blocks="mgmt",
        words="google_perftools_profiles ssl_engine",
    )
    stall_threshold: tuple[Item[Any], ...] = idle(In.EVENTS, "debugging of the event loop", times="stall_threshold")
    telemetry: tuple[Item[Any], ...] = idle(
        In.HTTP, "OpenTelemetry", blocks="otel_exporter", words="otel_resource_attr otel_service_name"
    )
    spans: tuple[Item[Any], ...] = idle(
        ANYWHERE, "OpenTelemetry", words="otel_span_attr otel_span_name otel_trace otel_trace_context"
    )
    files: tuple[Item[Any], ...] = refused(ANYWHERE, "symbolic links that are not followed", "disable_symlinks")
    max_headers: tuple[Item[Any], ...] = refused(SERVERS, "a limit of header fields", "max_headers")
    limit_zone: tuple[Item[Any], ...] = refused(
        In.HTTP, "removed from nginx in 1.7.6, limit_conn_zone replaces it", "limit_zone"
    )
    core_tuning: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "early hints, tags in error logs, events of open files",
        flags="open_file_cache_events",
        times="keepalive_min_timeout",
        words="early_hints error_log_tag",
    )
    resolvers: tuple[Item[Any], ...] = idle(
        In.UPSTREAM, "a resolver for one upstream", words="resolver", times="resolver_timeout"
    )
    proxy_conditions: tuple[Item[Any], ...] = refused(
        ANYWHERE, "conditions for passing on, purging", "proxy_allow_upstream proxy_cache_purge"
    )
    proxy_tuning: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "some tuning of proxied connections",
        flags="proxy_bind_dynamic proxy_request_dynamic",
        sizes="proxy_socket_rcvbuf proxy_socket_sndbuf",
        words="proxy_ssl_certificate_cache proxy_ssl_key_log",
    )
    passed: tuple[Item[Any], ...] = refused(
        IN_IF, "FastCGI, uwsgi, SCGI, gRPC, memcached", "fastcgi_pass uwsgi_pass scgi_pass grpc_pass memcached_pass"
    )
    tunnel_pass: tuple[Item[Any], ...] = refused(In.SERVER | IN_IF, "CONNECT", "tunnel_pass")
    fastcgi: tuple[Item[Any], ...] = passing(
        "fastcgi_",
        "FastCGI",
        _ALL,
        _ANSWERS,
        _BUFFERED,
        {"flags": "keep_conn", "sizes": "send_lowat", "words": "catch_stderr index"},
    )
    fastcgi_split_path_info: tuple[Item[Any], ...] = idle(In.LOCATION, "FastCGI", words="fastcgi_split_path_info")
    uwsgi: tuple[Item[Any], ...] = passing(
        "uwsgi_", "uwsgi", _ALL, _ANSWERS, _BUFFERED, _OVER_TLS, {"numbers": "modifier1 modifier2"}
    )
    scgi: tuple[Item[Any], ...] = passing("scgi_", "SCGI", _ALL, _ANSWERS, _BUFFERED)
    grpc: tuple[Item[Any], ...] = passing("grpc_", "gRPC", _ALL, _ANSWERS, _OVER_TLS, {"words": "set_header"})
    memcached: tuple[Item[Any], ...] = passing("memcached_", "memcached", _ALL, {"words": "gzip_flag"})
    caches: tuple[Item[Any], ...] = idle(
        In.HTTP, "FastCGI, uwsgi, SCGI", words="fastcgi_cache_path scgi_cache_path uwsgi_cache_path"
    )
    tunnel: tuple[Item[Any], ...] = passing(
        "tunnel_", "CONNECT", _ALL, {"sizes": "send_lowat socket_rcvbuf socket_sndbuf"}
    )

    ssl: tuple[Item[Any], ...] = refused(SERVERS, "removed from nginx in 1.25.1, `listen ... ssl` replaces it", "ssl")
    acme: tuple[Item[Any], ...] = refused(In.HTTP, "ACME", "acme_issuer", opens=True)
    acme_certificate: tuple[Item[Any], ...] = refused(In.SERVER, "ACME", "acme_certificate")
    acme_shared_zone: tuple[Item[Any], ...] = idle(In.HTTP, "ACME", words="acme_shared_zone")
    http2: tuple[Item[Any], ...] = idle(
        SERVERS,
        "HTTP/2",
        flags="http2",
        sizes="http2_body_preread_size http2_max_field_size http2_max_header_size",
        times="http2_idle_timeout http2_recv_timeout",
        numbers="http2_max_concurrent_pushes http2_max_concurrent_streams http2_max_requests",
    )
    http2_anywhere: tuple[Item[Any], ...] = idle(
        ANYWHERE, "HTTP/2", sizes="http2_chunk_size", words="http2_push", flags="http2_push_preload"
    )
    http2_recv_buffer_size: tuple[Item[Any], ...] = idle(In.HTTP, "HTTP/2", sizes="http2_recv_buffer_size")
    http3: tuple[Item[Any], ...] = idle(
        SERVERS,
        "HTTP/3",
        flags="http3 http3_hq quic_gso quic_retry",
        numbers="http3_max_concurrent_streams quic_active_connection_id_limit",
        sizes="http3_stream_buffer_size",
        words="quic_host_key",
    )
    quic_bpf: tuple[Item[Any], ...] = idle(In.MAIN, "HTTP/3", flags="quic_bpf")

    identity: tuple[Item[Any], ...] = refused(
        GUARDED, "JSON Web Tokens and OpenID Connect", "auth_jwt auth_jwt_require auth_require"
    )
    auth_oidc: tuple[Item[Any], ...] = refused(ANYWHERE, "OpenID Connect", "auth_oidc")
    oidc_provider: tuple[Item[Any], ...] = refused(In.HTTP, "OpenID Connect", "oidc_provider", opens=True)
    tokens: tuple[Item[Any], ...] = refused(In.HTTP, "JSON Web Tokens", "auth_jwt_claim_set auth_jwt_header_set")
    keys: tuple[Item[Any], ...] = idle(
        GUARDED, "JSON Web Tokens", words="auth_jwt_key_file auth_jwt_key_request auth_jwt_type"
    )
    keys_tuning: tuple[Item[Any], ...] = idle(ANYWHERE, "JSON Web Tokens", times="auth_jwt_key_cache auth_jwt_leeway")

    media: tuple[Item[Any], ...] = refused(
        In.LOCATION, "media, image and XML processing", "flv mp4 f4f hls image_filter xslt_stylesheet"
    )
    media_tuning: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "media, image and XML processing",
        sizes="f4f_buffer_size hls_mp4_buffer_size hls_mp4_max_buffer_size image_filter_buffer mp4_buffer_size"
        " mp4_max_buffer_size",
        flags="hls_forward_args image_filter_interlace mp4_start_key_frame xml_external_entities xslt_last_modified",
        times="hls_fragment mp4_limit_rate_after",
        buffers="hls_buffers",
        words="image_filter_jpeg_quality image_filter_sharpen image_filter_transparency image_filter_webp_quality"
        " mp4_limit_rate xml_entities xslt_param xslt_string_param xslt_types",
    )
    dav: tuple[Item[Any], ...] = refused(ANYWHERE, "WebDAV", "dav_methods")
    dav_tuning: tuple[Item[Any], ...] = idle(
        ANYWHERE, "WebDAV", flags="create_full_put_path", words="dav_access", numbers="min_delete_depth"
    )

    js: tuple[Item[Any], ...] = refused(
        IN_IF | In.LIMIT_EXCEPT, "njs", "js_access js_body_filter js_content js_header_filter"
    )
    js_set: tuple[Item[Any], ...] = refused(ANYWHERE, "njs", "js_set js_var")
    js_periodic: tuple[Item[Any], ...] = refused(In.LOCATION, "njs", "js_periodic")
    js_tuning: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "njs",
        numbers="js_context_reuse js_fetch_keepalive_requests js_fetch_verify_depth",
        sizes="js_fetch_buffer_size js_fetch_max_response_buffer_size",
        times="js_fetch_keepalive_time js_fetch_keepalive_timeout js_fetch_timeout",
        flags="js_fetch_verify",
        words="js_engine js_fetch_ciphers js_fetch_keepalive js_fetch_protocols js_fetch_proxy"
        " js_fetch_trusted_certificate js_import js_path js_preload_object",
    )
    js_http: tuple[Item[Any], ...] = idle(In.HTTP, "njs", words="js_include js_shared_dict_zone")
    js_main: tuple[Item[Any], ...] = idle(In.MAIN, "njs", words="js_load_http_native_module")
    perl: tuple[Item[Any], ...] = refused(In.LOCATION | In.LIMIT_EXCEPT, "Perl", "perl")
    perl_set: tuple[Item[Any], ...] = refused(In.HTTP, "Perl", "perl_set")
    perl_tuning: tuple[Item[Any], ...] = idle(In.HTTP, "Perl", words="perl_modules perl_require")

    tables: tuple[Item[Any], ...] = refused(
        In.HTTP, "GeoIP and key-value tables", "geoip_country geoip_city geoip_org keyval keyval_zone"
    )
    tables_tuning: tuple[Item[Any], ...] = idle(In.HTTP, "GeoIP", words="geoip_proxy", flags="geoip_proxy_recursive")
    num_map: tuple[Item[Any], ...] = refused(In.HTTP, "maps of numbers", "num_map", opens=True)
    internal_redirect: tuple[Item[Any], ...] = refused(
        In.SERVER | In.LOCATION, "internal redirects before access checks", "internal_redirect"
    )
    status: tuple[Item[Any], ...] = refused(In.LOCATION, "the commercial API", "api status upstream_conf")
    status_zone: tuple[Item[Any], ...] = idle(In.SERVER | IN_IF, "the commercial API", words="status_zone")
    status_format: tuple[Item[Any], ...] = idle(ANYWHERE, "the commercial API", words="status_format")
    sessions: tuple[Item[Any], ...] = refused(ANYWHERE, "logs of sessions", "session_log")
    sessions_tuning: tuple[Item[Any], ...] = idle(
        In.HTTP, "logs of sessions", words="session_log_format session_log_zone"
    )
    upstreams: tuple[Item[Any], ...] = refused(
        In.UPSTREAM, "this kind of balancing", "least_time ntlm queue state sticky"
    )
    health_check: tuple[Item[Any], ...] = refused(In.LOCATION, "active health checks of this kind", "health_check")
    match: tuple[Item[Any], ...] = refused(In.HTTP, "active health checks of this kind", "match", opens=True)


def _check(_conf: Absent, level: Level) -> None:
    """A port that is said to speak QUIC or the PROXY protocol must not speak without it."""
    if level.context is In.SERVER:
        groups: Any = merged(Addressing, level).listen  # of each `listen`: its addresses, with the same options
        for group in groups:
            for option in _UNHEARD & group[0].options.keys():
                raise ConfigError(f'the "{option}" parameter of "listen" is not supported yet', group[0].place)


module = Module(name="absent", conf=Absent, check=_check)
