"""Makes what is served: one small page, and a bundle of 96 files shaped like the static files of a web page.

The bundle is about 4.8 MB: scripts and style sheets of text that compresses about as real ones do, and fonts that do
not compress. It is the same on every run and every machine.
"""

import itertools
import random
from pathlib import Path

SEED = 20240917
SCRIPTS, STYLES, FONTS = (44, 73_000), (20, 43_500), (32, 21_500)  # how many files, bytes each


def vocabulary(rng: random.Random, count: int) -> list[str]:
    syllables = [c + v for c in "bcdfghklmnprstvw" for v in ("a", "e", "i", "o", "u", "er", "on", "al")]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(count)]
    return [word if rng.random() < 0.6 else word + word[:1].upper() + rng.choice(words) for word in words]


def weights(count: int) -> list[float]:
    """Few words are frequent, most are rare (Zipf)."""
    return list(itertools.accumulate(1 / (rank + 3) for rank in range(count)))


def script(rng: random.Random, words: list[str], size: int) -> str:
    shapes = (
        "function {}({},{}){{return {}.{}({}+{:d})}}",
        'var {}={{{}:{:d},{}:!0,{}:"{}"}};',
        "if({}&&{}.{}!=={:d}){{{}.{}({})}}",
        "{}.prototype.{}=function({}){{this.{}={}||{:d}}};",
        "const {}=({},{})=>{}.{}({:d},{});\n",
    )
    return fill(rng, words, size, shapes)


def style(rng: random.Random, words: list[str], size: int) -> str:
    shapes = (
        ".{}-{}{{color:#{:06x};margin:{:d}px {:d}px}}",
        ".{}:hover .{}{{padding:{:d}px;background:#{:06x}}}\n",
        "#{} .{}>{}{{display:flex;width:{:d}%}}",
        "@media (min-width:{:d}px){{.{}-{}{{font-size:{:d}px}}}}\n",
    )
    return fill(rng, words, size, shapes)


def fill(rng: random.Random, words: list[str], size: int, shapes: tuple[str, ...]) -> str:
    words = rng.sample(words, 300)  # a file keeps to its own names
    odds = weights(len(words))
    out: list[str] = []
    length = 0
    while length < size:
        shape = rng.choice(shapes)
        chosen = iter(rng.choices(words, cum_weights=odds, k=8))
        values = [
            next(chosen) if piece == "{}" else rng.choice((0, 1, 2, 4, 8, 12, 16, 24, 100, rng.randrange(1 << 20)))
            for piece in pieces(shape)
        ]
        out.append(shape.format(*values))
        length += len(out[-1])
    return "".join(out)[:size]


def pieces(shape: str) -> list[str]:
    """The replacement fields of a shape in order."""
    bare = shape.replace("{{", "").replace("}}", "")
    return ["{" + part.split("}")[0] for part in bare.split("{")[1:]]


def make(folder: Path) -> list[str]:
    """Write everything below the folder and return the bundle's paths, as URIs."""
    rng = random.Random(SEED)
    words = vocabulary(rng, 4000)
    (folder / "bundle").mkdir(parents=True)
    (folder / "1k.html").write_bytes(b"<!doctype html>\n".ljust(1024, b"."))
    paths = []
    for kind, (count, size), maker in (("js", SCRIPTS, script), ("css", STYLES, style)):
        for number in range(count):
            name = f"bundle/{rng.choice(words)}-{number}.{kind}"
            (folder / name).write_text(maker(rng, words, round(size * rng.uniform(0.3, 1.7))))
            paths.append("/" + name)
    for number in range(FONTS[0]):
        name = f"bundle/font-{number}.woff2"
        (folder / name).write_bytes(rng.randbytes(FONTS[1]))
        paths.append("/" + name)
    return paths
