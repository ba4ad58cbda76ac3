"""Shows what a server answers to cases: python -m tests.parity [--tengine|--both] CASE..."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.parity import case, run, server


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity",
        description=__doc__,
        epilog=case.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="+", type=Path, metavar="CASE")
    parser.add_argument("--tengine", action="store_true", help="ask tengine instead of nginx")
    parser.add_argument("--both", action="store_true", help="print only where the two differ")
    options = parser.parse_args()
    nginx = server.find_nginx()
    if nginx is None and not options.tengine:
        parser.error("nginx is not installed")
    differing = 0
    for path in options.cases:
        read = case.read(path)
        with tempfile.TemporaryDirectory(prefix="parity") as place:
            folder = Path(place)
            if options.both:
                expected, got = run.both(read, nginx or "", folder)
                lines = run.difference(expected, got)
                differing += bool(lines)
                print(f"##### {path}: {'differs' if lines else 'same'}", *lines, sep="\n")
            else:
                command = run.tengine_command() if options.tengine else [nginx or ""]
                name = "tengi" if options.tengine else "nginx"
                print(f"##### {path}", *run.one(read, name, command, folder), sep="\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
