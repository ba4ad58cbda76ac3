#!/bin/sh
# Installs the programs that the tests compare with: nginx and the modules that some parity cases load; with the word
# `bench` also the load tool. Only as root on Debian or Ubuntu; elsewhere it says what is missing, and parity tests skip.
set -eu

packages="nginx nginx-extras libnginx-mod-http-lua"

PATH=$PATH:/usr/sbin
missing=
command -v nginx >/dev/null 2>&1 && [ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ] || missing=$packages
if [ "${1:-}" = bench ] && ! command -v wrk >/dev/null 2>&1; then
    missing="$missing wrk"
fi
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Not installed: $missing (Debian, Ubuntu: apt-get install $missing). Without nginx the parity tests are skipped."
    exit 0
fi

# No nginx service may be started by the installation: policy-rc.d tells the package so (invoke-rc.d(8), status 101).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
served_before=$([ -e /run/nginx.pid ] && echo yes || echo no)
echo "Installing $missing"
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null
if [ "$served_before" = no ] && [ -s /run/nginx.pid ]; then
    nginx -s quit
fi
