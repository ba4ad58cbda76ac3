"""A worker process: its identity, its event loop, and its end.

A worker starts as a copy of the master that has read the configuration. It gives up root, serves on its sockets, and
ends on

- QUIT: gracefully; new connections are refused, idle ones closed, requests finished (`worker_shutdown_timeout` at
  most);
- TERM or INT: at once;
- the death of its master, seen at the end of a pipe that only the master can write to: as on QUIT, within seconds.

Exit codes: 0, or 2 if it could not start (a master does not start it again then).
"""

import asyncio
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable

from gateway import log
from gateway.http import connection  # noqa: F401  # the whole engine is loaded before the fork
from gateway.http.service import Service
from gateway.process import loop as loops
from gateway.process.cycle import Cycle, name_process
from gateway.process.settings import Main, User

FATAL = 2  # exit code: it would fail again
FEW = 4  # open connections: up to here a turn of the loop serves one request at most, nearly always
ORPHAN = 5.0  # seconds that a worker without a master may finish its requests

_DEFAULTS = (signal.SIGCHLD, signal.SIGHUP, signal.SIGUSR2, signal.SIGWINCH, signal.SIGALRM)


class Worker:
    """A running worker."""

    __slots__ = ("cycle", "leaving", "loop", "service")

    def __init__(self, cycle: Cycle, loop: asyncio.AbstractEventLoop, number: int = 0) -> None:
        self.cycle = cycle
        self.loop = loop
        self.leaving = False
        self.service = Service(cycle.site, loop)
        # what modules may want to know of the process they start in
        cycle.site.shared["worker"] = number
        cycle.site.shared[Service] = self.service
        log.files.soon, log.files.later = loop.call_soon, loop.call_later
        log.files.calm = lambda: len(self.service.connections) <= FEW

    def serve(self, sockets: dict[str, socket.socket]) -> None:
        """Accept on the sockets; every worker does, the kernel deals the connections out."""
        bound = [listen for listen in self.cycle.site.listens if listen.bound]
        # to nginx a listening socket is a connection too, and so is the channel to the master
        self.service.limit_connections(self.cycle.events.worker_connections, len(bound) + 1)
        self.service.start()  # before the first connection, which may come while the others are still set up
        for listen in bound:
            self.service.serve(listen, sockets[listen.key])

    def watch(self, signals: dict[signal.Signals, Callable[[], None]]) -> None:
        for number, handle in signals.items():
            self.loop.add_signal_handler(number, handle)

    def handle_quit(self) -> None:
        """Leave gracefully."""
        if self.leaving:
            return
        self.leaving = True
        log.main.write(log.NOTICE, "gracefully shutting down")
        limit = self.cycle.main.worker_shutdown_timeout
        if limit:
            self.loop.call_later(limit, self.handle_term)
        self.service.drain(self.handle_drained)

    def handle_drained(self) -> None:
        """All connections have ended; but one that was accepted in the turn of the signal is made only afterwards."""
        if self.service.connections:
            self.service.drain(self.handle_drained)
        else:
            self.loop.stop()

    def handle_term(self) -> None:
        """Leave at once."""
        self.leaving = True
        self.service.close()
        # what closing has scheduled (log lines, last packets) runs in the turn that follows
        self.loop.call_soon(self.loop.stop)

    def handle_usr1(self) -> None:
        """Reopen the logs."""
        log.main.write(log.NOTICE, "reopening logs")
        log.files.reopen()

    def handle_orphaned(self) -> None:
        """The master is gone: nobody could stop or replace this process."""
        log.main.write(log.NOTICE, "master process is gone")
        self.loop.call_later(ORPHAN, self.handle_term)
        self.handle_quit()

    def run(self) -> None:
        """Serve until told to stop."""
        try:
            self.loop.run_forever()
            log.main.write(log.NOTICE, "exiting")
        finally:
            log.files.flush()


def run(cycle: Cycle, sockets: dict[str, socket.socket], alive: int, number: int = 0) -> int:
    """The whole life of a worker process; returns its exit code.

    `alive` is the reading end of the master's pipe; `number` counts the workers that the master has started.
    """
    try:
        name_process("tengine: worker")
        become(cycle)
        worker = Worker(cycle, loops.new(), number)
        worker.watch(
            {
                signal.SIGQUIT: worker.handle_quit,
                signal.SIGTERM: worker.handle_term,
                signal.SIGINT: worker.handle_term,
                signal.SIGUSR1: worker.handle_usr1,
            }
        )
        for number in _DEFAULTS:
            signal.signal(number, signal.SIG_DFL if number is signal.SIGCHLD else signal.SIG_IGN)
        worker.loop.add_reader(alive, orphaned, worker, alive)
        worker.serve(sockets)
        # what came while we started is delivered once the loop runs
        worker.loop.call_soon(signal.pthread_sigmask, signal.SIG_SETMASK, ())
    except Exception as error:
        log.main.write(log.ALERT, f"worker process could not start: {log.crash(type(error), error)}")
        return FATAL
    worker.run()
    log.main.write(log.NOTICE, "exit")
    return 0


def orphaned(worker: Worker, alive: int) -> None:
    """The pipe has ended. Nothing is ever written to it."""
    worker.loop.remove_reader(alive)
    worker.handle_orphaned()


def become(cycle: Cycle) -> None:
    """Take the limits, the user and the environment that the configuration gives to workers.

    Raises OSError if the user cannot be changed; limits that cannot be set are logged, as nginx does.
    """
    log.install()
    main = cycle.main
    _limit("worker_rlimit_nofile", resource.RLIMIT_NOFILE, main.worker_rlimit_nofile or -1)
    _limit("worker_rlimit_core", resource.RLIMIT_CORE, main.worker_rlimit_core)
    if main.worker_priority:
        _try(f"setpriority({main.worker_priority})", lambda: os.setpriority(os.PRIO_PROCESS, 0, main.worker_priority))
    if cycle.user is not None:
        drop(cycle.user)
    if main.working_directory:
        os.chdir(main.working_directory)
    environment(main.env)


def pin(main: Main, index: int) -> None:
    """`worker_cpu_affinity` of one worker."""
    cpus = main.worker_cpu_affinity.cpus(index)
    if cpus:
        _try("sched_setaffinity()", lambda: os.sched_setaffinity(0, cpus))


def drop(user: User) -> None:
    """Change from root to another user, for good. Raises OSError."""
    if user.gid:
        os.setgid(user.gid)
    os.setgroups(user.groups)
    os.setuid(user.uid)
    if not os.access(os.__file__, os.R_OK):
        folder = os.path.dirname(os.__file__)
        text = f'user "{user.name}" cannot read {folder}: what is imported from now on will fail'
        log.main.write(log.WARN, text + '; install Python where all may read it, or set "user"')


def environment(names: tuple[str, ...]) -> None:
    """`env`: keep or set what is named, and TZ; remove all else."""
    kept = {"TZ": os.environ["TZ"]} if "TZ" in os.environ else {}
    for word in names:
        name, equals, value = word.partition("=")
        if equals:
            kept[name] = value
        elif name in os.environ:
            kept[name] = os.environ[name]
    os.environ.clear()
    os.environ.update(kept)


def _limit(name: str, kind: int, value: int) -> None:
    if value >= 0:
        _try(f"{name}: setrlimit({value})", lambda: resource.setrlimit(kind, (value, value)))


def _try(what: str, act: Callable[[], None]) -> None:
    try:
        act()
    except (OSError, ValueError) as error:
        detail = log.reason(error) if isinstance(error, OSError) else f"({error})"
        log.main.write(log.ALERT, f"{what} failed {detail}")


def finish(code: int) -> None:
    """End a forked process without running what the master has registered for its own end."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
