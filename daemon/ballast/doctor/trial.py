"""Lines are tried before they are printed: what would be known with each, and whether a node would lose by it."""

from collections.abc import Sequence
from shlex import split
from typing import NamedTuple

from msgspec.structs import replace
from pydantic import ValidationError

from ballast.base.errors import BallastError
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding, KnownNodes
from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.sample import Reading
from ballast.settings import Settings
from ballast.settings.model import VARIABLES

_PROMETHEUS = ("preset", "matchers")
_TELEMETRY = ("source", "resources", "node_label", "node_identity", "node_rewrite", "offset")
_ASKING = frozenset((*(("prometheus", key) for key in _PROMETHEUS), *(("telemetry", key) for key in _TELEMETRY)))
"""Settings that change what is asked, or of whom. What others do shows in no single answer."""

_SETTLING = frozenset(("several-jobs", "sources-disagree"))
"""Checks of nodes that are known: whom to believe. Their lines need not make more nodes known."""


class _Trial(NamedTuple):
    """`lost` and `gained` are samples of nodes, compared with what is known without the lines."""

    nodes: KnownNodes | None
    """None where the store did not answer: nothing speaks against the lines."""
    lost: int = 0
    gained: int = 0


def tried(evidence: Evidence, finding: Finding) -> Finding:
    """The finding with those of its lines that make some node more known and none less, the best first.

    Lines that help only together stay together. What cannot be tried stays, and comes last.
    """
    asking = [line for line in finding.fix if _setting(line) in _ASKING and "..." not in line]
    if not asking:
        return finding
    trials = {line: _try(evidence, (line,)) for line in asking}
    kept = {line: trial for line, trial in trials.items() if _helps(finding, trial)}
    if not kept and len(asking) > 1 and len(set(map(_setting, asking))) == len(asking):
        together = _try(evidence, asking)
        kept = dict.fromkeys(asking, together) if _helps(finding, together) else {}
    message = finding.message
    for line in trials.keys() - kept.keys():
        if trials[line].lost:
            message = message.replace(line, line.partition("=")[0])
    if not kept:
        message += "; no setting that was tried makes more nodes known"
    others = [line for line in finding.fix if line not in trials]
    fix = (*sorted(kept, key=lambda line: _rank(line, kept[line])), *others)
    counts = tuple(kept[line].nodes if line in kept else None for line in fix)
    return replace(finding, message=message, fix=fix, tried=counts)


def _helps(finding: Finding, trial: _Trial) -> bool:
    return trial.nodes is None or (not trial.lost and (trial.gained > 0 or finding.check in _SETTLING))


def _rank(line: str, trial: _Trial) -> tuple[bool, bool, int]:
    """What was tried before what was not; metrics-server, which has no windows of its own, after Prometheus."""
    return trial.nodes is None, _setting(line) == ("telemetry", "source"), -trial.gained


def _setting(line: str) -> tuple[str, str] | None:
    return VARIABLES.get(line.partition("=")[0])


def _try(evidence: Evidence, lines: Sequence[str]) -> _Trial:
    """Asks again as the daemon would with these lines."""
    try:
        settings = _with(evidence.settings, lines)
    except (ValidationError, ValueError):
        return _Trial(KnownNodes(0, len(evidence.nodes)), lost=1)  # The daemon would not start with it.
    if evidence.cluster.stop.is_set():
        return _Trial(None)
    try:
        reading = evidence.reading_with(settings)
    except (BallastError, CheckNotPossible):
        return _Trial(None)
    if any(problem.reason == "query" for problem in reading.failed.values()):
        return _Trial(None)
    before, after = _known(_present(evidence)), _known(reading)
    return _Trial(_count(after, settings, len(evidence.nodes)), len(before - after), len(after - before))


def _with(settings: Settings, lines: Sequence[str]) -> Settings:
    """The settings with these beside them. Raises ValueError where a value is not accepted."""
    for line in lines:
        name, _, value = split(line)[0].partition("=")
        part, field = VARIABLES[name]
        present = getattr(settings, part)
        changed = getattr(type(present).model_validate({field: value}), field)
        settings = settings.model_copy(update={part: present.model_copy(update={field: changed})})
    return settings


def _present(evidence: Evidence) -> Reading | None:
    """What is known without any line; None where Prometheus does not answer."""
    try:
        return evidence.reading
    except (BallastError, CheckNotPossible):
        return None


def _known(reading: Reading | None) -> set[tuple[str, int]]:
    """(resource, node) of each sample that counts."""
    samples = reading.samples if reading is not None else {}
    return {(name, row) for name, found in samples.items() for row in found.rows.tolist()}


def _count(known: set[tuple[str, int]], settings: Settings, nodes: int) -> KnownNodes:
    """The nodes that have a sample of each resource that every node needs."""
    names = [each.name for each in settings.telemetry.resources]
    needed = [name for name in names if name in ALWAYS_NEEDED] or names
    return KnownNodes(sum(all((name, row) in known for name in needed) for row in range(nodes)), nodes)
