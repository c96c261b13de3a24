"""Checks of what evictions need: budgets, a scheduler that follows, pod usage, and labels that autoscalers ignore."""

import json
from collections.abc import Iterator, Mapping

from ballast.doctor.cluster_view import CheckNotPossible, Document, part, text, title
from ballast.doctor.evidence import PATIENCE, Evidence
from ballast.doctor.finding import Finding
from ballast.doctor.pairing import asks_ballast
from ballast.model.disruption import never_allows
from ballast.publishing.node_keys import NodeKeys
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
    if not settings.eviction.acting:
        held = settings.eviction.mode is not Mode.ON
        why = f"MODE is {settings.eviction.mode.value}" if held else "MODES lets no planner act"
        raise CheckNotPossible(f"BALLAST_EVICTION__{why}: nothing is evicted")
    if settings.eviction.landing == "taint":
        return
    if asks_ballast(evidence.schedulers.files, settings.http.of_extender() or settings.http):
        return
    message = (
        "evictions are on, and no scheduler that can be seen asks the extender: replacements may land on the node that "
        "was relieved"
    )
    fix = ("ballast profile extender", "BALLAST_EVICTION__LANDING=taint", "BALLAST_EVICTION__MODE=dry-run")
    yield Finding("eviction-landing", "warn", "extender", message, fix)


def refusals(evidence: Evidence) -> Iterator[Finding]:
    """Whether one check of evictions alone keeps pods on overloaded nodes, as the daemon's newest plan tells.

    Found: a node is too loaded, and nothing may be moved off it for the sake of one check.
    Fix: the line that lets these pods go, such as `BALLAST_EVICTION__LOCAL_STORAGE=allow`
    """
    if evidence.settings.eviction.mode is Mode.OFF:
        raise CheckNotPossible("BALLAST_EVICTION__MODE is off")
    kinds = {plan.kind: plan for plan in reversed(evidence.plans())}
    for plan in kinds.values():
        for check, price in plan.prices.items() if isinstance(plan.prices, Mapping) else ():
            yield Finding("eviction-prices", "warn", check, f"{plan.kind}: {price.keeps(check)}", (price.setting,))


_BALANCE = "balance-similar-node-groups"
_IGNORE = "balancing-ignore-label"
_COMPARE = "balancing-label"


def autoscaler_labels(evidence: Evidence) -> Iterator[Finding]:
    """Whether cluster-autoscaler still sees node groups as similar beside the score and class labels.

    Found: `--balance-similar-node-groups` is set, and Ballast's labels are not ignored.
    Fix: `kubectl -n kube-system patch deployment cluster-autoscaler --type=json -p '[...]'` with
    `--balancing-ignore-label=ballast.dev/score` and `--balancing-ignore-label=ballast.dev/load`
    """
    publishing = evidence.settings.publishing
    if publishing.mode is Mode.OFF:
        raise CheckNotPossible("BALLAST_PUBLISHING__MODE is off: no label is written")
    keys = NodeKeys.of(publishing.prefix, publishing.label_prefix)
    for deployment in evidence.cluster.all("/apis/apps/v1/deployments"):
        containers = part(deployment, "spec", "template", "spec", "containers") or ()
        for index, container in enumerate(containers):
            field = "args" if container.get("args") else "command"
            flags = _flags([*(container.get("command") or ()), *(container.get("args") or ())])
            if not _on(flags.get(_BALANCE, ["false"])) or _COMPARE in flags:
                continue
            missing = [key for key in (keys.score, keys.load) if key not in flags.get(_IGNORE, [])]
            if missing:
                path = f"/spec/template/spec/containers/{index}/{field}/-"
                added = [{"op": "add", "path": path, "value": f"--{_IGNORE}={key}"} for key in missing]
                namespace, name = (text(deployment, "metadata", key) for key in ("namespace", "name"))
                yield Finding(
                    "autoscaler-labels",
                    "fail" if publishing.mode is Mode.ON else "warn",
                    title(deployment),
                    f"it balances similar node groups and compares {' and '.join(missing)}, which differ between nodes:"
                    " no two groups are similar any more",
                    (f"kubectl -n {namespace} patch deployment {name} --type=json -p '{json.dumps(added)}'",),
                )


def _flags(words: list[str]) -> dict[str, list[str]]:
    """Flags as Go reads them: one or two dashes, and a value only after `=` or as the next word."""
    values: dict[str, list[str]] = {}
    lone = [flag for word in words for flag in str(word).split()]
    for index, word in enumerate(lone):
        if word.startswith("-"):
            name, assigned, value = word.lstrip("-").partition("=")
            after = lone[index + 1] if index + 1 < len(lone) and not lone[index + 1].startswith("-") else "true"
            values.setdefault(name, []).append((value if assigned else after).strip("\"'"))
    return values


def _on(values: list[str]) -> bool:
    return values[-1].lower() not in ("false", "f", "0")


ENOUGH = 0.8
"""Share of the running pods; some always just started."""


def pod_usage(evidence: Evidence) -> Iterator[Finding]:
    """Whether the use of pods is known; evictions fall back to requests without it.

    Found: fewer than 80 % of the running pods have accepted samples.
    Fix: `BALLAST_TELEMETRY__SOURCE=metrics-server`
    """
    begun = evidence.clock.monotonic()
    usage = evidence.usage
    if usage.problems and evidence.clock.monotonic() - begun >= PATIENCE:
        raise CheckNotPossible(f"the usage of pods takes more than {PATIENCE:g} s, which the daemon may wait for")
    problems = "; ".join(f"{name}: {problem}" for name, problem in sorted(usage.problems.items()))
    all_pods = evidence.cluster.count("/api/v1/pods")
    if not problems and all_pods is not None and usage.measured >= ENOUGH * all_pods:
        return
    running = _running(evidence, all_pods if problems or not usage.measured else None)
    if not problems and usage.measured >= ENOUGH * running:
        return
    message = f"usage of {usage.measured:,} of {running:,} pods is known; the requests of the others count instead"
    message += f"; {problems}" if problems else ""
    yield Finding(
        "pod-usage",
        "warn",
        "pods",
        message,
        (
            "BALLAST_TELEMETRY__SOURCE=metrics-server",
            "kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods | head -c 500",
        ),
    )


def _running(evidence: Evidence, otherwise: int | None) -> int:
    """How many pods run. Raises CheckNotPossible where their list takes too long and there is no other number."""
    try:
        return len(evidence.pods)
    except CheckNotPossible:
        if otherwise is None:
            raise
        return otherwise
