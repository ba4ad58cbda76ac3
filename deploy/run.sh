#!/usr/bin/env bash
# Starts the speech service and the gateway in the foreground, says what is going on, and stops both on Ctrl-C or TERM.
#
#   VENV          the virtual environment with both programs (default .venv; `make run` sets it)
#   GATEWAY_PORT  where people connect (default 7860)
#   SPEECH_PORT   where the gateway finds the speech service (default 8000)
#   START_TIMEOUT seconds to wait until the service can speak (default 600)
# The speech service's own settings (ENGINE, DEVICE, PROMPT_DIR …) pass through; docs/speech.md lists them.
# Exit status: 0 after Ctrl-C or TERM, 1 when something could not start or died, with the reason said last.

set -u

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT" || exit 1
VENV=${VENV:-.venv}
GATEWAY_PORT=${GATEWAY_PORT:-7860}
SPEECH_PORT=${SPEECH_PORT:-8000}
START_TIMEOUT=${START_TIMEOUT:-600}
PYTHON=$VENV/bin/python
CONF=conf/tengine.conf
LOGS=logs
speech='' gateway=''

bold='' red='' plain=''
[ -t 1 ] && [ -t 2 ] && bold=$'\033[1m' red=$'\033[1;31m' plain=$'\033[0m'

say() { printf '%s==>%s %s\n' "$bold" "$plain" "$*"; }
die() {
    stop
    printf '%s==> %s%s\n' "$red" "$*" "$plain" >&2
    exit 1
}

# Starts a program in a process group of its own, so that Ctrl-C reaches this script alone and stopping is in order.
launch() {
    set -m
    "$@" </dev/null &
    set +m
}

alive() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }

# Waits at most $2 seconds for process $1 to end; then it is killed.
reap() {
    local pid=$1 left=$(($2 * 10))
    while alive "$pid" && [ $left -gt 0 ]; do
        sleep 0.1
        left=$((left - 1))
    done
    if alive "$pid"; then
        say "process $pid did not stop in $2 s and is killed"
        kill -KILL -- "-$pid" 2>/dev/null
    fi
    wait "$pid" 2>/dev/null
}

# The gateway first: it stops taking requests and waits for the answers of those it has.
stop() {
    trap '' INT TERM HUP
    alive "$gateway" && kill -QUIT "$gateway" 2>/dev/null
    alive "$speech" && kill -TERM "$speech" 2>/dev/null
    [ -n "$gateway" ] && reap "$gateway" 15
    [ -n "$speech" ] && reap "$speech" 40
    gateway='' speech=''
}

interrupted() {
    printf '\n'
    say "stopping"
    stop
    say "both are stopped"
    exit 0
}

port_is_free() {
    "$PYTHON" - "$1" <<'PY'
import socket, sys
with socket.socket() as probe:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("", int(sys.argv[1])))
    except (OSError, OverflowError, ValueError):
        sys.exit(1)
PY
}

# Prints the state of the speech service: ready, "loading 3.5", "failed <reason>", or nothing while it does not answer.
speech_state() {
    "$PYTHON" - "http://127.0.0.1:$SPEECH_PORT/readyz" <<'PY'
import json, sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=5) as answer:
        told = json.load(answer)
except urllib.error.HTTPError as error:
    told = json.load(error)
except (OSError, ValueError):
    sys.exit()
print(told["state"], told.get("reason", told.get("seconds", "")))
PY
}

gateway_answers() {
    "$PYTHON" - "http://127.0.0.1:$GATEWAY_PORT/" <<'PY'
import sys, urllib.error, urllib.request
try:
    urllib.request.urlopen(sys.argv[1], timeout=5).close()
except urllib.error.HTTPError:
    pass
except OSError:
    sys.exit(1)
PY
}

check() {
    [ -x "$PYTHON" ] || die "there is no virtual environment in $VENV: run \`make run\`, or set VENV"
    [ -r "$CONF" ] || die "$ROOT/$CONF is missing"
    [ "$GATEWAY_PORT" != "$SPEECH_PORT" ] || die "GATEWAY_PORT and SPEECH_PORT are both $SPEECH_PORT; choose two ports"
    port_is_free "$SPEECH_PORT" || die "port $SPEECH_PORT is taken or not allowed: set SPEECH_PORT to another one"
    port_is_free "$GATEWAY_PORT" || die "port $GATEWAY_PORT is taken or not allowed: set GATEWAY_PORT to another one"
    mkdir -p "$LOGS" var/run var/prompts
}

# With other ports than those written in the configuration, a copy of it beside the original says them.
configure() {
    [ "$GATEWAY_PORT" = 7860 ] && [ "$SPEECH_PORT" = 8000 ] && return
    local copy=conf/.tengine.$GATEWAY_PORT.conf
    sed -E "s/(listen[[:space:]]+([^;[:space:]]*:)?)7860/\1$GATEWAY_PORT/; s/(127\.0\.0\.1|localhost):8000/\1:$SPEECH_PORT/g" \
        "$CONF" >"$copy" || die "cannot write $copy"
    CONF=$copy
    trap 'rm -f "$ROOT/$CONF"' EXIT
}

start_speech() {
    say "starting the speech service on 127.0.0.1:$SPEECH_PORT (the first start prepares the model's weights)"
    launch env SPEECH_BIND="127.0.0.1:$SPEECH_PORT" "$PYTHON" -m gunicorn -c deploy/gunicorn.conf.py
    speech=$!
}

start_gateway() {
    say "starting the gateway on port $GATEWAY_PORT with $CONF"
    local globals=""
    grep -Eq '^[[:space:]]*daemon[[:space:]]' "$CONF" || globals="daemon off;"
    # Started by root, workers would be nobody, who may not read a project in root's home: they are its owner instead.
    [ "$(id -u)" != 0 ] || grep -Eq '^[[:space:]]*user[[:space:]]' "$CONF" || globals="$globals user $(stat -c %U "$ROOT");"
    launch "$PYTHON" -m gateway -p "$ROOT/" -c "$CONF" -g "$globals"
    gateway=$!
    local left=50
    until gateway_answers; do
        alive "$gateway" || { wait "$gateway"; die "the gateway could not start (exit status $?); the lines above say why"; }
        [ $left -gt 0 ] || die "the gateway does not answer on port $GATEWAY_PORT"
        left=$((left - 1))
        sleep 0.2
    done
}

wait_for_speech() {
    local state shown='' end=$((SECONDS + START_TIMEOUT))
    while true; do
        alive "$speech" || { wait "$speech"; die "the speech service could not start (exit status $?); the lines above say why"; }
        state=$(speech_state)
        case $state in
            ready*) return ;;
            failed*) die "the speech service cannot load its engine: ${state#failed }" ;;
            loading*) [ -n "$shown" ] || say "the speech service answers; its engine is loading" && shown=1 ;;
        esac
        [ $SECONDS -lt $end ] || die "the speech service was not ready after $START_TIMEOUT s (START_TIMEOUT)"
        sleep 0.5
    done
}

what_to_try() {
    say "ready after $SECONDS s"
    cat <<TEXT

    Page:     http://127.0.0.1:$GATEWAY_PORT/
    Try:      curl -s http://127.0.0.1:$GATEWAY_PORT/generate_audio -H 'Content-Type: application/json' \\
                   -d '{"text": "Hello, this is the first sentence.", "seed": 42}' -o hello.wav
    Stop:     Ctrl-C

TEXT
}

trap interrupted INT TERM HUP
check
configure
start_speech
start_gateway
wait_for_speech
what_to_try
wait -n "$speech" "$gateway"
status=$?
alive "$speech" || die "the speech service ended by itself (exit status $status); the gateway was stopped"
alive "$gateway" || die "the gateway ended by itself (exit status $status); the speech service was stopped"
die "a program ended by itself (exit status $status)"
