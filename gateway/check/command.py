"""The command `tengine --check`: judge files, print what was found, and say by the exit status whether all load."""

import json
import os
import sys
from collections.abc import Sequence

from gateway.check import judging
from gateway.check.verdict import Finding, Verdict

_STDIN = "-"


def run(files: Sequence[str], *, as_json: bool) -> int:
    """Judge each file (`-` is standard input); returns the exit status."""
    verdicts = [judged(name) for name in files]
    lines = [_json(verdicts)] if as_json else [*(_human(one) for one in verdicts), summary(verdicts)]
    sys.stdout.buffer.write(("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    return 0 if all(one.loads for one in verdicts) else 1


def judged(name: str) -> Verdict:
    """The verdict on one file, or on what can't be read of it."""
    try:
        if name == _STDIN:
            return judging.judge("standard input", sys.stdin.buffer.read())
        with open(name, "rb") as file:
            return judging.judge(name, file.read())
    except OSError as error:
        said = f'open() "{name}" failed ({error.errno}: {os.strerror(error.errno or 0)})'
        return Verdict(name, "", [Finding("invalid", said)])


def summary(verdicts: Sequence[Verdict]) -> str:
    """The last line: how many of each."""
    count = dict.fromkeys(("loads", "loads with notes", "does not load"), 0)
    for one in verdicts:
        count[one.words] += 1
    files = "1 file" if len(verdicts) == 1 else f"{len(verdicts)} files"
    return (
        f"{files}: {count['loads']} load, {count['loads with notes']} load with notes, "
        f"{count['does not load']} do not load"
    )


def _human(verdict: Verdict) -> str:
    shape = f" ({verdict.shape})" if verdict.shape else ""
    lines = [f"{verdict.file}: {verdict.words}{shape}"]
    lines += [f"    error: {_said(one)}" for one in verdict.problems]
    lines += [f"    {one.kind}: {_said(one)}" for one in verdict.notes]
    return "\n".join(lines)


def _said(finding: Finding) -> str:
    text = finding.message + (f"; {finding.hint}" if finding.hint else "")
    if finding.place is not None:
        text += f" in {finding.place}"
    if finding.more:
        text += f" and {finding.more} more"
    return text


def _json(verdicts: Sequence[Verdict]) -> str:
    files = [
        {
            "file": one.file,
            "verdict": one.words,
            "loads": one.loads,
            "shape": one.shape,
            "errors": [_fields(each) for each in one.problems],
            "notes": [_fields(each) for each in one.notes],
        }
        for one in verdicts
    ]
    return json.dumps({"loads": all(one.loads for one in verdicts), "files": files}, indent=2)


def _fields(finding: Finding) -> dict[str, object]:
    place = finding.place
    return {
        "kind": finding.kind,
        "message": finding.message,
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
        "hint": finding.hint or None,
        "more": finding.more,
    }
