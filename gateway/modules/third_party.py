"""Directives of third-party modules that configurations in use name: known, so that each is judged for itself.

The rule is that of `absent`: refused where ignoring one would change answers or open what was closed, accepted and
listed as without effect where it only tunes, counts or optimises.

Sources: the documentation of the modules named in each row.
"""

from typing import Any

from gateway.config.absence import idle, refused, unserved
from gateway.config.schema import ANYWHERE, In, Item, block
from gateway.module import Module

SERVERS = In.HTTP | In.SERVER
IN_IF = In.LOCATION | In.IF_LOCATION
_EVERYWHERE = ANYWHERE | In.IF_SERVER | In.IF_LOCATION
_GUARDED = ANYWHERE | In.IF_LOCATION | In.LIMIT_EXCEPT


@block
class ThirdParty:
    """What others wrote, and is not here."""

    rtmp: tuple[Item[Any], ...] = unserved("rtmp")

    # nginx-module-vts
    vts_answers: tuple[Item[Any], ...] = refused(
        ANYWHERE,
        "traffic status pages and limits",
        "vhost_traffic_status_display vhost_traffic_status_limit_traffic vhost_traffic_status_set_by_filter"
        " vhost_traffic_status_limit_traffic_by_set_key",
    )
    vts: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "traffic status",
        flags="vhost_traffic_status vhost_traffic_status_filter vhost_traffic_status_filter_by_host"
        " vhost_traffic_status_limit vhost_traffic_status_stats_by_upstream"
        " vhost_traffic_status_filter_check_duplicate vhost_traffic_status_limit_check_duplicate"
        " vhost_traffic_status_bypass_limit vhost_traffic_status_bypass_stats"
        " vhost_traffic_status_measure_status_codes_of_upstream",
        numbers="vhost_traffic_status_filter_max_node",
        words="vhost_traffic_status_average_method vhost_traffic_status_display_format"
        " vhost_traffic_status_display_jsonp vhost_traffic_status_display_sum_key vhost_traffic_status_dump"
        " vhost_traffic_status_filter_by_set_key vhost_traffic_status_histogram_buckets"
        " vhost_traffic_status_ignore_status vhost_traffic_status_measure_status_codes",
    )
    vts_zone: tuple[Item[Any], ...] = idle(In.HTTP, "traffic status", optional="vhost_traffic_status_zone")

    # Tengine
    tengine_upstream: tuple[Item[Any], ...] = refused(
        In.UPSTREAM, "this kind of balancing", "session_sticky session_sticky_header consistent_hash dyups_interface"
    )
    tengine_health: tuple[Item[Any], ...] = idle(
        In.UPSTREAM,
        "active health checks",
        optional="check",
        numbers="check_keepalive_requests",
        words="check_http_send check_http_expect_alive check_fastcgi_param",
    )
    tengine_health_memory: tuple[Item[Any], ...] = idle(In.HTTP, "active health checks", words="check_shm_size")
    tengine_balance: tuple[Item[Any], ...] = idle(
        In.UPSTREAM,
        "this kind of balancing, servers take turns instead",
        optional="vnswrr iwrr fair dynamic_resolve",
        words="upstream_max_conns limit_upstream_conn limit_upstream_zone",
    )
    session_sticky_hide_cookie: tuple[Item[Any], ...] = refused(
        SERVERS | In.LOCATION, "sticky sessions", "session_sticky_hide_cookie"
    )
    tengine_pages: tuple[Item[Any], ...] = refused(
        IN_IF, "pages of Tengine's own", "check_status dyups_interface req_status_show concat footer"
    )
    tengine_answers: tuple[Item[Any], ...] = refused(
        ANYWHERE,
        "this of Tengine's",
        "proxy_connect sysguard tfs_pass dubbo_pass server_tag",
    )
    user_agent: tuple[Item[Any], ...] = refused(In.HTTP, "variables by user agent", "user_agent", opens=True)
    tengine_guard: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "this of Tengine's",
        flags="server_info trim trim_js trim_css sysguard_mode concat_unique footer_flush",
        words="server_admin sysguard_load sysguard_mem sysguard_rt sysguard_cpu sysguard_interval sysguard_log_level"
        " trim_types concat_types concat_max_files concat_delimiter concat_ignore_file_error footer_types"
        " proxy_connect_allow proxy_connect_connect_timeout proxy_connect_data_timeout proxy_connect_read_timeout"
        " proxy_connect_send_timeout proxy_connect_address proxy_connect_bind proxy_connect_response",
    )
    tengine_counters: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "this of Tengine's",
        words="req_status req_status_zone req_status_zone_add_indicator req_status_zone_key_length"
        " req_status_zone_recycle dyups_shm_zone_size dyups_read_msg_timeout dyups_read_msg_log dyups_upstream_conf"
        " dyups_trylock ssl_async",
    )
    xquic: tuple[Item[Any], ...] = idle(
        In.HTTP,
        "HTTP/3",
        words="xquic_ssl_certificate xquic_ssl_certificate_key xquic_ssl_session_ticket_key xquic_log_file"
        " xquic_log_level xquic_max_concurrent_connection_cnt xquic_max_cps xquic_max_qps xquic_stateless_reset_token"
        " xquic_congestion_control xquic_pacing xquic_idle_timeout xquic_time_wait_max_conns",
    )
    xquic_log: tuple[Item[Any], ...] = idle(In.MAIN, "HTTP/3", words="xquic_log")

    # firewalls, and checks of who asks
    firewalls: tuple[Item[Any], ...] = refused(
        _GUARDED,
        "web application firewalls",
        "modsecurity ModSecurityEnabled SecRulesEnabled waf",
    )
    firewall_rules: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "web application firewalls",
        flags="modsecurity_use_error_log",
        words="modsecurity_rules modsecurity_rules_file modsecurity_rules_remote modsecurity_transaction_id"
        " ModSecurityConfig",
    )
    naxsi: tuple[Item[Any], ...] = refused(
        In.HTTP | In.LOCATION, "web application firewalls", "MainRule BasicRule CheckRule"
    )
    naxsi_tuning: tuple[Item[Any], ...] = idle(
        In.LOCATION,
        "web application firewalls",
        optional="LearningMode SecRulesDisabled DeniedUrl LibInjectionSql LibInjectionXss",
    )
    logins: tuple[Item[Any], ...] = refused(
        _GUARDED,
        "this kind of login",
        "auth_pam auth_ldap auth_ldap_servers auth_digest auth_gss auth_spnego shib_request",
    )
    login_server: tuple[Item[Any], ...] = refused(In.HTTP, "this kind of login", "ldap_server", opens=True)
    logins_tuning: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "this kind of login",
        flags="auth_pam_set_pam_env auth_gss_allow_basic_fallback auth_gss_force_realm shib_request_use_headers",
        words="auth_pam_service_name auth_digest_user_file auth_digest_timeout auth_digest_expires auth_gss_realm"
        " auth_gss_keytab auth_gss_service_name auth_gss_format_full auth_ldap_cache_enabled shib_request_set",
    )

    # what makes or changes answers
    of_refused: tuple[Item[Any], ...] = idle(
        _EVERYWHERE,
        "what it belongs to",
        words="rtmp_stat_stylesheet redis2_query redis2_literal_raw_query upload_store upload_set_form_field",
    )
    geoip2: tuple[Item[Any], ...] = refused(In.HTTP, "GeoIP", "geoip2", opens=True)
    geoip2_tuning: tuple[Item[Any], ...] = idle(In.HTTP, "GeoIP", words="geoip2_proxy", flags="geoip2_proxy_recursive")
    set_misc: tuple[Item[Any], ...] = refused(
        In.SERVER | In.LOCATION | In.IF_SERVER | In.IF_LOCATION,
        "variables computed by set-misc",
        "set_if_empty set_quote_sql_str set_quote_json_str set_quote_pgsql_str set_unescape_uri set_escape_uri"
        " set_hashed_upstream set_encode_base32 set_decode_base32 set_encode_base64 set_decode_base64 set_encode_hex"
        " set_decode_hex set_sha1 set_md5 set_hmac_sha1 set_hmac_sha256 set_random set_secure_random_alphanum"
        " set_secure_random_lcalpha set_rotate set_local_today set_formatted_gmt_time set_formatted_local_time"
        " set_encode_base64url set_decode_base64url set_encrypt_session set_decrypt_session",
    )
    makers: tuple[Item[Any], ...] = refused(
        IN_IF,
        "this content",
        "fancyindex vod upload_pass push_stream_publisher push_stream_subscriber nchan_pubsub nchan_publisher"
        " nchan_subscriber nchan_subscribe redis_pass redis2_pass memc_pass srcache_fetch srcache_store postgres_pass"
        " drizzle_pass rds_json passenger_enabled rtmp_stat rtmp_control "
        " dav_ext_methods report_uploads small_light track_uploads",
    )
    fancyindex: tuple[Item[Any], ...] = idle(
        ANYWHERE,
        "listings in this style",
        flags="fancyindex_exact_size fancyindex_localtime fancyindex_hide_symlinks fancyindex_directories_first"
        " fancyindex_show_path fancyindex_show_dotfiles fancyindex_hide_parent_dir fancyindex_case_sensitive",
        words="fancyindex_css_href fancyindex_default_sort fancyindex_footer fancyindex_header fancyindex_ignore"
        " fancyindex_name_length fancyindex_time_format",
    )
    subs_filter: tuple[Item[Any], ...] = refused(ANYWHERE, "substitutions by regular expressions", "subs_filter")
    subs_filter_tuning: tuple[Item[Any], ...] = idle(
        ANYWHERE, "substitutions by regular expressions", words="subs_filter_types subs_filter_bypass"
    )
    pagespeed: tuple[Item[Any], ...] = idle(
        _EVERYWHERE, "rewriting pages to be faster", words="pagespeed upload_progress upload_progress_json_output"
    )


module = Module(name="third_party", conf=ThirdParty)
