"""The printed manual."""

from pathlib import Path
from types import SimpleNamespace

from gateway import modules
from gateway.config.args import duration, flag, nothing, size, text
from gateway.config.manual import Chapter, chapters, manual
from gateway.config.schema import ANYWHERE, Arg, In, Paths, Place, Statement, Text, block, directive, many


@block
class Rows:
    zeta: bool = directive(ANYWHERE | In.IF_LOCATION, flag(), False, "Last of all.")
    alpha: int = directive(In.SERVER, size(), 8192, "First of all.", default_text="8k", idle="there is none")
    beta: float = directive(In.HTTP, duration(), 60.0, "A time.")
    gamma: Text | None = directive(In.MAIN, text(), None, "A text.")
    delta: tuple[dict[str, str], ...] = many(
        In.HTTP, Arg("name { a b; }", 1, 1, lambda statement: {}, block=True), "A table."
    )
    epsilon: tuple[object, ...] = many(
        In.HTTP,
        {"eta": nothing(), "theta": nothing()},
        {"eta": "Opens.", "theta": "Not."},
        opens={"eta": lambda _: In.SERVER},
    )


def test_entries() -> None:
    text = manual(
        [Chapter("two", "About two.", (Rows,)), Chapter("one", "About one.", (Rows,)), Chapter("no", "-", ())]
    )
    assert text.index("## one\n\nAbout one.\n") < text.index("## two\n\nAbout two.\n")
    names = [line[4:] for line in text.partition("## two")[0].splitlines() if line.startswith("### ")]
    assert names == ["alpha", "beta", "delta", "eta", "gamma", "theta", "zeta"]
    assert (
        "### alpha\n\nFirst of all.\n\n*No effect:* there is none.\n\n"
        "- Syntax: `alpha size;`\n- Default: `alpha 8k;`\n- Context: server\n" in text
    )
    assert (
        "- Syntax: `zeta on | off;`\n- Default: `zeta off;`\n- Context: http, server, location, if in location\n"
        in text
    )
    assert "- Default: `beta 60s;`" in text
    assert "- Syntax: `gamma string;`\n- Default: none" in text
    assert "- Syntax: `delta name { a b; }`\n- Default: none" in text
    assert "- Syntax: `eta { … }`" in text
    assert "- Syntax: `theta;`" in text
    assert "Modules: [one](#one), [two](#two).\n" in text
    assert "## no" not in text


def test_sizes_have_units() -> None:
    @block
    class Sizes:
        large: int = directive(In.HTTP, size(), 2 << 20, "-")
        small: int = directive(In.HTTP, size(), 4096, "-")
        odd: int = directive(In.HTTP, size(), 1000, "-")

    text = manual([Chapter("sizes", "-", (Sizes,))])
    assert [line for line in text.splitlines() if "Default" in line] == [
        "- Default: `large 2m;`",
        "- Default: `odd 1000;`",
        "- Default: `small 4k;`",
    ]


def test_chapters() -> None:
    (one,) = chapters([SimpleNamespace(name="rows", conf=Rows)], ())
    assert one == Chapter("rows", "The printed manual.", (Rows,))
    (core,) = chapters((), [Rows])
    assert core.tables == (Rows,)


def test_the_catalogue_is_what_the_modules_declare() -> None:
    """A new directive is not found until `make docs` has printed the catalogue again."""
    from gateway.build import CORE_TABLES
    from gateway.config.manual import catalogue
    from gateway.modules import everything

    printed = Path(modules.__file__).with_name("catalogue.py").read_text()
    assert printed == catalogue(everything(), CORE_TABLES), "run `make docs`"


def test_only_what_a_configuration_uses_is_needed() -> None:
    def statement(name: str, *args: str, block: tuple[Statement, ...] | None = None) -> Statement:
        return Statement(name, args, block, Place("x", 1), Paths("/", "/"))

    plain = modules.needed([statement("http", block=(statement("server", block=(statement("root", "x"),)),))])
    assert plain == modules.ALWAYS
    assert "compress" in modules.needed([statement("gzip", "on")])
    assert "upstream" in modules.needed([statement("log_format", "x", "${upstream_http_x}")])
    assert "stub_status" in modules.needed([statement("add_header", "X", "a$connections_active")])
    assert modules.needed([statement("content_by_lua_block", "ngx.say(1)")]) == set(modules.ORDER)
