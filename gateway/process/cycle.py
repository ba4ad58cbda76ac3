"""One cycle of the server, in nginx's word: a configuration read, its logs and sockets open, ready to serve.

A cycle replaces another whole or not at all: what a refused configuration has opened is closed again, and the reason is
logged.
"""

import contextlib
import os
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.process import loop  # noqa: F401  # isort: skip  # first of all: it decides how asyncio is imported
from gateway import build, log
from gateway.config.bind import place_of
from gateway.config.merge import merged
from gateway.config.schema import ConfigError, Level
from gateway.http.settings import Http
from gateway.net.listener import ListenError, Listeners
from gateway.process import pidfile
from gateway.process import settings as settings_of
from gateway.process.options import Options
from gateway.process.settings import Events, Main, User
from gateway.zones import folder as zones

if TYPE_CHECKING:
    from gateway.http.router import Site


@dataclass(slots=True)
class Cycle:
    """What one configuration gives to the master and its workers."""

    site: "Site"
    main: Main
    events: Events
    user: User | None  # whom workers become; None: they stay who they are
    errors: tuple[log.Spec, ...]

    def error_file(self) -> log.File | None:
        """The file that takes what is printed on standard error; None if a log of the configuration is that itself."""
        paths = [spec.target for spec in self.errors if os.path.isabs(spec.target)]
        return log.files.get(paths[0]) if paths and not log.files.on_stderr else None


def read(options: Options) -> build.Loaded:
    """Read and compile the configuration; nothing is opened. Raises ConfigError."""
    return build.load(options.file, options.paths, settings_of.TABLES, options.extra)


def judge(loaded: build.Loaded, options: Options) -> Cycle:
    """What the configuration means for the process. Raises ConfigError."""
    main, events = settings_of.read(loaded.root)
    if not main.pid:
        main.pid = default_pid(options.paths.prefix)
    check_connections(events, main, len(loaded.site.listens))
    errors = tuple(merged(Http, loaded.root).error_log) or (log.Spec(options.error_log, log.ERROR),)
    return Cycle(loaded.site, main, events, user(main), errors)


def check_connections(events: Events, main: Main, sockets: int) -> None:
    """Whether a worker can have as many connections as it may. Raises ConfigError if it could not even listen."""
    if events.worker_connections < sockets:
        said = f"{events.worker_connections} worker_connections are not enough for {sockets} listening sockets"
        raise ConfigError(said)
    limit = main.worker_rlimit_nofile or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= limit < events.worker_connections:
        log.main.write(
            log.WARN, f"{events.worker_connections} worker_connections exceed open file resource limit: {limit}"
        )


def open_logs(cycle: Cycle) -> log.ErrorLog:
    """Open all log files; returns the main error log of the cycle. Raises LogError."""
    made = log.ErrorLog(cycle.errors)
    log.files.open()
    return made


def prepare(options: Options, listeners: Listeners) -> Cycle:
    """Read the configuration and open what it asks for.

    Raises ConfigError, LogError or ListenError once the reason is logged and what was opened is closed again.
    """
    log.files.begin()
    try:
        loaded = read(options)
        cycle = judge(loaded, options)
        errors = open_logs(cycle)
        pidfile.probe(cycle.main.pid)
        make_folders(loaded.root, cycle.user)
        zones.prepare(cycle.site.shared, (cycle.user.uid, cycle.user.gid) if cycle.user is not None else None)
        listeners.open(cycle.site.listens, settings_of.workers(cycle.main))
    except (ConfigError, log.LogError) as error:
        log.main.write(log.EMERG, str(error))
        log.files.restore()
        raise
    except ListenError:
        log.files.restore()
        raise
    log.main.become(errors)
    log.files.settle()
    listeners.settle(cycle.site.listens)
    zones.settle(cycle.site.shared)
    return cycle


def make_folders(level: Level, owner: User | None) -> None:
    """Make the folders of all `…_temp_path` and `…_cache_path` directives and give them to the workers' user.

    Raises ConfigError.
    """
    for (table, name), value in level.values.items():
        if not isinstance(name, str) or not name.endswith(("_temp_path", "_cache_path")):
            continue
        for path in [value] if isinstance(value, str) else [getattr(one, "path", "") for one in value]:
            try:
                if path:
                    make_folder(path, owner)
            except OSError as error:
                message = f'mkdir() "{path}" failed {log.reason(error)}'
                raise ConfigError(message, place_of(level, table, name)) from None
    for child in level.children:
        make_folders(child, owner)


def make_folder(path: str, owner: User | None) -> None:
    if not os.path.isdir(path):
        os.mkdir(path, 0o700)
    if owner is not None and os.stat(path).st_uid != owner.uid:
        os.chown(path, owner.uid, -1)


def user(main: Main) -> User | None:
    """Whom workers become: only root can, and does."""
    if os.geteuid() != 0:
        if main.user is not None:
            log.main.write(
                log.WARN,
                'the "user" directive makes sense only if the master process runs with super-user privileges, ignored',
            )
        return None
    chosen = main.user or settings_of.nobody()
    return None if chosen.uid == 0 and chosen.gid == 0 else chosen


def default_pid(prefix: str) -> str:
    """Where the process id goes if no `pid` directive says: nginx's logs/nginx.pid if there is such a folder."""
    if os.path.isdir(prefix + "logs"):
        return prefix + "logs/nginx.pid"
    return "/run/nginx.pid" if os.geteuid() == 0 else prefix + "nginx.pid"


def name_process(title: str) -> None:
    """What `ps` calls this process (15 bytes at most)."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(title)
