"""Which module has what; printed by `make docs` from the modules, so that only what is used is imported."""

DIRECTIVES: dict[str, str] = {
    "absent": """
acme_certificate acme_issuer acme_shared_zone api auth_jwt auth_jwt_claim_set auth_jwt_header_set auth_jwt_key_cache
auth_jwt_key_file auth_jwt_key_request auth_jwt_leeway auth_jwt_require auth_jwt_type auth_oidc auth_require
create_full_put_path dav_access dav_methods disable_symlinks early_hints error_log_tag f4f f4f_buffer_size
fastcgi_allow_upstream fastcgi_bind fastcgi_bind_dynamic fastcgi_buffer_size fastcgi_buffering fastcgi_buffers
fastcgi_busy_buffers_size fastcgi_cache fastcgi_cache_background_update fastcgi_cache_bypass fastcgi_cache_key
fastcgi_cache_lock fastcgi_cache_lock_age fastcgi_cache_lock_timeout fastcgi_cache_max_range_offset
fastcgi_cache_methods fastcgi_cache_min_uses fastcgi_cache_path fastcgi_cache_purge fastcgi_cache_revalidate
fastcgi_cache_use_stale fastcgi_cache_valid fastcgi_catch_stderr fastcgi_connect_timeout fastcgi_force_ranges
fastcgi_hide_header fastcgi_ignore_client_abort fastcgi_ignore_headers fastcgi_index fastcgi_intercept_errors
fastcgi_keep_conn fastcgi_limit_rate fastcgi_max_temp_file_size fastcgi_next_upstream fastcgi_next_upstream_timeout
fastcgi_next_upstream_tries fastcgi_no_cache fastcgi_param fastcgi_pass fastcgi_pass_header
fastcgi_pass_request_body fastcgi_pass_request_headers fastcgi_read_timeout fastcgi_request_buffering
fastcgi_request_dynamic fastcgi_send_lowat fastcgi_send_timeout fastcgi_socket_keepalive fastcgi_socket_rcvbuf
fastcgi_socket_sndbuf fastcgi_split_path_info fastcgi_store fastcgi_store_access fastcgi_temp_file_write_size
fastcgi_temp_path flv geoip_city geoip_country geoip_org geoip_proxy geoip_proxy_recursive google_perftools_profiles
grpc_allow_upstream grpc_bind grpc_bind_dynamic grpc_buffer_size grpc_connect_timeout grpc_hide_header
grpc_ignore_headers grpc_intercept_errors grpc_next_upstream grpc_next_upstream_timeout grpc_next_upstream_tries
grpc_pass grpc_pass_header grpc_read_timeout grpc_request_dynamic grpc_send_timeout grpc_set_header
grpc_socket_keepalive grpc_socket_rcvbuf grpc_socket_sndbuf grpc_ssl_certificate grpc_ssl_certificate_cache
grpc_ssl_certificate_key grpc_ssl_ciphers grpc_ssl_conf_command grpc_ssl_crl grpc_ssl_key_log grpc_ssl_name
grpc_ssl_password_file grpc_ssl_protocols grpc_ssl_server_name grpc_ssl_session_reuse grpc_ssl_trusted_certificate
grpc_ssl_verify grpc_ssl_verify_depth health_check hls hls_buffers hls_forward_args hls_fragment hls_mp4_buffer_size
hls_mp4_max_buffer_size http2 http2_body_preread_size http2_chunk_size http2_idle_timeout
http2_max_concurrent_pushes http2_max_concurrent_streams http2_max_field_size http2_max_header_size
http2_max_requests http2_push http2_push_preload http2_recv_buffer_size http2_recv_timeout http3 http3_hq
http3_max_concurrent_streams http3_stream_buffer_size image_filter image_filter_buffer image_filter_interlace
image_filter_jpeg_quality image_filter_sharpen image_filter_transparency image_filter_webp_quality internal_redirect
js_access js_body_filter js_content js_context_reuse js_engine js_fetch_buffer_size js_fetch_ciphers
js_fetch_keepalive js_fetch_keepalive_requests js_fetch_keepalive_time js_fetch_keepalive_timeout
js_fetch_max_response_buffer_size js_fetch_protocols js_fetch_proxy js_fetch_timeout js_fetch_trusted_certificate
js_fetch_verify js_fetch_verify_depth js_header_filter js_import js_include js_load_http_native_module js_path
js_periodic js_preload_object js_set js_shared_dict_zone js_var keepalive_min_timeout keyval keyval_zone least_time
limit_zone mail match max_headers memcached_allow_upstream memcached_bind memcached_bind_dynamic
memcached_buffer_size memcached_connect_timeout memcached_gzip_flag memcached_next_upstream
memcached_next_upstream_timeout memcached_next_upstream_tries memcached_pass memcached_read_timeout
memcached_send_timeout memcached_socket_keepalive mgmt min_delete_depth mp4 mp4_buffer_size mp4_limit_rate
mp4_limit_rate_after mp4_max_buffer_size mp4_start_key_frame ntlm num_map oidc_provider open_file_cache_events
otel_exporter otel_resource_attr otel_service_name otel_span_attr otel_span_name otel_trace otel_trace_context perl
perl_modules perl_require perl_set proxy_allow_upstream proxy_bind_dynamic proxy_cache_purge proxy_request_dynamic
proxy_socket_rcvbuf proxy_socket_sndbuf proxy_ssl_certificate_cache proxy_ssl_key_log queue
quic_active_connection_id_limit quic_bpf quic_gso quic_host_key quic_retry scgi_allow_upstream scgi_bind
scgi_bind_dynamic scgi_buffer_size scgi_buffering scgi_buffers scgi_busy_buffers_size scgi_cache
scgi_cache_background_update scgi_cache_bypass scgi_cache_key scgi_cache_lock scgi_cache_lock_age
scgi_cache_lock_timeout scgi_cache_max_range_offset scgi_cache_methods scgi_cache_min_uses scgi_cache_path
scgi_cache_purge scgi_cache_revalidate scgi_cache_use_stale scgi_cache_valid scgi_connect_timeout scgi_force_ranges
scgi_hide_header scgi_ignore_client_abort scgi_ignore_headers scgi_intercept_errors scgi_limit_rate
scgi_max_temp_file_size scgi_next_upstream scgi_next_upstream_timeout scgi_next_upstream_tries scgi_no_cache
scgi_param scgi_pass scgi_pass_header scgi_pass_request_body scgi_pass_request_headers scgi_read_timeout
scgi_request_buffering scgi_request_dynamic scgi_send_timeout scgi_socket_keepalive scgi_socket_rcvbuf
scgi_socket_sndbuf scgi_store scgi_store_access scgi_temp_file_write_size scgi_temp_path session_log
session_log_format session_log_zone ssl ssl_engine stall_threshold state status status_format status_zone sticky
stream tunnel_allow_upstream tunnel_bind tunnel_bind_dynamic tunnel_buffer_size tunnel_connect_timeout
tunnel_next_upstream tunnel_next_upstream_timeout tunnel_next_upstream_tries tunnel_pass tunnel_read_timeout
tunnel_send_lowat tunnel_send_timeout tunnel_socket_keepalive tunnel_socket_rcvbuf tunnel_socket_sndbuf
upstream_conf uwsgi_allow_upstream uwsgi_bind uwsgi_bind_dynamic uwsgi_buffer_size uwsgi_buffering uwsgi_buffers
uwsgi_busy_buffers_size uwsgi_cache uwsgi_cache_background_update uwsgi_cache_bypass uwsgi_cache_key
uwsgi_cache_lock uwsgi_cache_lock_age uwsgi_cache_lock_timeout uwsgi_cache_max_range_offset uwsgi_cache_methods
uwsgi_cache_min_uses uwsgi_cache_path uwsgi_cache_purge uwsgi_cache_revalidate uwsgi_cache_use_stale
uwsgi_cache_valid uwsgi_connect_timeout uwsgi_force_ranges uwsgi_hide_header uwsgi_ignore_client_abort
uwsgi_ignore_headers uwsgi_intercept_errors uwsgi_limit_rate uwsgi_max_temp_file_size uwsgi_modifier1
uwsgi_modifier2 uwsgi_next_upstream uwsgi_next_upstream_timeout uwsgi_next_upstream_tries uwsgi_no_cache uwsgi_param
uwsgi_pass uwsgi_pass_header uwsgi_pass_request_body uwsgi_pass_request_headers uwsgi_read_timeout
uwsgi_request_buffering uwsgi_request_dynamic uwsgi_send_timeout uwsgi_socket_keepalive uwsgi_socket_rcvbuf
uwsgi_socket_sndbuf uwsgi_ssl_certificate uwsgi_ssl_certificate_cache uwsgi_ssl_certificate_key uwsgi_ssl_ciphers
uwsgi_ssl_conf_command uwsgi_ssl_crl uwsgi_ssl_key_log uwsgi_ssl_name uwsgi_ssl_password_file uwsgi_ssl_protocols
uwsgi_ssl_server_name uwsgi_ssl_session_reuse uwsgi_ssl_trusted_certificate uwsgi_ssl_verify uwsgi_ssl_verify_depth
uwsgi_store uwsgi_store_access uwsgi_temp_file_write_size uwsgi_temp_path xml_entities xml_external_entities
xslt_last_modified xslt_param xslt_string_param xslt_stylesheet xslt_types
""",
    "access": """
allow deny
""",
    "addition": """
add_after_body add_before_body addition_types
""",
    "auth_basic": """
auth_basic auth_basic_user_file
""",
    "auth_request": """
auth_request auth_request_set
""",
    "autoindex": """
autoindex autoindex_exact_size autoindex_format autoindex_localtime
""",
    "brotli": """
brotli brotli_buffers brotli_comp_level brotli_min_length brotli_types brotli_window
""",
    "browser": """
ancient_browser ancient_browser_value modern_browser modern_browser_value
""",
    "charset": """
charset charset_map charset_types override_charset source_charset
""",
    "compress": """
compress_cache_size compress_order gzip_disable gzip_http_version gzip_proxied gzip_vary
""",
    "echo": """
echo echo_abort_parent echo_blocking_sleep echo_duplicate echo_end echo_exec echo_flush echo_foreach_split
echo_location echo_location_async echo_read_request_body echo_request_body echo_reset_timer echo_sleep echo_status
echo_subrequest echo_subrequest_async
""",
    "echo_filter": """
echo_after_body echo_before_body
""",
    "empty_gif": """
empty_gif
""",
    "fingerprint": """
fingerprint fingerprint_rewrite
""",
    "geo": """
geo
""",
    "gunzip": """
gunzip gunzip_buffers
""",
    "gzip": """
gzip gzip_buffers gzip_comp_level gzip_hash gzip_min_length gzip_no_buffer gzip_types gzip_window postpone_gzipping
""",
    "headers": """
add_header add_header_inherit add_trailer add_trailer_inherit expires
""",
    "headers_more": """
more_clear_headers more_clear_input_headers more_set_headers more_set_input_headers
""",
    "index": """
index
""",
    "limit_conn": """
limit_conn limit_conn_dry_run limit_conn_log_level limit_conn_status limit_conn_zone
""",
    "limit_rate": """
limit_rate limit_rate_after
""",
    "limit_req": """
limit_req limit_req_dry_run limit_req_log_level limit_req_status limit_req_zone
""",
    "log": """
access_log log_format open_log_file_cache
""",
    "lua": """
access_by_lua access_by_lua_block access_by_lua_file access_by_lua_no_postpone balancer_by_lua_block
balancer_by_lua_file body_filter_by_lua body_filter_by_lua_block body_filter_by_lua_file compress_by_lua_block
compress_by_lua_file content_by_lua content_by_lua_block content_by_lua_file exit_worker_by_lua_block
exit_worker_by_lua_file header_filter_by_lua header_filter_by_lua_block header_filter_by_lua_file init_by_lua
init_by_lua_block init_by_lua_file init_worker_by_lua init_worker_by_lua_block init_worker_by_lua_file log_by_lua
log_by_lua_block log_by_lua_file lua_capture_error_log lua_check_client_abort lua_code_cache lua_ffi
lua_http10_buffering lua_jit lua_load_resty_core lua_malloc_trim lua_max_pending_timers lua_max_running_timers
lua_need_request_body lua_package_cpath lua_package_path lua_regex_cache_max_entries lua_regex_match_limit
lua_sa_restart lua_sandbox lua_script_timeout lua_shared_dict lua_socket_buffer_size lua_socket_connect_timeout
lua_socket_keepalive_timeout lua_socket_log_errors lua_socket_pool_size lua_socket_read_timeout
lua_socket_send_lowat lua_socket_send_timeout lua_ssl_certificate lua_ssl_certificate_key lua_ssl_ciphers
lua_ssl_conf_command lua_ssl_crl lua_ssl_key_log lua_ssl_protocols lua_ssl_trusted_certificate lua_ssl_verify_depth
lua_thread_cache_max_entries lua_transform_underscores_in_response_headers lua_use_default_type lua_vm_memory_limit
lua_worker_thread_vm_pool_size precontent_by_lua_block precontent_by_lua_file proxy_ssl_certificate_by_lua_block
proxy_ssl_certificate_by_lua_file proxy_ssl_verify_by_lua_block proxy_ssl_verify_by_lua_file rewrite_by_lua
rewrite_by_lua_block rewrite_by_lua_file rewrite_by_lua_no_postpone server_rewrite_by_lua_block
server_rewrite_by_lua_file set_by_lua set_by_lua_block set_by_lua_file ssl_certificate_by_lua_block
ssl_certificate_by_lua_file ssl_client_hello_by_lua_block ssl_client_hello_by_lua_file
ssl_session_fetch_by_lua_block ssl_session_fetch_by_lua_file ssl_session_store_by_lua_block
ssl_session_store_by_lua_file
""",
    "map": """
map map_hash_bucket_size map_hash_max_size
""",
    "mirror": """
mirror mirror_request_body
""",
    "precompressed": """
brotli_static gzip_static zstd_static
""",
    "proxy": """
proxy_bind proxy_buffer_size proxy_buffering proxy_buffers proxy_busy_buffers_size proxy_connect_timeout
proxy_cookie_domain proxy_cookie_flags proxy_cookie_path proxy_force_ranges proxy_headers_hash_bucket_size
proxy_headers_hash_max_size proxy_hide_header proxy_http_version proxy_ignore_client_abort proxy_ignore_headers
proxy_intercept_errors proxy_limit_rate proxy_max_temp_file_size proxy_method proxy_next_upstream
proxy_next_upstream_timeout proxy_next_upstream_tries proxy_pass proxy_pass_header proxy_pass_request_body
proxy_pass_request_headers proxy_pass_trailers proxy_read_timeout proxy_redirect proxy_request_buffering
proxy_send_lowat proxy_send_timeout proxy_set_body proxy_set_header proxy_socket_keepalive proxy_store
proxy_store_access proxy_temp_file_write_size proxy_temp_path
""",
    "proxy_cache": """
proxy_cache proxy_cache_background_update proxy_cache_bypass proxy_cache_convert_head proxy_cache_key
proxy_cache_lock proxy_cache_lock_age proxy_cache_lock_timeout proxy_cache_max_range_offset proxy_cache_methods
proxy_cache_min_uses proxy_cache_path proxy_cache_revalidate proxy_cache_use_stale proxy_cache_valid proxy_no_cache
""",
    "proxy_ssl": """
proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_ciphers proxy_ssl_conf_command proxy_ssl_crl
proxy_ssl_name proxy_ssl_password_file proxy_ssl_protocols proxy_ssl_server_name proxy_ssl_session_reuse
proxy_ssl_trusted_certificate proxy_ssl_verify proxy_ssl_verify_depth
""",
    "random_index": """
random_index
""",
    "realip": """
real_ip_header real_ip_recursive set_real_ip_from
""",
    "referer": """
referer_hash_bucket_size referer_hash_max_size valid_referers
""",
    "rewrite": """
break if return rewrite rewrite_log set uninitialized_variable_warn
""",
    "secure_link": """
secure_link secure_link_md5 secure_link_secret
""",
    "slice": """
slice
""",
    "split_clients": """
split_clients
""",
    "ssi": """
ssi ssi_ignore_recycled_buffers ssi_last_modified ssi_min_file_chunk ssi_silent_errors ssi_types ssi_value_length
""",
    "ssl": """
ssl_buffer_size ssl_certificate ssl_certificate_cache ssl_certificate_compression ssl_certificate_key ssl_ciphers
ssl_client_certificate ssl_conf_command ssl_crl ssl_dhparam ssl_early_data ssl_ecdh_curve ssl_ech_file ssl_key_log
ssl_ocsp ssl_ocsp_cache ssl_ocsp_responder ssl_password_file ssl_prefer_server_ciphers ssl_protocols
ssl_reject_handshake ssl_session_cache ssl_session_ticket_key ssl_session_tickets ssl_session_timeout ssl_stapling
ssl_stapling_file ssl_stapling_responder ssl_stapling_verify ssl_trusted_certificate ssl_verify_client
ssl_verify_depth
""",
    "stub_status": """
stub_status
""",
    "sub": """
sub_filter sub_filter_last_modified sub_filter_once sub_filter_types
""",
    "third_party": """
BasicRule CheckRule DeniedUrl LearningMode LibInjectionSql LibInjectionXss MainRule ModSecurityConfig
ModSecurityEnabled SecRulesDisabled SecRulesEnabled auth_digest auth_digest_expires auth_digest_timeout
auth_digest_user_file auth_gss auth_gss_allow_basic_fallback auth_gss_force_realm auth_gss_format_full
auth_gss_keytab auth_gss_realm auth_gss_service_name auth_ldap auth_ldap_cache_enabled auth_ldap_servers auth_pam
auth_pam_service_name auth_pam_set_pam_env auth_spnego check check_fastcgi_param check_http_expect_alive
check_http_send check_keepalive_requests check_shm_size check_status concat concat_delimiter
concat_ignore_file_error concat_max_files concat_types concat_unique consistent_hash dav_ext_methods drizzle_pass
dubbo_pass dynamic_resolve dyups_interface dyups_read_msg_log dyups_read_msg_timeout dyups_shm_zone_size
dyups_trylock dyups_upstream_conf fair fancyindex fancyindex_case_sensitive fancyindex_css_href
fancyindex_default_sort fancyindex_directories_first fancyindex_exact_size fancyindex_footer fancyindex_header
fancyindex_hide_parent_dir fancyindex_hide_symlinks fancyindex_ignore fancyindex_localtime fancyindex_name_length
fancyindex_show_dotfiles fancyindex_show_path fancyindex_time_format footer footer_flush footer_types geoip2
geoip2_proxy geoip2_proxy_recursive iwrr ldap_server limit_upstream_conn limit_upstream_zone memc_pass modsecurity
modsecurity_rules modsecurity_rules_file modsecurity_rules_remote modsecurity_transaction_id
modsecurity_use_error_log nchan_publisher nchan_pubsub nchan_subscribe nchan_subscriber pagespeed passenger_enabled
postgres_pass proxy_connect proxy_connect_address proxy_connect_allow proxy_connect_bind
proxy_connect_connect_timeout proxy_connect_data_timeout proxy_connect_read_timeout proxy_connect_response
proxy_connect_send_timeout push_stream_publisher push_stream_subscriber rds_json redis2_literal_raw_query
redis2_pass redis2_query redis_pass report_uploads req_status req_status_show req_status_zone
req_status_zone_add_indicator req_status_zone_key_length req_status_zone_recycle rtmp rtmp_control rtmp_stat
rtmp_stat_stylesheet server_admin server_info server_tag session_sticky session_sticky_header
session_sticky_hide_cookie set_decode_base32 set_decode_base64 set_decode_base64url set_decode_hex
set_decrypt_session set_encode_base32 set_encode_base64 set_encode_base64url set_encode_hex set_encrypt_session
set_escape_uri set_formatted_gmt_time set_formatted_local_time set_hashed_upstream set_hmac_sha1 set_hmac_sha256
set_if_empty set_local_today set_md5 set_quote_json_str set_quote_pgsql_str set_quote_sql_str set_random set_rotate
set_secure_random_alphanum set_secure_random_lcalpha set_sha1 set_unescape_uri shib_request shib_request_set
shib_request_use_headers small_light srcache_fetch srcache_store ssl_async subs_filter subs_filter_bypass
subs_filter_types sysguard sysguard_cpu sysguard_interval sysguard_load sysguard_log_level sysguard_mem
sysguard_mode sysguard_rt tfs_pass track_uploads trim trim_css trim_js trim_types upload_pass upload_progress
upload_progress_json_output upload_set_form_field upload_store upstream_max_conns user_agent vhost_traffic_status
vhost_traffic_status_average_method vhost_traffic_status_bypass_limit vhost_traffic_status_bypass_stats
vhost_traffic_status_display vhost_traffic_status_display_format vhost_traffic_status_display_jsonp
vhost_traffic_status_display_sum_key vhost_traffic_status_dump vhost_traffic_status_filter
vhost_traffic_status_filter_by_host vhost_traffic_status_filter_by_set_key
vhost_traffic_status_filter_check_duplicate vhost_traffic_status_filter_max_node
vhost_traffic_status_histogram_buckets vhost_traffic_status_ignore_status vhost_traffic_status_limit
vhost_traffic_status_limit_check_duplicate vhost_traffic_status_limit_traffic
vhost_traffic_status_limit_traffic_by_set_key vhost_traffic_status_measure_status_codes
vhost_traffic_status_measure_status_codes_of_upstream vhost_traffic_status_set_by_filter
vhost_traffic_status_stats_by_upstream vhost_traffic_status_zone vnswrr vod waf xquic_congestion_control
xquic_idle_timeout xquic_log xquic_log_file xquic_log_level xquic_max_concurrent_connection_cnt xquic_max_cps
xquic_max_qps xquic_pacing xquic_ssl_certificate xquic_ssl_certificate_key xquic_ssl_session_ticket_key
xquic_stateless_reset_token xquic_time_wait_max_conns
""",
    "try_files": """
try_files
""",
    "upstream": """
hash ip_hash keepalive least_conn random upstream zone
""",
    "userid": """
userid userid_domain userid_expires userid_flags userid_mark userid_name userid_p3p userid_path userid_service
""",
    "zstd": """
zstd zstd_buffers zstd_comp_level zstd_min_length zstd_types
""",
}

VARIABLES: dict[str, str] = {
    "brotli": """
brotli_ratio
""",
    "browser": """
ancient_browser modern_browser msie
""",
    "echo": """
echo_cacheable_request_uri echo_client_request_headers echo_client_request_method echo_incr echo_it
echo_request_body echo_request_method echo_request_uri echo_response_status echo_timer_elapsed
""",
    "gzip": """
gzip_ratio
""",
    "limit_conn": """
limit_conn_status
""",
    "limit_rate": """
limit_rate
""",
    "limit_req": """
limit_req_status
""",
    "log": """
body_bytes_sent bytes_sent connection connection_requests pipe request_length request_time status time_iso8601
time_local
""",
    "proxy": """
proxy_add_x_forwarded_for proxy_host proxy_port
""",
    "proxy_cache": """
cache_skip_reason upstream_cache_etag upstream_cache_last_modified upstream_cache_status
""",
    "realip": """
realip_remote_addr realip_remote_port
""",
    "referer": """
invalid_referer
""",
    "secure_link": """
secure_link secure_link_expires
""",
    "slice": """
slice_range
""",
    "ssi": """
date_gmt date_local
""",
    "ssl": """
ssl_alpn_protocol ssl_cipher ssl_ciphers ssl_client_cert ssl_client_escaped_cert ssl_client_fingerprint
ssl_client_i_dn ssl_client_i_dn_legacy ssl_client_raw_cert ssl_client_s_dn ssl_client_s_dn_legacy ssl_client_serial
ssl_client_v_end ssl_client_v_remain ssl_client_v_start ssl_client_verify ssl_curve ssl_early_data ssl_protocol
ssl_server_name ssl_session_id ssl_session_reused
""",
    "stub_status": """
connections_active connections_reading connections_waiting connections_writing
""",
    "upstream": """
upstream_addr upstream_bytes_received upstream_bytes_sent upstream_connect_time upstream_header_time
upstream_response_length upstream_response_time upstream_status
""",
    "userid": """
uid_got uid_set
""",
    "zstd": """
zstd_ratio
""",
}

PREFIXES: dict[str, str] = {
    "headers": """
sent_trailer_
""",
    "upstream": """
upstream_cookie_ upstream_http_
""",
}

NEEDS: dict[str, str] = {
    "brotli": """
compress
""",
    "echo": """
echo_filter
""",
    "fingerprint": """
immutable
""",
    "gzip": """
compress
""",
    "lua": """
*
""",
    "ssi": """
*
""",
    "zstd": """
compress
""",
}
