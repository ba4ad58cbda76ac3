"""The command line: `tengine`, or `python -m gateway`, with nginx's options.

Standard input, output or error may be closed when the process starts: nothing is opened before they are mended.
"""

import os
import sys
from collections.abc import Sequence


def mend_standard_streams() -> None:
    """Open /dev/null on each of the descriptors 0, 1 and 2 that is closed, lest a socket or log gets its number."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
            os.set_inheritable(fd, True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # for the life of the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


mend_standard_streams()

from gateway import VERSION, log  # noqa: E402  # only now may anything be opened
from gateway.config.schema import ConfigError  # noqa: E402
from gateway.net.listener import ListenError  # noqa: E402
from gateway.process.options import HELP, Asked, Options, UsageError, locate, parse  # noqa: E402


def begin_log(asked: Asked, prefix: str) -> str:
    """Open the log that is written to until a configuration says otherwise; returns its target."""
    target = os.path.join(prefix, asked.error_log) if asked.error_log not in ("", "stderr") else "stderr"
    log.main.console = True
    if target != "stderr":
        early = log.ErrorLog([log.Spec(target, log.NOTICE)])
        try:
            log.files.open()
        except log.LogError as error:
            log.say(f"nginx: [alert] could not open error log file: {error}")
        else:
            log.main.become(early)
    return target


def show_version(configure: bool) -> None:
    """`-v` and `-V`: on standard error, as nginx."""
    from gateway.process import features

    log.say(f"nginx version: nginx/{VERSION}")
    if not configure:
        return
    system = os.uname()
    log.say(f"built by {sys.implementation.name} {sys.version.split()[0]} for {system.machine}")
    if features.TLS.here:
        log.say(f"built with {features.library()}\nTLS SNI support enabled")
    log.say(f"configure arguments: {features.arguments()}")


def main(words: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    words = sys.argv[1:] if words is None else words
    try:
        asked = parse(words)
    except UsageError as error:
        log.say(f"nginx: {error}")
        return 1
    if asked.help or asked.version or asked.configure:
        show_version(asked.configure)
        if asked.help:
            log.say(HELP)
        if not (asked.test or asked.dump):
            return 0
    if asked.check:
        from gateway.check import command as checking

        return checking.run(asked.files, as_json=asked.json)
    where, file = locate(asked)
    target = begin_log(asked, where.prefix)
    command = ("-m", "gateway", *words)
    options = Options(file, where, asked.extra, target, command, dict(os.environ))
    if asked.test or asked.dump:
        return check(options, dump=asked.dump, quiet=asked.quiet)
    if asked.signal:
        return send(options, asked.signal)
    return serve(options)


def check(options: Options, *, dump: bool, quiet: bool) -> int:
    """`-t` and `-T`: say whether the configuration would do, and show it."""
    from gateway.config.bind import idle
    from gateway.net import listener
    from gateway.process import cycle, pidfile

    log.files.begin()
    try:
        loaded = cycle.read(options)
        if not quiet:
            log.say(f"nginx: the configuration file {options.file} syntax is ok")
        judged = cycle.judge(loaded, options)
        cycle.open_logs(judged)
        pidfile.probe(judged.main.pid)
        listener.probe(judged.site.listens)
    except (ConfigError, log.LogError) as error:
        log.main.write(log.EMERG, str(error))
        return failed(options)
    except ListenError:
        return failed(options)
    if not quiet:
        for row, place in idle(loaded.root):
            log.say(f'nginx: [notice] "{row.name}" directive has no effect here: {row.idle} in {place}')
        log.say(f"nginx: configuration file {options.file} test is successful")
    if dump:
        show(loaded.source.files)
    return 0


def failed(options: Options) -> int:
    log.say(f"nginx: configuration file {options.file} test failed")
    return 1


def show(files: Sequence[tuple[str, bytes]]) -> None:
    """`-T`: every file of the configuration, once, byte for byte."""
    data = b"".join(b"# configuration file %s:\n%s\n" % (os.fsencode(name), content) for name, content in files)
    sys.stdout.flush()
    while data:
        data = data[os.write(1, data) :]


def send(options: Options, command: str) -> int:
    """`-s`: find the master by the configuration's pid file, and signal it."""
    from gateway.process import cycle, pidfile

    try:
        judged = cycle.judge(cycle.read(options), options)
    except ConfigError as error:
        log.main.write(log.EMERG, str(error))
        return 1
    return pidfile.send(command, judged.main.pid)


def serve(options: Options) -> int:
    """Start the server; returns when it has ended."""
    from gateway.process import loop, master  # noqa: F401  # the loop first: it decides how asyncio is imported

    return master.start(options)


if __name__ == "__main__":
    sys.exit(main())
