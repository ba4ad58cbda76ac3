"""Prints a compiled site: what each server and location will do, in the order it will do it.

`python -m tests.gateway.plan` writes the golden plans anew; read the difference before it is kept.
"""

import inspect
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway import log
from gateway.build import load
from gateway.config.schema import Paths
from gateway.http.router import Location, Locations, Server, Site
from gateway.process.settings import TABLES

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"


def confs() -> dict[str, Path]:
    """The configurations that have a plan; the one that is shipped is among them."""
    return {path.stem: path for path in [*sorted(GOLDEN.glob("*.conf")), ROOT / "conf" / "tengine.conf"]}


def plan_of(conf: Path) -> str:
    """Load it as from the project's folder, and print."""
    with tempfile.TemporaryDirectory() as folder:  # where the logs of the default would be
        log.files.begin()
        loaded = load(str(conf), Paths(f"{folder}/", f"{conf.parent}/"), TABLES)
        log.files.restore()
        return printed(loaded.site).replace(folder, "PREFIX")


def printed(site: Site) -> str:
    lines: list[str] = []
    for listen in site.listens:
        options = " ".join(f"{name}={value}" for name, value in sorted(listen.options.items()))
        lines.append(f"listen {listen.key} {options}".rstrip() + ("" if listen.bound else " (by a wildcard's socket)"))
        lines.append(f"    default {named(listen.default)}")
        for kind in ("names", "heads", "tails"):
            lines += [
                f"    {kind} {key.decode() or '(none)'} -> {named(server)}"
                for key, server in getattr(listen, kind).items()
            ]
        lines += [f"    regex -> {named(server)}" for _, server in listen.patterns]
    for server in site.servers:
        lines += ["", f"server {named(server)}", *indented(server_lines(server))]
    return "\n".join(lines) + "\n"


def named(server: Server) -> str:
    return server.name.decode() or "(no name)"


def indented(lines: Iterator[str]) -> Iterator[str]:
    return ("    " + line for line in lines)


def server_lines(server: Server) -> Iterator[str]:
    if server.post_read:
        yield "post-read " + ", ".join(map(maker, server.post_read))
    if server.program is not None:
        yield f"program {maker(server.program)}"
    yield "without a location:"
    yield from indented(location_lines(server.location))
    yield from tree(server.locations)
    for name, location in server.named.items():
        yield f"location {name}"
        yield from indented(location_lines(location))


def tree(locations: Locations) -> Iterator[str]:
    found = [("= " + key.decode(), location) for key, location in locations.exact.items()]
    for length in locations.lengths:
        found += [(key.decode(), one) for key, one in locations.prefixes.items() if len(key) == length]
    found += [("~ " + one.name, one) for _, one in locations.patterns]
    for name, location in found:
        marks = [
            mark for mark, is_so in (("^~", location.stops), ("redirects", location.redirect is not None)) if is_so
        ]
        yield " ".join(["location", name, *marks])
        yield from indented(location_lines(location))
        if location.inner is not None:
            yield from indented(tree(location.inner))


def location_lines(location: Location) -> Iterator[str]:
    if location.program is not None:
        yield f"program {maker(location.program)}"
    yield "handlers " + ", ".join(map(maker, location.handlers))
    yield "filters " + ", ".join(map(maker, location.filters))
    if location.loggers:
        yield "loggers " + ", ".join(map(maker, location.loggers))
    for codes, answer, uri in location.error_pages:
        became = "" if answer is None else f" = {answer or 'its own'}"
        yield f"error_page {' '.join(map(str, codes))}{became} -> {constant(uri)}"
    if location.limited is not None:
        yield f"all methods but {' '.join(sorted(method.decode() for method in location.limited[0]))}:"
        yield from indented(location_lines(location.limited[1]))
    if location.steady:
        yield "answers may be given again"


def constant(text: Any) -> str:
    return "(variables)" if text.constant is None else str(text.constant.decode())


def maker(function: Any) -> str:
    """module.name of what a factory has made; through the wrapper that access checks have."""
    values = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    if "check" in values:
        return maker(values["check"])
    if "checks" in values:
        return "any of (" + ", ".join(map(maker, values["checks"])) + ")"
    name = f"{function.__module__.rpartition('.')[2]}.{getattr(function, '__name__', type(function).__name__)}"
    return f"{name} else {maker(values['otherwise'])}" if "otherwise" in values else name


if __name__ == "__main__":
    for stem, path in confs().items():
        (GOLDEN / f"{stem}.plan").write_text(plan_of(path))
