"""The master process: reads the configuration, binds, forks workers, and does what signals ask.

Signals stay blocked here and are taken one at a time by `sigwaitinfo`, so nothing ever runs in between; each is handled
by the function `handle_<signal>`. Meanings as in https://nginx.org/en/docs/control.html: HUP reload, QUIT and TERM
stop, USR1 reopen logs, USR2 upgrade the binary, WINCH stop the workers, CHLD a worker has ended.

The master runs no event loop. What it has imported and compiled before it forks is frozen (`gc.freeze`) and so shared
with the workers until someone writes to it.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway import VERSION, log
from gateway.config.schema import ConfigError
from gateway.net.listener import ListenError, Listeners
from gateway.process import pidfile, worker
from gateway.process import settings as settings_of
from gateway.process.cycle import Cycle, name_process, prepare
from gateway.process.options import Options
from gateway.zones import folder as zones

INHERITED = "NGINX"  # environment variable: descriptors of listening sockets, from an older binary
HARD = 1.0  # seconds: once the pause between two TERMs is longer, workers are killed

Handler = Callable[["Master", int], None]


@dataclass(slots=True)
class Child:
    """A worker process."""

    index: int
    generation: int
    leaving: bool = False  # it was told to go: its end is expected


@dataclass(slots=True)
class Master:
    """The state of a running master."""

    options: Options
    cycle: Cycle
    listeners: Listeners
    children: dict[int, Child] = field(default_factory=dict)
    generation: int = 0
    forks: int = 0  # workers started so far
    quitting: bool = False
    terminating: bool = False
    idle: bool = False  # WINCH: no workers wanted
    upgraded: int = 0  # the process id of the new binary after USR2, 0: none
    parent: int = field(default_factory=os.getppid)
    inherited: bool = False  # started by an older binary
    alive: tuple[int, int] = (-1, -1)  # the pipe by whose end workers notice that the master is gone
    next_term: float = 0.0  # when TERM is sent again, monotonic; 0: not asked to
    pause: float = 0.05

    def run(self) -> int:
        """Serve until told to stop; returns the exit code."""
        name_process("tengine: master")
        self.alive = os.pipe()
        log.main.write(log.NOTICE, "start worker processes")
        self.start_workers()
        pidfile.write(self.cycle.main.pid)
        while self.children or not (self.quitting or self.terminating):
            self.step()
        self.finish()
        return 0

    def step(self) -> None:
        """Wait for one signal and handle it."""
        if self.next_term:
            info = signal.sigtimedwait(HANDLERS, max(self.next_term - time.monotonic(), 0))
            if info is None:
                self.press()
                return
        else:
            info = signal.sigwaitinfo(HANDLERS)
        number = signal.Signals(info.si_signo)
        sender = f" received from {info.si_pid}" if info.si_pid else " received"
        log.main.write(log.NOTICE, f"signal {number.value} ({number.name}){sender}{SAYS.get(number, '')}")
        HANDLERS[number](self, info.si_pid)

    # workers

    def start_workers(self) -> None:
        """Start a new generation of workers."""
        self.generation += 1
        share()
        for index in range(settings_of.workers(self.cycle.main)):
            self.start_worker(index)

    def start_worker(self, index: int) -> None:
        """Fork one worker."""
        self.forks += 1
        try:
            pid = os.fork()
        except OSError as error:
            log.main.write(log.ALERT, f'fork() failed while spawning "worker process" {log.reason(error)}')
            return
        if pid == 0:
            self.become_worker(index)
        log.main.write(log.NOTICE, f"start worker process {pid}")
        self.children[pid] = Child(index, self.generation)

    def become_worker(self, index: int) -> None:
        """The rest of a forked process's life."""
        code = worker.FATAL
        try:
            os.close(self.alive[1])
            log.main.console = False
            worker.pin(self.cycle.main, index)
            code = worker.run(self.cycle, self.listeners.of_worker(index), self.alive[0], self.forks)
        except BaseException as error:
            log.main.write(log.ALERT, log.crash(type(error), error))
        finally:
            worker.finish(code)

    def tell(self, number: signal.Signals, generation: int | None = None) -> None:
        """Send a signal to the workers, or to those up to a generation."""
        for pid, child in self.children.items():
            if generation is not None and child.generation > generation:
                continue
            if number is not signal.SIGUSR1:
                child.leaving = True
            try:
                os.kill(pid, number)
            except OSError as error:
                log.main.write(log.ALERT, f"kill({pid}, {number.value}) failed {log.reason(error)}")

    def press(self) -> None:
        """Ask the workers to end at once: TERM again and again, at last KILL."""
        self.tell(signal.SIGKILL if self.pause > HARD else signal.SIGTERM)
        self.pause *= 2
        self.next_term = time.monotonic() + self.pause

    # signals

    def handle_hup(self, _sender: int) -> None:
        """Read the configuration again; old workers finish what they have begun."""
        if self.quitting or self.terminating:
            return
        if self.upgraded:
            # the new binary has the new configuration: this one brings its workers back
            log.main.write(log.NOTICE, "start new workers")
            self.idle = False
            self.start_workers()
            return
        log.main.write(log.NOTICE, "reconfiguring")
        gc.unfreeze()
        try:
            cycle = prepare(self.options, self.listeners)
        except (ConfigError, ListenError, log.LogError):
            share()
            return  # said already; the old configuration stays in force
        self.cycle = replaced(self.cycle, cycle)
        gc.collect()
        log.main.write(log.NOTICE, "start worker processes")
        older = self.generation
        self.idle = False
        self.start_workers()
        self.tell(signal.SIGQUIT, older)

    def handle_quit(self, _sender: int) -> None:
        """Stop gracefully."""
        self.quitting = True
        self.tell(signal.SIGQUIT)
        self.listeners.close(unlink=self.owns_paths())

    def handle_term(self, _sender: int) -> None:
        """Stop at once."""
        self.terminating = True
        self.press()

    def handle_usr1(self, _sender: int) -> None:
        """Open the log files again, in the workers too."""
        log.main.write(log.NOTICE, "reopening logs")
        log.files.reopen(self.cycle.user.uid if self.cycle.user else -1)
        redirect_stderr(self.cycle)
        self.tell(signal.SIGUSR1)

    def handle_usr2(self, _sender: int) -> None:
        """Start the binary anew beside this one, with the listening sockets."""
        if self.upgraded or (self.inherited and os.getppid() == self.parent and self.parent > 1):
            log.main.write(log.NOTICE, "the changing binary signal is ignored: an upgrade is going on")
            return
        log.main.write(log.NOTICE, "changing binary")
        pid_path = self.cycle.main.pid
        if not pidfile.rename(pid_path, pid_path + pidfile.OLD):
            return
        try:
            self.upgraded = self.execute()
        except OSError as error:
            log.main.write(log.ALERT, f"fork() failed while spawning the new binary {log.reason(error)}")
            pidfile.rename(pid_path + pidfile.OLD, pid_path)

    def execute(self) -> int:
        """Fork and run the same command; returns its process id."""
        environment = dict(self.options.environment, **{INHERITED: self.listeners.environment()})
        fds = self.listeners.fds()
        pid = os.fork()
        if pid:
            log.main.write(log.NOTICE, f"start new binary process {pid}")
            return pid
        try:
            for fd in fds:
                os.set_inheritable(fd, True)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.execve(sys.executable, [sys.executable, *self.options.command], environment)
        except OSError as error:
            log.main.write(log.ALERT, f'execve() failed while executing "{sys.executable}" {log.reason(error)}')
        finally:
            os._exit(1)

    def handle_winch(self, _sender: int) -> None:
        """Stop the workers gracefully, stay oneself (half of an upgrade). Only a daemon does, as in nginx."""
        if self.cycle.main.daemon:
            self.idle = True
            self.tell(signal.SIGQUIT)

    def handle_chld(self, _sender: int) -> None:
        """Workers have ended: say how, and replace those that were not told to go."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.reap(pid, status)

    def reap(self, pid: int, status: int) -> None:
        """Account for one ended process."""
        name = "worker process" if pid != self.upgraded else "new binary process"
        child = self.children.pop(pid, None)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            core = " (core dumped)" if os.WCOREDUMP(status) else ""
            log.main.write(log.ALERT, f"{name} {pid} exited on signal {-code}{core}")
        else:
            log.main.write(log.NOTICE, f"{name} {pid} exited with code {code}")
        if pid == self.upgraded:
            self.upgrade_failed()
        elif child is not None and not (child.leaving or self.quitting or self.terminating or self.idle):
            if code == worker.FATAL:
                log.main.write(
                    log.ALERT, f"worker process {pid} exited with fatal code {code} and cannot be respawned"
                )
            elif child.generation == self.generation:
                self.start_worker(child.index)

    def upgrade_failed(self) -> None:
        """The new binary has ended before this one: take the pid file's name back, and workers if there are none."""
        self.upgraded = 0
        path = self.cycle.main.pid
        pidfile.rename(path + pidfile.OLD, path)
        if self.idle and not (self.quitting or self.terminating):
            self.idle = False
            self.start_workers()

    # the end

    def owns_paths(self) -> bool:
        """Whether the files of unix sockets are ours to remove: not while a newer or an older binary lives."""
        return not self.upgraded and (not self.inherited or os.getppid() != self.parent)

    def finish(self) -> None:
        """Remove the pid file and close everything."""
        self.listeners.close(unlink=self.owns_paths())
        path = self.cycle.main.pid
        pidfile.remove(path + pidfile.OLD if self.upgraded else path)
        zones.remove()
        log.main.write(log.NOTICE, "exit")
        log.files.flush()


HANDLERS: dict[signal.Signals, Handler] = {
    signal.SIGHUP: Master.handle_hup,
    signal.SIGQUIT: Master.handle_quit,
    signal.SIGTERM: Master.handle_term,
    signal.SIGINT: Master.handle_term,
    signal.SIGUSR1: Master.handle_usr1,
    signal.SIGUSR2: Master.handle_usr2,
    signal.SIGWINCH: Master.handle_winch,
    signal.SIGCHLD: Master.handle_chld,
}
SAYS = {
    signal.SIGHUP: ", reconfiguring",
    signal.SIGQUIT: ", shutting down",
    signal.SIGTERM: ", exiting",
    signal.SIGINT: ", exiting",
    signal.SIGUSR1: ", reopening logs",
    signal.SIGUSR2: ", changing binary",
}


def replaced(old: Cycle, new: Cycle) -> Cycle:
    """What a reload cannot change stays: how the process was started, and the name of its pid file if it cannot be
    moved."""
    new.main.daemon, new.main.master_process = old.main.daemon, old.main.master_process
    if new.main.pid != old.main.pid:
        try:
            pidfile.write(new.main.pid)
            pidfile.remove(old.main.pid)
        except log.LogError as error:
            log.main.write(log.EMERG, str(error))
            new.main.pid = old.main.pid
    return new


def share() -> None:
    """Make everything there is common to this process and those it forks: the collector must not touch it any more."""
    gc.collect()
    gc.freeze()


def block(signals: Sequence[signal.Signals]) -> None:
    """Keep signals for `sigwaitinfo`. The default action of CHLD, to be ignored, would lose it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def redirect_stderr(cycle: Cycle) -> None:
    """What anything still prints on standard error goes to the error log, unless that is standard error itself."""
    target = cycle.error_file()
    if target is not None and target.fd >= 0:
        os.dup2(target.fd, 2)


def greet() -> None:
    """The first lines of a log, as nginx writes them."""
    system = os.uname()
    log.main.write(log.NOTICE, 'using the "epoll" event method')
    log.main.write(log.NOTICE, f"nginx/{VERSION}")
    log.main.write(log.NOTICE, f"OS: {system.sysname} {system.release}")


def start(options: Options) -> int:
    """Read the configuration, open everything, and serve until told to stop; returns the exit code."""
    listeners = Listeners()
    inherited = os.environ.pop(INHERITED, "")
    block(tuple(HANDLERS))
    if inherited:
        listeners.inherit(inherited)
    try:
        cycle = prepare(options, listeners)
    except (ConfigError, ListenError, log.LogError):
        listeners.close(unlink=not inherited)
        zones.remove()
        return 1
    greet()
    if cycle.main.daemon and not inherited:
        daemonize()
    log.main.console = False
    redirect_stderr(cycle)
    if not cycle.main.master_process:
        return single(cycle, listeners)
    try:
        return Master(options, cycle, listeners, inherited=bool(inherited)).run()
    except Exception as error:
        log.main.write(log.ALERT, f"master process: {log.crash(type(error), error)}")
        raise


def daemonize() -> None:
    """Go to the background: a new session, no terminal. Standard error stays until it is redirected to the log."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.umask(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    if null > 2:
        os.close(null)


def single(cycle: Cycle, listeners: Listeners) -> int:
    """`master_process off`: serve in this very process, for debugging. A reload needs a master."""
    alive, hold = os.pipe()
    pidfile.write(cycle.main.pid)
    share()
    code = worker.run(cycle, listeners.of_worker(0), alive)
    os.close(hold)
    listeners.close()
    pidfile.remove(cycle.main.pid)
    zones.remove()
    return code
