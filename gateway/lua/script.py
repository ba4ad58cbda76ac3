"""Lua as it stands in a configuration: inlined in braces or quotes, or in a file; read without loading any Lua."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.config.args import encode
from gateway.config.schema import Arg, ConfigError, Statement

_LONGEST_NAME = 59  # LUA_IDSIZE - 1


@dataclass(frozen=True, slots=True)
class Script:
    """A directive's code as written: inlined with its chunk's name, or a file's name."""

    code: bytes = b""
    name: bytes = b""
    file: str = ""
    prefix: str = ""
    variable: str = ""  # set_by_lua's
    arguments: tuple[str, ...] = ()


def _inline(statement: Statement, code: str, directive_name: str, line: int) -> Script:
    """The chunk's name has the file as the configuration names it, cut from the left to fit into what Lua shows."""
    file = statement.place.file.removeprefix(statement.paths.conf_prefix)
    room = _LONGEST_NAME - len(f"{directive_name}(:{line})")
    if len(file) > room:
        file = "..." + file[-(room - 3) :]
    return Script(encode(code), encode(f"={directive_name}({file}:{line})"))


def in_braces(statement: Statement) -> Script:
    """`name { … }`: its line is that of the opening brace."""
    code = statement.args[-1]
    return _inline(statement, code, statement.name.removesuffix("_block"), statement.place.line - code.count("\n"))


def quoted(statement: Statement) -> Script:
    """`name '…';`: its line is that of the end, as in OpenResty."""
    return _inline(statement, statement.args[0], statement.name, statement.place.line)


def from_file(statement: Statement) -> Script:
    """`name_file path;`"""
    return Script(file=statement.args[0], prefix=statement.paths.prefix)


def _set_name(statement: Statement) -> str:
    name = statement.args[0]
    if not name.startswith("$") or len(name) == 1:
        raise ConfigError(f'invalid variable name "{name}"')
    return name[1:]


def _setting(read: Callable[[Statement], Script]) -> Callable[[Statement], Script]:
    def parse(statement: Statement) -> Script:
        rest = Statement(statement.name, statement.args[1:], None, statement.place, statement.paths)
        script = read(rest)
        arguments = rest.args[1:] if not statement.name.endswith("_block") else ()
        return Script(script.code, script.name, script.file, script.prefix, _set_name(statement), arguments)

    return parse


def forms(name: str) -> dict[str, Arg[Script]]:
    """The three forms of a directive, which share one slot."""
    return {
        name: Arg("lua-script-str", 1, 1, quoted),
        f"{name}_block": Arg("{ lua-script }", 1, 1, in_braces),
        f"{name}_file": Arg("path-to-lua-script-file", 1, 1, from_file),
    }


def two_forms(name: str) -> dict[str, Arg[Script]]:
    table = forms(name)
    del table[name]
    return table


SET_FORMS: dict[str, Arg[Any]] = {
    "set_by_lua": Arg("$res lua-script-str [$arg1 $arg2 ...]", 2, None, _setting(quoted)),
    "set_by_lua_block": Arg("$res { lua-script }", 2, 2, _setting(in_braces)),
    "set_by_lua_file": Arg("$res path-to-lua-script-file [$arg1 $arg2 ...]", 2, None, _setting(from_file)),
}
