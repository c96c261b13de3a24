"""What a check costs that alone keeps pods on hot nodes: how many pods, how much load, and the line that frees them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from ballast.answers.views import RefusalPrice
from ballast.eviction.annotations import EVICT_LIFTS
from ballast.eviction.feasibility import standing_of
from ballast.eviction.gate import LIFTED_BY_NAME, NUMBER, PASSED, Gate
from ballast.eviction.gate_rules import GateRules, LocalStorage, percent
from ballast.model.pod import Pod
from ballast.model.sample import Bools
from ballast.placement.layout import Layout
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import thresholds_of
from ballast.planners.thresholds import hot


@dataclass(frozen=True)
class Way:
    """One line, and what it changes of the rules or of the pod."""

    setting: str
    rules: Callable[[GateRules], GateRules] = lambda rules: rules
    pod: Callable[[Pod], Pod] = lambda pod: pod


_LINES: Mapping[str, tuple[Way, ...]] = {
    "priority": (Way("PRIORITY_BELOW=2000000000", lambda rules: replace(rules, priority_below=None)),),
    "job": (Way("JOBS=allow", lambda rules: replace(rules, allow_jobs=True)),),
    "gang": (Way("GANGS=allow", lambda rules: replace(rules, allow_gangs=True)),),
    "local-storage": (Way("LOCAL_STORAGE=allow", lambda rules: replace(rules, local_storage=LocalStorage.ALLOW)),),
    "pvc": (
        Way("PVC=allow", lambda rules: replace(rules, refuse_volume_claims=False)),
        Way("EXCLUDE_STORAGE_CLASSES=", lambda rules: replace(rules, without_storage_classes=frozenset())),
    ),
    "resource-claims": (Way("RESOURCE_CLAIMS=allow", lambda rules: replace(rules, refuse_resource_claims=False)),),
    "without-pdb": (Way("WITHOUT_PDB=allow", lambda rules: replace(rules, needs_budget=False)),),
    "single-replica": (
        Way("SINGLE=restart", lambda rules: replace(rules, restart=True)),
        Way("MIN_REPLICAS=1", lambda rules: replace(rules, min_replicas=1)),
    ),
    "min-ready": (Way("MAX_UNAVAILABLE=50%", lambda rules: replace(rules, max_unavailable=percent(50))),),
    "min-age": (Way("MIN_POD_AGE=0s", lambda rules: replace(rules, min_pod_age=0.0)),),
}
"""Settings that lift a check, the part before the name left out. A check that has none may be lifted by annotation."""


def refusal_prices(layout: Layout, gate: Gate, aims: Aims, most: int | None = None) -> dict[str, RefusalPrice]:
    """By check, the most load first. Only pods count that another node could take; each line is tried on them. Of the
    pods on hot nodes `most` are looked at."""
    everywhere = np.ones(len(layout.nodes), bool)
    above: Bools = np.asarray(hot(layout.load, everywhere, thresholds_of(layout, aims)).any(axis=1))
    rows = np.flatnonzero(layout.placed & layout.present & above[layout.on])[:most]
    numbers = gate.screen(layout.pods[row] for row in rows.tolist())
    placement = standing_of(layout, gate.facts, gate.rules, aims.ceiling)
    kept: dict[str, list[int]] = {}
    for row in rows[numbers < PASSED].tolist():
        if (check := _only_refusal(gate, layout.pods[row])) is not None and _fits(placement, row):
            kept.setdefault(check, []).append(row)
    found = {check: price for check, pods in kept.items() if (price := _price(layout, gate, check, pods)) is not None}
    return dict(sorted(found.items(), key=lambda item: (-item[1].load, NUMBER[item[0]])))


def price_of(layout: Layout, gate: Gate, row: int, check: str) -> RefusalPrice | None:
    """What would free one pod that only this check refuses; None where nothing would."""
    return _price(layout, gate, check, [row])


def _only_refusal(gate: Gate, pod: Pod) -> str | None:
    refused = [verdict.check for verdict in gate.explain(pod) if not verdict.allowed]
    return refused[0] if len(refused) == 1 else None


def _fits(placement: SimulatedPlacement, row: int) -> bool:
    measured = np.isfinite(placement.layout.used[row]).all()
    return bool(measured and placement.open_to(row).any())


def _price(layout: Layout, gate: Gate, check: str, rows: list[int]) -> RefusalPrice | None:
    best: RefusalPrice | None = None
    for way in _ways(check, gate.rules.prefix):
        tried = Gate(gate.facts, way.rules(gate.rules), gate.history)
        freed = [row for row in rows if tried.judge(way.pod(layout.pods[row])) is None]
        if freed and (best is None or len(freed) > best.pods):
            shares = np.nan_to_num(layout.used[freed] / layout.whole[layout.on[freed]])
            best = RefusalPrice(len(freed), float(shares.max(axis=1).sum()), way.setting)
    return best


def _ways(check: str, prefix: str) -> Iterator[Way]:
    for way in _LINES.get(check, ()):
        yield replace(way, setting=f"BALLAST_EVICTION__{way.setting}")
    if check in LIFTED_BY_NAME:
        key = f"{prefix}/{EVICT_LIFTS}"
        yield Way(
            f"{key}={check}", pod=lambda pod: msgspec.structs.replace(pod, annotations={**pod.annotations, key: check})
        )
