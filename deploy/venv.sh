#!/bin/sh
# Makes a virtual environment with pip in it: deploy/venv.sh FOLDER
# Says what to install when the machine lacks a part, and installs it itself when run as root on Debian or Ubuntu.
set -eu

venv=${1:?usage: deploy/venv.sh FOLDER}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    echo "  apt-get install $*"
    apt-get -qq update >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y "$@" >/dev/null
}

if [ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi
python=$(find_python) || { apt_install python3 python3-venv && python=$(find_python); } || {
    echo "Python 3.11 or newer is needed, as python3 or named by PYTHON=... (Debian, Ubuntu: apt-get install python3)" >&2
    exit 1
}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
echo "Making $venv with Python $version"
if "$python" -m venv --clear "$venv" >/dev/null 2>&1; then
    exit 0
fi
# Debian and Ubuntu keep ensurepip in a package of its own.
if apt_install "python$version-venv" && "$python" -m venv --clear "$venv"; then
    exit 0
fi
# A pip outside can fill an environment that has none (pip >= 22.3).
if "$python" -m venv --clear --without-pip "$venv" && "$python" -m pip --python "$venv/bin/python" install --quiet pip; then
    exit 0
fi
rm -rf "$venv"
echo "$python cannot make a virtual environment. Remedy: sudo apt-get install python$version-venv" >&2
exit 1
