"""Print the manual of all directives from their rows: `python -m gateway.config.manual > docs/directives.md`."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from textwrap import wrap
from typing import Any

from gateway.config.schema import Directive, In, Text, rows_of

_HEAD = """# Directives

This page is printed from the rows of the modules (`make docs`): what stands here is what the parser accepts. Names,
defaults and meanings are nginx's unless a text says otherwise. *No effect* means that the directive is read and judged,
so that existing configurations load, and then does nothing here, for the reason given. `include file;` may stand in any
block; the file's name may hold wildcards and is relative to the main configuration file.
"""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A module: its name, what it says of itself, and its tables."""

    name: str
    about: str
    tables: tuple[type, ...]


def manual(chapters: Iterable[Chapter]) -> str:
    """The whole manual in Markdown, chapters and directives in alphabetical order."""
    ordered = sorted((chapter for chapter in chapters if any(map(rows_of, chapter.tables))), key=lambda one: one.name)
    parts = [_HEAD, "Modules: " + ", ".join(f"[{chapter.name}](#{chapter.name})" for chapter in ordered) + ".\n"]
    for chapter in ordered:
        rows = sorted(
            (row for table in chapter.tables for row in rows_of(table)), key=lambda row: (row.name, row.contexts)
        )
        parts += [f"## {chapter.name}\n", f"{chapter.about}\n", *map(_entry, rows)]
    return "\n".join(parts)


def _entry(row: Directive) -> str:
    contexts = ", ".join(_named(context) for context in In if context & row.contexts)
    lines = [f"### {row.name}\n", row.doc + "\n"]
    if row.idle:
        lines.append(f"*No effect:* {row.idle}.\n")
    lines += [f"- Syntax: `{_syntax(row)}`", f"- Default: {_default(row)}", f"- Context: {contexts}", ""]
    return "\n".join(lines)


def _named(context: In) -> str:
    """A block's name as it is written: "if in server" for IF_SERVER."""
    return (context.name or "").lower().replace("if_", "if in ")


def _syntax(row: Directive) -> str:
    words = f"{row.name} {row.arg.syntax}".rstrip()
    if row.opens is not None or (row.arg.block and not words.endswith("}")):
        return words + " { … }"
    return words if row.arg.block else words + ";"


def _default(row: Directive) -> str:
    if row.arg.most == 0:  # only its presence counts
        return "none"
    sized = row.arg.syntax.startswith("size") and isinstance(row.default, int)
    text = row.default_text or (_size(row.default) if sized else _shown(row.default))
    return f"`{row.name} {text};`" if text not in ("", "-") else "none"


def _size(value: int) -> str:
    """Bytes with the largest unit that leaves a whole number."""
    for unit, name in ((1 << 20, "m"), (1 << 10, "k")):
        if value and value % unit == 0:
            return f"{value // unit}{name}"
    return str(value)


def _shown(value: Any) -> str:
    """A default as it would be written in a configuration; "" if there is none to write."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, Text):
        return value.raw
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return f"{value:g}s"
    if isinstance(value, frozenset):
        return " ".join(sorted(map(_shown, value)))
    if isinstance(value, tuple):
        return " ".join(map(_shown, value))
    return str(value) if isinstance(value, int | str) else ""


def chapters(modules: Sequence[Any], core: Iterable[type]) -> list[Chapter]:
    """One chapter for each module of the order, one for each file with tables of the core."""
    made = [Chapter(module.name, _about(module.conf), (module.conf,)) for module in modules]
    files: dict[str, list[type]] = {}
    for table in core:
        files.setdefault(table.__module__, []).append(table)
    for name, tables in files.items():
        title = "core" if ".http." in name else name.split(".")[-2]
        made.append(Chapter(title, _about(tables[0]), tuple(tables)))
    return made


def _about(table: type) -> str:
    """The first paragraph of the docstring of the file that declares a table."""
    text = sys.modules[table.__module__].__doc__ or ""
    return " ".join(text.strip().split("\n\n")[0].split())


def catalogue(modules: Sequence[Any], core: Iterable[type]) -> str:
    """The text of gateway/modules/catalogue.py: which module has which directive and variable, and what it needs."""
    every = {row.name for table in core for row in rows_of(table)}  # `server` is a block of the core too
    tables: dict[str, dict[str, Iterable[str]]] = {
        "DIRECTIVES": {module.name: {row.name for row in rows_of(module.conf)} - every for module in modules},
        "VARIABLES": {module.name: module.variables for module in modules},
        "PREFIXES": {module.name: module.prefixes for module in modules},
        "NEEDS": {module.name: module.needs for module in modules},
    }
    title = "Which module has what; printed by `make docs` from the modules, so that only what is used is imported."
    lines = [f'"""{title}"""']
    for name, table in tables.items():
        lines += ["", f"{name}: dict[str, str] = {{"]
        for module, names in sorted(table.items()):
            words = " ".join(sorted(set(names)))
            if words:
                lines += [f'    "{module}": """', *wrap(words, 116), '""",']
        lines.append("}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from gateway.build import CORE_TABLES
    from gateway.modules import everything
    from gateway.process.settings import TABLES

    if sys.argv[1:] == ["--catalogue"]:
        print(catalogue(everything(), CORE_TABLES), end="")
    else:
        print(manual(chapters(everything(), (*TABLES, *CORE_TABLES))), end="")
