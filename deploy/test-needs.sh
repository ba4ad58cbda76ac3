#!/bin/sh
# Installs the programs that the tests compare with: nginx and the modules that some parity cases load.
# Does so only as root on Debian or Ubuntu; elsewhere it says what is missing and the parity tests skip.
set -eu

packages="nginx nginx-extras libnginx-mod-http-lua"

if command -v nginx >/dev/null 2>&1 && [ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    if ! command -v nginx >/dev/null 2>&1; then
        echo "nginx is not installed: the parity tests will be skipped (Debian, Ubuntu: apt-get install $packages)"
    fi
    exit 0
fi

# No nginx service may be started by the installation: policy-rc.d tells the package so (invoke-rc.d(8), status 101).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
echo "Installing $packages"
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $packages >/dev/null
