"""`ballast explain`: shows the verdict of every eviction check on one pod."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ballast import log
from ballast.cli.eviction_settings import offline_rules, settings_of
from ballast.cli.evidence import Evidence, Origin, gather, variables
from ballast.cli.output import Output, OutputOption
from ballast.cli.plan import Cluster, Kubeconfig, Live, Metrics, PodMetrics, Set
from ballast.errors import BadFile, UsageError
from ballast.eviction.check_input import LOOKED_NOWHERE, Verdict
from ballast.eviction.feasibility import feasibility, misplaced, standing_of
from ballast.eviction.gate import Gate
from ballast.jobs.eviction.rules import aims_of
from ballast.model.limits import Limit
from ballast.model.pod import Pod
from ballast.words import duration


def explain(
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD", help="The pod.", show_default=False)],
    cluster: Cluster = None,
    metrics_file: Metrics = None,
    pod_metrics: PodMetrics = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    settings: Set = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show why a pod may or may not be evicted: all checks in order, with the numbers they use.

    Checks that need history (debounce, cooldown, rate) are assumed to pass. Limits apply only if they are set.
    """
    log.configure("warning")
    namespace, slash, name = pod.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise UsageError(f"{pod}: give the pod as NAMESPACE/POD, such as shop/web-0.")
    origin = Origin(cluster, metrics_file, pod_metrics, live, kubeconfig)
    origin.check()
    found, given = settings_of(tuple(settings or ()), variables(origin))
    evidence = gather(origin, found)
    gate = Gate(evidence.facts, offline_rules(found, given))
    answer = _answer(evidence, gate, pod, aims_of(found).ceiling)
    if output is Output.JSON:
        typer.echo(json.dumps(answer, indent=2, allow_nan=False))
    else:
        _print(answer)


def _answer(evidence: Evidence, gate: Gate, name: str, ceiling: Limit) -> dict[str, Any]:
    layout = evidence.arranged
    rows = [row for row, pod in enumerate(layout.pods) if f"{pod.namespace}/{pod.name}" == name]
    if not rows:
        raise BadFile(f"{name}: there is no such pod, neither on a node nor pending.")
    row, pod = rows[0], layout.pods[rows[0]]
    placement = standing_of(layout, evidence.facts, gate.rules, ceiling)
    placed = bool(layout.on[row] >= 0 and pod.node)
    verdicts = gate.explain(pod, feasibility(placement, row, evidence.facts, gate.rules) if placed else LOOKED_NOWHERE)
    notes = list(misplaced(placement, row)) if placed else ["the pod is not on a node, so it cannot be moved"]
    refused = [verdict for verdict in verdicts if not verdict.allowed]
    return {
        "pod": name,
        "node": pod.node or None,
        "workload": _workload(evidence, pod),
        "allowed": not refused and placed,
        "checks": [_check(number, verdict) for number, verdict in enumerate(verdicts, 1)],
        "notes": notes,
    }


def _workload(evidence: Evidence, pod: Pod) -> str | None:
    key = evidence.facts.key(pod)
    return None if key is None else f"{key[1]} {key[0]}/{key[2]}"


def _check(number: int, verdict: Verdict) -> dict[str, Any]:
    return {
        "number": number,
        "check": verdict.check,
        "verdict": "allowed" if verdict.allowed else "refused",
        "reason": verdict.reason,
        "numbers": dict(verdict.numbers),
    }


def _print(answer: dict[str, Any]) -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    refused = [each["check"] for each in answer["checks"] if each["verdict"] == "refused"]
    end = "may be moved" if answer["allowed"] else "may not be moved" + (f": {', '.join(refused)}" if refused else "")
    where = f" on {answer['node']}" if answer["node"] else ""
    console.print(f"{answer['pod']}{where} of {answer['workload'] or 'no workload'} {end}.")
    for note in answer["notes"]:
        console.print(f"note: {note}")
    table = Table(box=None, pad_edge=False)
    table.add_column("#", justify="right")
    for column in ("CHECK", "VERDICT", "REASON"):
        table.add_column(column, no_wrap=column != "REASON")
    for each in answer["checks"]:
        table.add_row(str(each["number"]), each["check"], each["verdict"], each["reason"] + _numbers(each["numbers"]))
    console.print(table)


def _numbers(numbers: dict[str, float]) -> str:
    seconds = "age" in numbers
    listed = ", ".join(
        f"{name.replace('_', ' ')} {duration(value) if seconds else f'{value:g}'}" for name, value in numbers.items()
    )
    return f" ({listed})" if listed else ""
