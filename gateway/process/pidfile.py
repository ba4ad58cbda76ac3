"""The file that holds the master's process id (`pid`)."""

import contextlib
import os
import signal

from gateway import log

OLD = ".oldbin"  # what an older binary's file is called while a newer one starts
COMMANDS = {
    "stop": signal.SIGTERM,
    "quit": signal.SIGQUIT,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
}


def write(path: str) -> None:
    """Write our process id in one step: whoever sees the file sees it whole. Raises `LogError`."""
    text = f"{os.getpid()}\n".encode()
    fresh = f"{path}.{os.getpid()}"
    try:
        if not os.path.exists(path) or os.path.isfile(path):
            with contextlib.suppress(PermissionError):
                _put(fresh, text)
                os.rename(fresh, path)
                return
        _put(path, text)  # a device, or a file in a folder where we may not make another
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise log.LogError(f'open() "{path}" failed {log.reason(error)}') from None


def probe(path: str) -> None:
    """See that the file can be written, and leave all as it was. Raises `LogError`."""
    there = os.path.exists(path)
    name = path if there else f"{path}.{os.getpid()}"
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        if not there:
            os.unlink(name)
    except OSError as error:
        raise log.LogError(f'open() "{path}" failed {log.reason(error)}') from None


def _put(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def remove(path: str) -> None:
    """Remove the file; a missing one is reported, as by nginx."""
    try:
        os.unlink(path)
    except OSError as error:
        log.main.write(log.ALERT, f'unlink() "{path}" failed {log.reason(error)}')


def rename(old: str, new: str) -> bool:
    """Rename the file; False, and an alert, if it cannot be done."""
    try:
        os.rename(old, new)
    except OSError as error:
        log.main.write(log.ALERT, f'rename() {old} to {new} failed {log.reason(error)}')
        return False
    return True


def send(command: str, path: str) -> int:
    """`-s`: signal the master that wrote the file; returns the exit code."""
    try:
        with open(path, "rb") as file:
            text = file.read(32).strip()
    except OSError as error:
        log.main.write(log.ERROR, f'open() "{path}" failed {log.reason(error)}')
        return 1
    if not text.isdigit() or not int(text):
        log.main.write(log.ERROR, f'invalid PID number "{text.decode(errors="replace")}" in "{path}"')
        return 1
    try:
        os.kill(int(text), COMMANDS[command])
    except OSError as error:
        log.main.write(log.ALERT, f"kill({int(text)}, {COMMANDS[command].value}) failed {log.reason(error)}")
        return 1
    return 0
