"""Checks of what evictions need: budgets that can be met, and a scheduler that follows the plan."""

from __future__ import annotations

from collections.abc import Iterator

from ballast.doctor.cluster_view import CheckNotPossible, Document, part, text, title
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.doctor.pairing import asks_ballast
from ballast.doctor.scheduler_files import scheduler_files
from ballast.model.disruption import never_allows
from ballast.settings import Mode


def budgets_unsatisfiable(evidence: Evidence) -> Iterator[Finding]:
    """Whether every PodDisruptionBudget lets at least one of its pods be evicted, once all are healthy.

    Found: `maxUnavailable` is 0, or `minAvailable` is all of its pods: no eviction and no drain can ever pass.
    Fix: `kubectl -n prod patch pdb api --type=merge -p '{"spec":{"maxUnavailable":1,"minAvailable":null}}'`
    """
    if evidence.settings.eviction.mode is Mode.OFF:
        raise CheckNotPossible("BALLAST_EVICTION__MODE is off")
    for budget in evidence.cluster.all("/apis/policy/v1/poddisruptionbudgets"):
        if why := unsatisfiable(budget):
            namespace, name = (text(budget, "metadata", key) for key in ("namespace", "name"))
            change = '{"spec":{"maxUnavailable":1,"minAvailable":null}}'
            fix = (f"kubectl -n {namespace} patch pdb {name} --type=merge -p '{change}'",)
            yield Finding("budgets-unsatisfiable", "warn", title(budget), why, fix)


def unsatisfiable(budget: Document) -> str | None:
    """Why a budget never allows a disruption of the pods it expects, or None."""
    expected = part(budget, "status", "expectedPods")
    most, least = part(budget, "spec", "maxUnavailable"), part(budget, "spec", "minAvailable")
    return never_allows(most, least, expected if isinstance(expected, int) else 0)


def landing(evidence: Evidence) -> Iterator[Finding]:
    """Whether replacements of evicted pods land where the plan says.

    Found: evictions are on, and no scheduler that can be seen asks Ballast's extender.
    Fix: `ballast profile extender`, `BALLAST_EVICTION__LANDING=taint`, `BALLAST_EVICTION__MODE=dry-run`
    """
    settings = evidence.settings
    if settings.eviction.mode is not Mode.ON:
        raise CheckNotPossible(f"BALLAST_EVICTION__MODE is {settings.eviction.mode.value}: nothing is evicted")
    if settings.eviction.landing == "taint":
        return
    if asks_ballast(scheduler_files(evidence.cluster), settings.http.of_extender() or settings.http):
        return
    message = (
        "evictions are on, and no scheduler that can be seen asks the extender: replacements may land on the node that "
        "was relieved"
    )
    fix = ("ballast profile extender", "BALLAST_EVICTION__LANDING=taint", "BALLAST_EVICTION__MODE=dry-run")
    yield Finding("eviction-landing", "warn", "extender", message, fix)
