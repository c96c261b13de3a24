"""The status of PodDisruptionBudgets, as the disruption controller computes it.

Source: kube-controller-manager, pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ballast_lab.simulator.kube.kinds import BUDGET, POD, REPLICA_SET, STATEFUL_SET
from ballast_lab.simulator.kube.resources import Document, ObjectApi
from ballast_lab.simulator.kube.selectors import matches
from ballast_lab.simulator.kube.store import Store
from ballast_lab.simulator.kube.subresources import is_ready

Key = tuple[str, str]


def budgets_of(store: Store, namespace: str, labels: Sequence[Mapping[str, str]]) -> list[Key]:
    """The (namespace, name) of the budgets that select a pod with any of these label sets."""
    return [
        (namespace, stored.name)
        for stored in store.all(BUDGET, namespace)
        if any(matches(stored.read()["spec"].get("selector"), pod) for pod in labels)
    ]


def update_status(resources: ObjectApi, namespace: str, name: str) -> None:
    """Counts the healthy pods and writes how many may be disrupted."""
    store = resources.store
    stored = store.get(BUDGET, namespace, name)
    if stored is None:
        return
    budget = stored.read()
    spec = budget["spec"]
    pods = [pod.read() for pod in store.all(POD, namespace) if matches(spec.get("selector"), pod.labels)]
    before = budget.get("status") or {}
    present = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    disrupted = {pod: since for pod, since in (before.get("disruptedPods") or {}).items() if pod in present}
    healthy = sum(
        is_ready(pod) for pod in pods if pod["metadata"]["name"] in present and pod["metadata"]["name"] not in disrupted
    )
    expected = _expected(store, namespace, spec, len(pods))
    if spec.get("maxUnavailable") is not None:
        desired = max(0, expected - _amount(spec["maxUnavailable"], expected))
    else:
        desired = _amount(spec.get("minAvailable", 1), expected)
    allowed = max(0, healthy - desired) if expected else 0
    status: Document = {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "expectedPods": expected,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "conditions": [_condition(allowed, before, resources.now())],
        **({"disruptedPods": disrupted} if disrupted else {}),
    }
    resources.update(BUDGET, namespace, name, lambda current: {**current, "status": status}, subresource="status")


def _expected(store: Store, namespace: str, spec: Document, pods: int) -> int:
    """The replicas that the controllers of the selected pods want; with an absolute minimum, the number of pods."""
    if spec.get("maxUnavailable") is None and isinstance(spec.get("minAvailable"), int):
        return pods
    total = 0
    for kind in (REPLICA_SET, STATEFUL_SET):
        for stored in store.all(kind, namespace):
            workload = stored.read()
            if matches(spec.get("selector"), workload["spec"]["template"]["metadata"].get("labels") or {}):
                total += workload["spec"]["replicas"]
    return total or pods


def _amount(value: int | str, total: int) -> int:
    return math.ceil(int(value.rstrip("%")) * total / 100) if isinstance(value, str) else value


def _condition(allowed: int, before: Document, now: str) -> Document:
    reason, status = ("SufficientPods", "True") if allowed else ("InsufficientPods", "False")
    found = {"type": "DisruptionAllowed", "status": status, "reason": reason, "message": ""}
    for old in before.get("conditions") or ():
        if old["type"] == found["type"] and old["status"] == status:
            now = old["lastTransitionTime"]
    return {**found, "lastTransitionTime": now}
