"""The error log (`error_log`), and every file that log lines are written to; the bottom layer, used by all.

Lines are nginx's: `YYYY/MM/DD HH:MM:SS [level] PID#TID: *NUMBER message`. They are written at once, each by one `write`
to a descriptor opened for appending, so that whoever sees what an event did can read of it, and workers share files
without a lock.

`main` is the log of the process: always the same object, writing to standard error until a configuration is in force.
`files` holds the open files: one per path, however many logs share it.
"""

import contextlib
import errno
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import get_native_id

from gateway import syslog
from gateway.syslog import SYSLOG, Syslog, SyslogError

STDERR, EMERG, ALERT, CRIT, ERROR, WARN, NOTICE, INFO, DEBUG = range(9)
NAMES = ("", "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug")

LEVELS = {name: level for level, name in enumerate(NAMES) if name}
_DEBUG_PARTS = frozenset(f"debug_{part}" for part in ("core", "alloc", "mutex", "event", "http", "mail", "stream"))
_LONGEST = 2048  # nginx's NGX_MAX_ERROR_STR: a longer line is cut
_CONTROLS = {code: f"\\x{code:02X}" for code in (*range(9), *range(10, 32), 127)}  # no request may forge a line


class LogError(ValueError):
    """A log cannot be had: a bad specification or a file that cannot be opened. The message is nginx's."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One `error_log`: its target (an absolute path, "stderr" or "syslog:…") and the least severe level it takes."""

    target: str
    level: int = ERROR


def parse(words: Sequence[str], prefix: str) -> Spec:
    """Read the arguments of `error_log`; `prefix` completes a relative file name. Raises `LogError`."""
    level = 0
    for word in words[1:]:
        if word not in LEVELS and word not in _DEBUG_PARTS:
            raise LogError(f'invalid log level "{word}"')
        if level and not (level == DEBUG and word in _DEBUG_PARTS):
            raise LogError(f'duplicate log level "{word}"')
        level = LEVELS.get(word, DEBUG)
    return Spec(target(words[0], prefix), level or ERROR)


def target(word: str, prefix: str) -> str:
    """Judge the target of a log: "stderr", "syslog:…" or a path, then completed by `prefix`. Raises `LogError`."""
    if word == "stderr":
        return word
    if word.startswith("memory:"):
        raise LogError("logs in memory are not supported, name a file")
    if word.startswith(SYSLOG):
        try:
            Syslog.parse(word)
        except SyslogError as error:
            raise LogError(str(error)) from None
        return word
    return os.path.join(prefix, word)


def reason(error: OSError) -> str:
    """The system's reason as nginx prints it: `(2: No such file or directory)`."""
    number = error.errno or 0
    return f"({number}: {os.strerror(number)})"


class File:
    """A file that lines are appended to.

    Lines of `add` are gathered: in a buffer (`size` bytes, at most `interval` seconds) as `access_log … buffer=` says,
    else until the end of this turn of the event loop. `pack` compresses what a buffer held.
    """

    __slots__ = ("_complained", "_held", "_lines", "fd", "interval", "pack", "path", "size")

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1
        self.size = 0
        self.interval = 0.0
        self.pack: Callable[[bytes], bytes] | None = None
        self._lines: list[bytes] = []
        self._held = 0
        self._complained = 0.0

    def open(self) -> None:
        """Open, or open again after the file was renamed, under the same descriptor. Raises `LogError`."""
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LogError(f'open() "{self.path}" failed {reason(error)}') from None
        if self.fd < 0:
            self.fd = fd
        else:
            os.dup2(fd, self.fd, inheritable=False)
            os.close(fd)

    def close(self) -> None:
        self.flush()
        if self.fd > 2:
            os.close(self.fd)
        self.fd = -1

    def write(self, data: bytes) -> None:
        """Write at once. A full disk is reported once a minute: the server must go on."""
        try:
            os.write(self.fd, data)
        except OSError as error:
            now = time.monotonic()
            if now - self._complained > 60 or not self._complained:
                self._complained = now
                main.write(ALERT, f'write() to "{self.path}" failed {reason(error)}')

    def add(self, line: bytes) -> None:
        """Append a line with its line feed: at once, at the end of this turn of the loop, or when the buffer is
        full."""
        lines = self._lines
        if not self.size:
            if lines:
                lines.append(line)
            elif files.soon is None or files.calm():
                self.write(line)
            else:
                files.soon(self.flush)
                lines.append(line)
            return
        if self._held + len(line) > self.size:
            self.flush()
        if not lines and self.interval and files.later is not None:
            files.later(self.interval, self.flush)
        lines.append(line)
        self._held += len(line)

    def flush(self) -> None:
        """Write what is gathered."""
        lines = self._lines
        if not lines:
            return
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        lines.clear()
        self._held = 0
        self.write(data if self.pack is None else self.pack(data))


class Files:
    """The files that the running configuration logs to, one per path.

    `soon` and `later` are the event loop's call_soon and call_later, set in each worker. `calm` says whether so little
    goes on that gathering lines would cost more than it saves: a callback costs more than writing one line.
    """

    __slots__ = ("_before", "_now", "_on_stderr", "calm", "later", "on_stderr", "soon")

    def __init__(self) -> None:
        self.soon: Callable[[Callable[[], None]], object] | None = None
        self.later: Callable[[float, Callable[[], None]], object] | None = None
        self.on_stderr = self._on_stderr = False  # whether any log of the configuration is standard error
        self.calm: Callable[[], bool] = lambda: False
        self._now: dict[str, File] = {}
        self._before: dict[str, File] = {}

    def get(self, path: str) -> File:
        """The file at this path, to be opened by `open`; the same object for whoever asks again, over a reload too."""
        file = self._now.get(path)
        if file is None:
            file = self._now[path] = self._before.get(path) or File(path)
        return file

    def all(self) -> list[File]:
        return list(self._now.values())

    def open(self) -> None:
        """Open all that are not. Raises `LogError`."""
        for file in self._now.values():
            if file.fd < 0:
                file.open()

    def reopen(self, owner: int = -1) -> None:
        """USR1: open every file again. With `owner`, a user id, give him the files, for workers open them too."""
        for file in self._now.values():
            file.flush()
            try:
                file.open()
                if owner >= 0 and os.fstat(file.fd).st_uid != owner:
                    os.fchown(file.fd, owner, -1)
            except (LogError, OSError) as error:
                main.write(EMERG, str(error))

    def flush(self) -> None:
        for file in self._now.values():
            file.flush()

    def begin(self) -> None:
        """A configuration is about to be read: what it asks for is gathered apart from what is open now."""
        self._before, self._now = self._now, {}
        self._on_stderr, self.on_stderr = self.on_stderr, False

    def settle(self) -> None:
        """The configuration is in force: close what it does not use."""
        for path, file in self._before.items():
            if path not in self._now:
                file.close()
        self._before = {}

    def restore(self) -> None:
        """The configuration was refused: close what only it used."""
        for path, file in self._now.items():
            if path not in self._before:
                file.close()
        self._now, self._before = self._before, {}
        self.on_stderr = self._on_stderr


files = Files()


@dataclass(slots=True)
class _Name:
    """A file name that lines were written to; `file` is None while it is not kept open."""

    used: float
    uses: int = 0
    opened: float = 0.0
    file: File | None = None


class Opened:
    """Log files opened by name as lines come, as `open_log_file_cache` says.

    `most` names are remembered; a name is forgotten after `inactive` seconds without a line. A file stays open from its
    `uses`th line on, and is opened anew after `valid` seconds, in case it was renamed.
    """

    __slots__ = ("inactive", "most", "names", "uses", "valid")

    def __init__(self, most: int, inactive: float, uses: int, valid: float) -> None:
        self.most, self.inactive, self.uses, self.valid = most, inactive, uses, valid
        self.names: OrderedDict[bytes, _Name] = OrderedDict()

    def write(self, path: bytes, line: bytes) -> None:
        """Append a line; if the file cannot be opened that is reported, and the line is lost."""
        now = time.monotonic()
        name = self.names.pop(path, None) or _Name(now)
        file = name.file or File(os.fsdecode(path))
        try:
            if name.file is None or now - name.opened > self.valid:
                file.open()
                name.opened = now
        except LogError as error:
            main.write(CRIT, str(error))
            return
        file.write(line)
        name.used, name.uses = now, name.uses + 1
        name.file = file if self.most and name.uses >= self.uses else None
        if name.file is None:
            file.close()
        self.names[path] = name
        self._forget(now)

    def _forget(self, now: float) -> None:
        names = self.names
        while names and (len(names) > self.most or now - next(iter(names.values())).used > self.inactive):
            name = names.popitem(last=False)[1]
            if name.file is not None:
                name.file.close()


class ErrorLog:
    """One or more targets, each with its level, written to together.

    `level` is the least severe level that any of them takes: compare it before building a message that may not be
    wanted. With `console`, warnings and worse are also said on standard error as `nginx: [level] …`, as nginx does
    while it starts.
    """

    __slots__ = ("_targets", "console", "level")

    def __init__(self, specs: Sequence[Spec], *, console: bool = False) -> None:
        self._targets = [(spec.level, _writer(spec.target)) for spec in sorted(specs, key=lambda spec: -spec.level)]
        self.level = max((spec.level for spec in specs), default=0)
        self.console = console

    def become(self, other: "ErrorLog") -> None:
        """Write where `other` writes: whoever holds this log need not be told of a new configuration."""
        self._targets, self.level = other._targets, other.level

    def write(self, level: int, message: str, number: int = 0, *, lines: bool = False) -> None:
        """Write one event. `number` is the connection's, 0 if there is none. `lines`: the message may have several
        (Lua's)."""
        said = False
        if level <= self.level:
            line = _line(level, message, number, lines)
            for least, write in self._targets:
                if level <= least:
                    write(level, line)
                    said = said or write is _stderr
        if self.console and not said and level <= WARN:
            say(f"nginx: [{NAMES[level]}] {message}")


def say(text: str) -> None:
    """Tell the operator on standard error; nobody may be there to listen."""
    try:
        os.write(2, text.encode("utf-8", "surrogateescape") + b"\n")
    except OSError as error:
        if error.errno not in (errno.EBADF, errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EAGAIN):
            raise


_second = 0
_stamp = ""


def _line(level: int, message: str, number: int, lines: bool) -> bytes:
    global _second, _stamp
    now = int(time.time())
    if now != _second:
        _second, _stamp = now, time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now))
    if not lines and not message.isprintable():
        message = message.translate(_CONTROLS)
    connection = f"*{number} " if number else ""
    line = f"{_stamp} [{NAMES[level]}] {os.getpid()}#{get_native_id()}: {connection}{message}"
    return line.encode("utf-8", "surrogateescape")[: _LONGEST - 1] + b"\n"


Writer = Callable[[int, bytes], None]


def _stderr(_: int, line: bytes) -> None:
    with contextlib.suppress(OSError):  # there is no better place to say so
        os.write(2, line)


def _writer(where: str) -> Writer:
    if where == "stderr":
        files.on_stderr = True
        return _stderr
    if where.startswith(SYSLOG):
        server = syslog.server(where)

        def to_syslog(level: int, line: bytes) -> None:
            # syslog's severities are nginx's levels less one
            server.send(line[:-1], max(level - 1, 0))

        return to_syslog
    file = files.get(where)

    def to_file(_: int, line: bytes) -> None:
        if file.fd >= 0:
            file.write(line)

    return to_file


main = ErrorLog([Spec("stderr", NOTICE)])


def crash(kind: type[BaseException], error: BaseException, trace: object = None) -> str:
    """One line that says what an unhandled exception was and where, for an `[alert]`."""
    frame = trace if trace is not None else error.__traceback__
    places = []
    while frame is not None:
        code = frame.tb_frame.f_code  # type: ignore[attr-defined]
        places.append(f"{os.path.basename(code.co_filename)}:{frame.tb_lineno} {code.co_name}")  # type: ignore[attr-defined]
        frame = frame.tb_next  # type: ignore[attr-defined]
    return f"{kind.__name__}: {error} ({' > '.join(places[-6:])})"


def hook(kind: type[BaseException], error: BaseException, trace: object) -> None:
    """`sys.excepthook` of a serving process."""
    main.write(ALERT, crash(kind, error, trace))


def install() -> None:
    """Send unhandled exceptions to the log instead of standard error."""
    sys.excepthook = hook
