"""What a check finds in one file, and what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.config.schema import Place


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to tell.

    `kind` of a problem: syntax, unknown, unsupported, invalid. `kind` of a note: idle (no effect here, and why), trap
    (means something else than it seems to), warning (said on loading too), missing (an included file), elsewhere (a
    name that a file not given may define), placeholder (a value that a template leaves open).
    """

    kind: str
    message: str
    place: Place | None = None
    hint: str = ""
    more: int = 0  # further places of which the same is to be said


@dataclass(slots=True)
class Verdict:
    """A judged file; `shape` says what it was taken for."""

    file: str
    shape: str = "configuration"
    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    @property
    def loads(self) -> bool:
        return not self.problems

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        if not self.loads:
            return "does not load"
        return "loads with notes" if self.notes else "loads"


def gathered(findings: Sequence[Finding]) -> list[Finding]:
    """The same message once, with the count of its further places; in the order first met."""
    first: dict[tuple[str, str], Finding] = {}
    for one in findings:
        key = (one.kind, one.message)
        seen = first.get(key)
        first[key] = one if seen is None else Finding(one.kind, one.message, seen.place, seen.hint, seen.more + 1)
    return list(first.values())
