"""The rows of the main and `events` levels: what the master and its workers do.

Source: https://nginx.org/en/docs/ngx_core_module.html
"""

import grp
import os
import pwd
from dataclasses import dataclass
from typing import Any

from gateway import log
from gateway.config.args import choice, duration, flag, integer, nothing, size, string, strings
from gateway.config.merge import merged
from gateway.config.schema import Arg, ConfigError, In, Item, Level, Merge, Statement, block, directive, many
from gateway.process import features

AUTO = -1  # `worker_processes auto`

_LIBUV = "the event loop decides"
_NO_MUTEX = "workers accept from shared sockets, or share the load by reuseport"


@dataclass(frozen=True, slots=True)
class User:
    """Whom workers run as."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()  # looked up once, in the master: the libraries for it cost each process 0.2 MB


def _user(statement: Statement) -> User | None:
    name, *rest = statement.args
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(f'getpwnam("{name}") failed', statement.place) from None
    group = rest[0] if rest else name
    try:
        gid = grp.getgrnam(group).gr_gid
        return User(name, entry.pw_uid, gid, tuple(os.getgrouplist(name, gid)))
    except KeyError:
        raise ConfigError(f'getgrnam("{group}") failed', statement.place) from None


def _processes(statement: Statement) -> int:
    if statement.args[0] == "auto":
        return AUTO
    if not statement.args[0].isdigit():
        raise ConfigError('"worker_processes" directive invalid value', statement.place)
    return int(statement.args[0])


def _priority(statement: Statement) -> int:
    word = statement.args[0]
    if not word.removeprefix("-").removeprefix("+").isdigit():
        raise ConfigError('"worker_priority" directive invalid number', statement.place)
    return int(word)


@dataclass(frozen=True, slots=True)
class Affinity:
    """CPUs per worker, in order; with `auto` each worker gets one of the allowed CPUs (all, if none are given)."""

    auto: bool = False
    masks: tuple[frozenset[int], ...] = ()

    def cpus(self, index: int) -> frozenset[int]:
        """The CPUs of one worker; empty: any. Workers beyond the last mask share it, as in nginx."""
        if self.auto:
            allowed = sorted(self.masks[0] if self.masks else os.sched_getaffinity(0))
            return frozenset(allowed[index % len(allowed) :][:1])
        return self.masks[min(index, len(self.masks) - 1)] if self.masks else frozenset()


def _affinity(statement: Statement) -> Affinity:
    words = statement.args
    auto = words[0] == "auto"
    if auto and len(words) > 2:
        raise ConfigError('invalid number of arguments in "worker_cpu_affinity" directive', statement.place)
    masks = []
    for word in words[1:] if auto else words:
        for character in word:
            if character not in "01":
                raise ConfigError(f'invalid character "{character}" in "worker_cpu_affinity"', statement.place)
        masks.append(frozenset(number for number, bit in enumerate(reversed(word)) if bit == "1"))
    return Affinity(auto, tuple(masks))


def _load(statement: Statement) -> str:
    name = os.path.basename(statement.args[0])
    if not features.loadable(name) and name in features.REFUSED:
        said = f'module "{name}" is not here: directives of it that would change answers are refused'
        log.main.write(log.WARN, f"{said} in {statement.place}")
    elif not features.loadable(name):
        path = os.path.join(statement.paths.prefix, statement.args[0])
        raise ConfigError(f'dlopen() "{path}" failed (no module of this name is built in)', statement.place)
    return name


def _pool(statement: Statement) -> tuple[str, ...]:
    for word in statement.args[1:]:
        name, _, value = word.partition("=")
        if name not in ("threads", "max_queue"):
            raise ConfigError(f'invalid parameter "{word}"', statement.place)
        if not value.isdigit():
            raise ConfigError(f'invalid {name} value "{word}"', statement.place)
    return statement.args


def _connections(statement: Statement) -> int:
    if not statement.args[0].isdigit():
        raise ConfigError(f'invalid number "{statement.args[0]}"', statement.place)
    return int(statement.args[0])


def _event_type(statement: Statement) -> str:
    if statement.args[0] != "epoll":
        raise ConfigError(f'invalid event type "{statement.args[0]}"', statement.place)
    return statement.args[0]


@block
class Main:
    """What the process as a whole does."""

    events: tuple[Item[Any], ...] = many(
        In.MAIN,
        {"events": nothing()},
        "How connections are processed; required.",
        opens={"events": lambda _outer: In.EVENTS},
        merge=Merge.OWN,
    )
    daemon: bool = directive(In.MAIN, flag(), True, "Go to the background.")
    master_process: bool = directive(In.MAIN, flag(), True, "Serve in workers; off: in this very process.")
    worker_processes: int = directive(
        In.MAIN, Arg("number | auto", 1, 1, _processes), 1, "How many workers; auto: one per CPU."
    )
    pid: str = directive(
        In.MAIN,
        Arg("file", 1, 1, lambda statement: os.path.join(statement.paths.prefix, statement.args[0])),
        "",
        "Where the master's process id is written.",
        default_text="logs/nginx.pid",
    )
    user: User | None = directive(
        In.MAIN,
        Arg("user [group]", 1, 2, _user),
        None,
        "Whom workers run as, if the master is root.",
        default_text="nobody nogroup",
    )
    env: tuple[str, ...] = many(
        In.MAIN, string(), "A variable of the environment that workers keep (NAME) or get (NAME=value)."
    )
    working_directory: str = directive(In.MAIN, string(), "", "The working directory of workers.")
    worker_priority: int = directive(
        In.MAIN, Arg("[-]number", 1, 1, _priority), 0, "The niceness of workers, -20 to 20."
    )
    worker_cpu_affinity: Affinity = directive(
        In.MAIN, Arg("auto [cpumask] | cpumask ...", 1, None, _affinity), Affinity(), "The CPUs of workers."
    )
    worker_rlimit_nofile: int = directive(In.MAIN, integer(0, 2**31), 0, "The limit of open files of a worker.")
    worker_rlimit_core: int = directive(In.MAIN, size(), -1, "The largest core file of a worker.", default_text="-")
    worker_shutdown_timeout: float = directive(
        In.MAIN, duration(), 0.0, "How long a worker may finish its requests when it has to go; 0: for ever."
    )
    load_module: tuple[str, ...] = many(
        In.MAIN, Arg("file", 1, 1, _load), "A dynamic module; accepted if what it offers is built in, or is refused."
    )
    # accepted without effect
    lock_file: str = directive(In.MAIN, string(), "logs/nginx.lock", "The file of accept_mutex.", idle=_NO_MUTEX)
    pcre_jit: bool = directive(In.MAIN, flag(), False, "Compile regular expressions.", idle="they always are")
    thread_pool: tuple[tuple[str, ...], ...] = many(
        In.MAIN,
        Arg("name threads=number [max_queue=number]", 2, 3, _pool),
        "Threads for file reads.",
        idle="files are read the cheapest way",
    )
    timer_resolution: float = directive(In.MAIN, duration(), 0.0, "How often the time is read.", idle=_LIBUV)
    debug_points: str = directive(
        In.MAIN, choice("stop", "abort"), "", "What to do on an internal error.", idle="they are logged"
    )
    ssl_object_cache_inheritable: bool = directive(
        In.MAIN, flag(), True, "Keep certificates over a reload.", idle="a reload reads them again"
    )


@block
class Events:
    """How a worker processes connections."""

    worker_connections: int = directive(
        In.EVENTS, Arg("number", 1, 1, _connections), 512, "Connections a worker may have open."
    )
    use: str = directive(In.EVENTS, Arg("epoll", 1, 1, _event_type), "epoll", "The event method.", idle=_LIBUV)
    multi_accept: bool = directive(In.EVENTS, flag(), False, "Accept all waiting connections at once.", idle=_LIBUV)
    accept_mutex: bool = directive(In.EVENTS, flag(), False, "Accept in turn.", idle=_NO_MUTEX)
    accept_mutex_delay: float = directive(
        In.EVENTS, duration(), 0.5, "How long to wait for one's turn.", idle=_NO_MUTEX, default_text="500ms"
    )
    worker_aio_requests: int = directive(
        In.EVENTS, integer(0, 2**31), 32, "Outstanding asynchronous reads.", idle="files are read the cheapest way"
    )
    debug_connection: tuple[str, ...] = directive(
        In.EVENTS, strings(1), (), "Clients whose connections are logged at level debug.", idle="there is no debug log"
    )


TABLES: tuple[type, ...] = (Main, Events)


def read(root: Level) -> tuple[Main, Events]:
    """The process settings of a configuration. Raises ConfigError."""
    inner = [level for level in root.children if level.context is In.EVENTS]
    if not inner:
        raise ConfigError('no "events" section in configuration')
    if len(inner) > 1:
        raise ConfigError('"events" directive is duplicate', inner[1].place)
    return merged(Main, root), merged(Events, inner[0])


def workers(main: Main) -> int:
    """How many workers to start."""
    return len(os.sched_getaffinity(0)) if main.worker_processes == AUTO else main.worker_processes


def nobody() -> User:
    """Whom workers of root run as without a `user` directive."""
    entry = pwd.getpwnam("nobody")
    return User("nobody", entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist("nobody", entry.pw_gid)))
