"""What every check says about one pod, and where it could go, as the API and the command line show it."""

from dataclasses import replace

from ballast.answers.views import CheckVerdict, Explanation, RefusalPrice
from ballast.eviction.check_input import LOOKED_NOWHERE, GateVerdict
from ballast.eviction.feasibility import feasibility, misplaced, standing_of
from ballast.eviction.gate import Gate
from ballast.placement.layout import Layout
from ballast.planners.aims import Aims
from ballast.planners.destinations import pending_of, targets_of
from ballast.planners.eviction_plan import UNPAID, overloaded_of
from ballast.planners.refusal_prices import price_of


def explanation(layout: Layout, gate: Gate, name: str, aims: Aims, *, gated: bool) -> Explanation | None:
    """Whether the pod `name` (namespace/name) may be moved, all checks in order, where it could go; None without it.

    `gated` and the layout come from pods `as_tried`.
    """
    rows = [row for row, pod in enumerate(layout.pods) if f"{pod.namespace}/{pod.name}" == name]
    if not rows:
        return None
    row, pod = rows[0], layout.pods[rows[0]]
    layout = layout.by_the_hour(overloaded_of(layout, gate.history))
    placement = standing_of(layout, gate.facts, gate.rules, aims.ceiling)
    placed = bool(layout.on[row] >= 0 and pod.node)
    outlook, found = LOOKED_NOWHERE, None
    if placed:
        outlook = feasibility(placement, row, gate.facts, gate.rules)
        found = targets_of(layout, gate, row, aims) if outlook.used else None
        if found is not None and found.best is not None and not found.best.pays:
            outlook = replace(outlook, unpaid=UNPAID)
    verdicts = gate.explain(pod, outlook)
    notes = list(misplaced(placement, row)) if placed else ["the pod is not on a node, so it cannot be moved"]
    refused = [verdict for verdict in verdicts if not verdict.allowed]
    only = refused[0].check if placed and len(refused) == 1 else None
    price = None if only is None else price_of(layout, gate, row, only)
    key = gate.facts.key(pod)
    return Explanation(
        pod=name,
        node=pod.node or None,
        workload=None if key is None else f"{key[1]} {key[0]}/{key[2]}",
        allowed=not refused and placed,
        checks=[_check(number, verdict, price) for number, verdict in enumerate(verdicts, 1)],
        notes=notes,
        targets=found,
        pending=None if pod.node else pending_of(layout, gate, row, gated=gated),
    )


def _check(number: int, verdict: GateVerdict, price: RefusalPrice | None) -> CheckVerdict:
    return CheckVerdict(
        number=number,
        check=verdict.check,
        verdict="allowed" if verdict.allowed else "refused",
        reason=verdict.reason,
        numbers={name: value if isinstance(value, int) else float(value) for name, value in verdict.numbers.items()},
        price=None if verdict.allowed else price,
    )
