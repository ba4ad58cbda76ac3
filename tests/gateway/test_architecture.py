"""The rules that keep the gateway simple: import direction, owners of outside libraries, sizes, rows, late imports."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GATEWAY = ROOT / "gateway"
TREES = [ROOT / name for name in ("gateway", "inference", "tests", "benchmarks")]

# Top to bottom; a file imports only from lower lines. Names on one line are siblings and do not meet.
LAYERS = (
    ("__main__",),
    ("check",),
    ("process",),
    ("build",),
    ("modules",),
    ("upstream", "cache", "lua", "admin", "variants"),
    ("module",),  # the contract with modules
    ("zones", "codings"),
    ("http",),
    ("net",),
    ("config",),
    ("pattern",),
    ("log",),
    ("syslog",),
    ("__init__",),  # the version
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

OWNERS = {
    "OpenSSL": "gateway/net/tls.py",
    "aiohttp": "gateway/admin/",
    "av": "inference/audio.py",
    "brotli": "gateway/codings.py",
    "crossplane": "gateway/config/source.py",
    "gzip": "gateway/codings.py",
    "isal": "gateway/codings.py",
    "lmdb": "gateway/zones/",
    "lupa": "gateway/lua/",
    "pcre2": "gateway/pattern.py",
    "soundfile": "inference/audio.py",
    "ssl": "gateway/net/tls.py",
    "torch": "inference/engines/",
    "uvloop": "gateway/process/loop.py",
    "zlib": "gateway/codings.py",
    "zlib_ng": "gateway/codings.py",
    "zstandard": "gateway/codings.py",
}
# Imported only when a configuration asks for them; `ssl` itself comes with asyncio.
LATE = ("aiohttp", "lupa", "lmdb", "torch", "OpenSSL", "gateway.net.tls", "gateway.net.openssl", "gateway.http.secured")

FILE_LINES, LONG_FILE_LINES, FUNCTION_LINES = 400, 600, 40
VAGUE = re.compile(r"(^|_)(utils?|helpers?|managers?|base|impl)(_|$)")


def sources(*trees: Path) -> list[Path]:
    return sorted(path for tree in trees for path in tree.rglob("*.py") if "__pycache__" not in path.parts)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), name_of(path))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything a file imports; `from a import b` counts as a.b.

    What stands under `if __name__ == "__main__"` is a program of its own (`python -m gateway.config.manual`), not a
    dependency of the file.
    """
    programs = [node for node in parsed(path).body if isinstance(node, ast.If) and "__main__" in ast.dump(node.test)]
    apart = {id(inner) for program in programs for inner in ast.walk(program)}
    for node in ast.walk(parsed(path)):
        if id(node) in apart:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name_of(path)}:{node.lineno}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def component(path: Path) -> str:
    first = path.relative_to(GATEWAY).parts[0]
    return first.removesuffix(".py")


def imported_component(name: str) -> str:
    """The layer that `gateway.x.y` belongs to; names of the package itself (the version) belong to `__init__`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"


def test_every_file_has_a_layer() -> None:
    assert [name_of(path) for path in sources(GATEWAY) if component(path) not in RANK] == []


def test_imports_point_downwards() -> None:
    wrong = []
    for path in sources(GATEWAY):
        own = component(path)
        if own not in RANK:
            continue  # test_every_file_has_a_layer names it
        for line, name in imports(path):
            if name.split(".")[0] != "gateway":
                continue
            other = imported_component(name)
            if other != own and RANK[other] <= RANK[own]:
                wrong.append(f"{name_of(path)}:{line}: {own} imports {other} ({name})")
    assert not wrong, "\n".join(["", *wrong])


def test_modules_do_not_import_each_other() -> None:
    wrong = [
        f"{name_of(path)}:{line}: {name}"
        for path in sources(GATEWAY / "modules")
        if path.name != "__init__.py"
        for line, name in imports(path)
        if name.startswith("gateway.modules")
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_only_build_and_the_command_line_read_the_order_of_modules() -> None:
    wrong = [
        f"{name_of(path)}:{line}: {name}"
        for path in sources(GATEWAY)
        if component(path) not in ("build", "check", "process", "__main__")
        for line, name in imports(path)
        if name in ("gateway.modules.ORDER", "gateway.modules.load", "gateway.modules.everything")
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_the_services_share_nothing() -> None:
    wrong = []
    for tree, other in (("gateway", "inference"), ("inference", "gateway")):
        for path in sources(ROOT / tree):
            wrong += [f"{name_of(path)}:{line}" for line, name in imports(path) if name.split(".")[0] == other]
    assert not wrong, "\n".join(["", *wrong])


def test_each_outside_library_has_one_owner() -> None:
    wrong = []
    for path in sources(GATEWAY, ROOT / "inference"):
        for line, name in imports(path):
            owner = OWNERS.get(name.split(".")[0])
            if owner and not name_of(path).startswith(owner):
                wrong.append(f"{name_of(path)}:{line}: {name} belongs to {owner}")
    assert not wrong, "\n".join(["", *wrong])


def test_tasks_are_made_in_one_place() -> None:
    made = {
        name_of(path)
        for path in sources(GATEWAY)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("create_task", "ensure_future")
    }
    assert len(made) <= 1, f"tasks are made in {sorted(made)}"


def test_ruff_knows_the_same_owners() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    banned = settings["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {name for name in banned if not name.startswith("asyncio.")} == set(OWNERS)


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_files_are_short(tree: Path) -> None:
    wrong = []
    for path in sources(tree):
        text = path.read_text()
        limit = LONG_FILE_LINES if re.search(r"^# Long: \S", text, re.MULTILINE) else FILE_LINES
        count = text.count("\n")
        if count > limit:
            wrong.append(f"{name_of(path)}: {count} lines, at most {limit}")
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_functions_are_short(tree: Path) -> None:
    wrong = []
    for path in sources(tree):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1 - enclosed(node)
                if count > FUNCTION_LINES:
                    place = f"{name_of(path)}:{node.lineno}"
                    wrong.append(f"{place}: {node.name} has {count} lines, at most {FUNCTION_LINES}")
    assert not wrong, "\n".join(["", *wrong])


def enclosed(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the functions defined inside (a factory and its closure are two functions) and of the docstring."""
    lines = 0
    for node in function.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines += (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(function) is not None:
        lines += (function.body[0].end_lineno or 0) - function.body[0].lineno + 1
    return lines


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_files_say_what_they_are_for(tree: Path) -> None:
    wrong = [
        name_of(path)
        for path in sources(tree)
        if path.read_text().strip() and not (ast.get_docstring(parsed(path)) or "").strip()
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_names_say_something() -> None:
    assert [name_of(path) for path in sources(*TREES) if VAGUE.search(path.stem)] == []


def test_no_path_or_registry_of_a_developer() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    folders = ("work/(main|shared)", "opt/(dev|judge)", r"root/\.")
    mark = re.compile("|".join([f"/{folder}" for folder in folders] + ["pypi[.]org", "pythonhosted[.]org"]))
    wrong = []
    for name in listed.stdout.split("\n"):
        path = ROOT / name
        if not name or not path.is_file() or path.suffix in (".wav", ".npz", ".png", ".woff2"):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if mark.search(line):
                wrong.append(f"{name}:{number}: {line.strip()[:80]}")
    assert not wrong, "\n".join(["", *wrong])


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Every string but docstrings and `__slots__`; bytes are the data plane's, where a header may be named so."""
    tree = parsed(path)
    apart: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            apart.add(id(node.value))
        elif isinstance(node, ast.Assign) and "__slots__" in ast.unparse(node.targets[0]):
            apart |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in apart and isinstance(node.value, str):
            yield node.lineno, node.value


def test_the_core_knows_no_directive_of_a_module() -> None:
    from gateway.build import CORE_TABLES
    from gateway.config.schema import rows_of
    from gateway.modules import everything

    names = {row.name for module in everything() for row in rows_of(module.conf)}
    names -= {row.name for table in CORE_TABLES for row in rows_of(table)}  # `server` is a block of both
    core = [*sources(GATEWAY / "http", GATEWAY / "net", GATEWAY / "config"), GATEWAY / "build.py"]
    wrong = [f"{name_of(path)}:{line}: {text!r}" for path in core for line, text in strings(path) if text in names]
    assert not wrong, "\n".join(["", *wrong])


def test_every_row_is_documented() -> None:
    from gateway.config.schema import rows_of
    from gateway.modules import everything

    wrong = [
        f"{module.name}: {row.name}"
        for module in everything()
        for row in rows_of(module.conf)
        if not row.doc.strip().endswith((".", ")")) or len(row.doc) < 10
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_no_directive_is_declared_twice() -> None:
    from gateway.config.schema import rows_of
    from gateway.modules import everything

    seen: dict[tuple[str, str], str] = {}
    twice = []
    for module in everything():
        for row in rows_of(module.conf):
            for context in row.contexts:
                key = (row.name, context.name or "")
                if key in seen:
                    twice.append(f"{row.name} in {key[1]}: {seen[key]} and {module.name}")
                seen[key] = module.name
    assert not twice, "\n".join(["", *twice])


STATIC = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ }}
http {{ server {{ listen 127.0.0.1:{port}; root {folder}; location / {{ expires 1h; }} }} }}
"""


def test_a_plain_site_imports_only_what_it_uses(tmp_path: Path) -> None:
    (tmp_path / "nginx.conf").write_text(STATIC.format(folder=tmp_path, port=9))
    script = (
        "import sys; from gateway.__main__ import main\n"
        f"sys.argv = ['tengine', '-q', '-t', '-p', '{tmp_path}/', '-c', 'nginx.conf', '-e', 'error.log']\n"
        "try:\n    code = main()\nexcept SystemExit as end:\n    code = end.code\n"
        f"print(code or 0, sorted(set({LATE!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "0 []", done.stderr
