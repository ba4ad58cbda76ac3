"""The command line: nginx's options, and where the configuration and its relative names are found.

Source: https://nginx.org/en/docs/switches.html
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.config.schema import Paths

PREFIXES = ("/etc/tengine/", "/usr/share/nginx/", "/etc/nginx/")
CONFS = ("conf/tengine.conf", "/etc/tengine/tengine.conf", "/etc/nginx/nginx.conf")
SIGNALS = ("stop", "quit", "reopen", "reload")
_VALUES = {
    "p": "directory name",
    "c": "file name",
    "e": "file name",
    "g": "parameter",
    "s": "parameter",
}
_FLAGS = {"?": "help", "h": "help", "v": "version", "V": "configure", "t": "test", "T": "dump", "q": "quiet"}

HELP = f"""\
Usage: nginx [-?hvVtTq] [-s signal] [-p prefix]
             [-e filename] [-c filename] [-g directives]
       tengine --check [--json] FILE...

Options:
  -?,-h,--help  : this help
  -v,--version  : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: the current directory if it holds
                  {CONFS[0]}, else the first there is of
                  {", ".join(PREFIXES)})
  -e filename   : set error log file (default: stderr)
  -c filename   : set configuration file (default: the first there is of
                  PREFIX/{", ".join(CONFS)})
  -g directives : set global directives out of configuration file
  --check FILE  : judge configurations, dumps of -T or parts of either where they
                  lie (- is standard input), without their hosts, users,
                  certificates and folders; exit status 1 if one does not load
  --json        : with --check: say it as JSON
"""


class UsageError(Exception):
    """The command line is wrong; the message is nginx's."""


@dataclass(slots=True)
class Asked:
    """What the command line asks for."""

    help: bool = False
    version: bool = False
    configure: bool = False
    test: bool = False
    dump: bool = False
    quiet: bool = False
    prefix: str = ""
    file: str = ""
    error_log: str = ""
    extra: str = ""
    signal: str = ""
    check: bool = False
    json: bool = False
    files: list[str] = field(default_factory=list)  # of `--check`


def parse(words: Sequence[str]) -> Asked:
    """Read the options as nginx does: flags may be joined, a value may follow its letter at once. Raises UsageError."""
    asked = Asked()
    rest = iter(words)
    for word in rest:
        if word in ("--help", "--version", "--check", "--json"):
            setattr(asked, word[2:], True)
        elif asked.check and (word == "-" or not word.startswith("-")):
            asked.files.append(word)
        elif not word.startswith("-"):
            raise UsageError(f'invalid option: "{word}"')
        else:
            _letters(asked, word[1:], rest)
    if asked.check and not asked.files:
        raise UsageError('option "--check" requires file name')
    if asked.json and not asked.check:
        raise UsageError('option "--json" requires "--check"')
    return asked


def _letters(asked: Asked, letters: str, rest: Iterator[str]) -> None:
    for place, letter in enumerate(letters, 1):
        if letter in _FLAGS:
            setattr(asked, _FLAGS[letter], True)
        elif letter in _VALUES:
            value = letters[place:] or next(rest, "")
            if not value:
                raise UsageError(f'option "-{letter}" requires {_VALUES[letter]}')
            _value(asked, letter, value)
            return
        else:
            raise UsageError(f'invalid option: "{letter}"')


def _value(asked: Asked, letter: str, value: str) -> None:
    if letter == "s" and value not in SIGNALS:
        raise UsageError(f'invalid option: "-s {value}"')
    name = {"p": "prefix", "c": "file", "e": "error_log", "g": "extra", "s": "signal"}[letter]
    setattr(asked, name, value)


def locate(asked: Asked) -> tuple[Paths, str]:
    """The folders that relative names are resolved against, and the configuration file."""
    prefix = asked.prefix or _default_prefix()
    prefix = os.path.join(os.path.abspath(prefix), "")
    if asked.file:
        file = os.path.join(prefix, asked.file)
    else:
        candidates = [os.path.join(prefix, name) for name in CONFS]
        file = next(filter(os.path.exists, candidates), candidates[0])
    return Paths(prefix, os.path.join(os.path.dirname(file), "")), file


def _default_prefix() -> str:
    if os.path.exists(CONFS[0]):
        return "."
    return next(filter(os.path.isdir, PREFIXES), ".")


@dataclass(frozen=True, slots=True)
class Options:
    """How a server was called, its paths completed."""

    file: str  # the configuration
    paths: Paths
    extra: str = ""  # `-g`
    error_log: str = "stderr"  # `-e`
    command: Sequence[str] = ()  # the arguments that run the same program again
    environment: Mapping[str, str] = field(default_factory=dict)
