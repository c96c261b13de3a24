"""What a check found."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr

from ballast.base.text import printable, printable_lines
from ballast.doctor.outlook import Outlook

Status = Literal["ok", "warn", "fail", "skipped"]
WORST_FIRST: tuple[Status, ...] = ("fail", "warn", "skipped", "ok")


class KnownNodes(Struct, frozen=True):
    """Of how many nodes everything needed is known with a line."""

    known: int
    of: int


class Finding(Struct, frozen=True):
    """`fix` are lines to copy: settings, kubectl lines or YAML; alternatives are lines of the same variable.

    A check that estimates a share says it here, with its 95 % interval.
    """

    check: str
    status: Status
    subject: str
    message: str
    fix: tuple[str, ...] = ()
    tried: tuple[KnownNodes | None, ...] = ()
    """By line of `fix` what it does now; None where that cannot be asked."""
    share: float | UnsetType = UNSET
    low: float | UnsetType = UNSET
    high: float | UnsetType = UNSET

    def __post_init__(self) -> None:
        """What others said is shown on a terminal: it becomes printable."""
        force_setattr(self, "subject", printable(self.subject))
        force_setattr(self, "message", printable(self.message))
        force_setattr(self, "fix", tuple(map(printable_lines, self.fix)))
        force_setattr(self, "tried", self.tried or (None,) * len(self.fix))


class Report(Struct, frozen=True):
    """All findings, the worst first, and how many there are of each status."""

    findings: tuple[Finding, ...]
    summary: dict[str, int]
    outlook: Outlook
    install: str = ""
    """The helm line for this cluster; "" where not every check was made."""
    assumed: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether anything has to be fixed."""
        return self.summary["fail"] > 0


def report(findings: Iterable[Finding], outlook: Outlook, install: tuple[str, tuple[str, ...]]) -> Report:
    """Sorted by status; within one in the order given."""
    ordered = sorted(findings, key=lambda each: WORST_FIRST.index(each.status))
    counts = Counter(finding.status for finding in ordered)
    return Report(tuple(ordered), {status: counts[status] for status in WORST_FIRST}, outlook, *install)
