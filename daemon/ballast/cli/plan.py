"""`ballast plan`: what would be evicted, from files that stand in for a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ballast import log
from ballast.cli import files
from ballast.cli.backing import ABSENT, Backing, backing
from ballast.cli.metrics_file import loads, metrics
from ballast.cli.pod_metrics import pod_usage
from ballast.cluster.decoding import annotation_filter
from ballast.daemon.eviction_rules import aims_of, limit, rules_of
from ballast.errors import SettingsError, UsageError
from ballast.eviction.document import as_json, numbers
from ballast.eviction.facts import Facts
from ballast.eviction.gate import Gate
from ballast.eviction.plan import Aims, Kind, Plan, make_plan
from ballast.eviction.rules import UNLIMITED, Limit, Rules
from ballast.model.selector import parse
from ballast.placement.layout import Layout, layout
from ballast.settings import Settings, examine
from ballast.settings.names import VARIABLES, variable

RESOURCES = ("cpu", "memory")
_PART = "eviction"
_FIELDS = tuple(field for part, field in VARIABLES.values() if part == _PART)


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


app = typer.Typer(
    no_args_is_help=True,
    help="Plans evictions from files. Nothing is changed, and this version never evicts.",
)

Cluster = Annotated[
    Path, typer.Option(help="What `kubectl get nodes,pods,pdb,deploy,rs,sts,ds,hpa,ns,pvc -A -o json` prints.")
]
Metrics = Annotated[Path, typer.Option("--metrics", help="A load-watcher document, as GET /watcher answers.")]
PodMetrics = Annotated[
    Path | None,
    typer.Option(help="What `kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods` prints; else requests count."),
]
MaxMoves = Annotated[int | None, typer.Option(min=0, help="Evictions at most; 0 is no limit.", show_default=False)]
MaxMovesPercent = Annotated[
    float | None, typer.Option(min=0, max=100, help="Likewise, in percent of all pods on nodes.", show_default=False)
]
Seed = Annotated[int, typer.Option(help="Plans need no chance: every seed gives the same one.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A field of BALLAST_EVICTION__* in lower case."),
]
Form = Annotated[Output, typer.Option("--output", "-o")]


@app.command()
def relieve(
    cluster: Cluster,
    metrics_file: Metrics,
    pod_metrics: PodMetrics = None,
    max_moves: MaxMoves = None,
    max_moves_percent: MaxMovesPercent = None,
    seed: Seed = 0,
    settings: Set = None,
    output: Form = Output.TABLE,
) -> None:
    """Moves pods off nodes that are too loaded."""
    wanted = _Wanted(cluster, metrics_file, pod_metrics, max_moves, max_moves_percent, tuple(settings or ()))
    _answer("relieve", wanted, output)


@app.command()
def rebalance(
    cluster: Cluster,
    metrics_file: Metrics,
    pod_metrics: PodMetrics = None,
    max_moves: MaxMoves = None,
    max_moves_percent: MaxMovesPercent = None,
    seed: Seed = 0,
    settings: Set = None,
    output: Form = Output.TABLE,
) -> None:
    """Moves pods so that nodes are loaded evenly."""
    wanted = _Wanted(cluster, metrics_file, pod_metrics, max_moves, max_moves_percent, tuple(settings or ()))
    _answer("rebalance", wanted, output)


@app.command()
def redistribute(
    cluster: Cluster,
    metrics_file: Metrics,
    pod_metrics: PodMetrics = None,
    max_moves: MaxMoves = None,
    max_moves_percent: MaxMovesPercent = None,
    seed: Seed = 0,
    ungated: Annotated[
        bool, typer.Option("--ungated", help="The published rule: whatever room for other pods it costs.")
    ] = False,
    settings: Set = None,
    output: Form = Output.TABLE,
) -> None:
    """Moves pods so that waiting ones can start."""
    wanted = _Wanted(cluster, metrics_file, pod_metrics, max_moves, max_moves_percent, tuple(settings or ()))
    _answer("redistribute", wanted, output, ungated=ungated)


@dataclass(frozen=True)
class _Wanted:
    cluster: Path
    metrics: Path
    pod_metrics: Path | None
    max_moves: int | None
    max_moves_percent: float | None
    settings: tuple[str, ...]


def _answer(kind: Kind, wanted: _Wanted, output: Output, *, ungated: bool = False) -> None:
    log.configure("warning")
    if wanted.max_moves is not None and wanted.max_moves_percent is not None:
        raise UsageError("--max-moves and --max-moves-percent say the same thing: give one of them.")
    settings, given = _settings(wanted.settings)
    plan = _plan(kind, wanted, settings, given, ungated=ungated)
    if output is Output.JSON:
        typer.echo(json.dumps(as_json(plan), indent=2, allow_nan=False))
    else:
        _print(plan)


def _plan(kind: Kind, wanted: _Wanted, settings: Settings, given: frozenset[str], *, ungated: bool) -> Plan:
    source = f"--cluster {wanted.cluster}"
    found = files.cluster(files.read_document(wanted.cluster, "--cluster"), source)
    if settings.cluster.node_selector:
        found = _selected(found, settings.cluster.node_selector, source)
    document = metrics(files.read_document(wanted.metrics, "--metrics"), f"--metrics {wanted.metrics}")
    usage = None
    if wanted.pod_metrics is not None:
        usage = pod_usage(
            files.read_document(wanted.pod_metrics, "--pod-metrics"), f"--pod-metrics {wanted.pod_metrics}"
        )
    behind = backing(found, source, annotation_filter(settings.publishing.prefix))
    _warn(found, behind)
    watched = [resource.name for resource in settings.telemetry.resources if resource.name in RESOURCES]
    load = loads(found, document, watched)
    known = np.isfinite(load)
    kept = [column for column in range(len(watched)) if known[:, column].any()] or list(range(len(watched)))
    arranged = layout(
        found.nodes,
        found.pods,
        [watched[column] for column in kept],
        load[:, kept],
        usage,
        settings.cluster.pool_label,
    )
    facts = Facts(
        now=found.newest if document.timestamp is None else document.timestamp,
        nodes=found.nodes,
        pods=found.pods,
        unknown=[node.name for node, row in zip(found.nodes, known, strict=True) if not row.any()],
        workloads=behind.workloads,
        budgets=behind.budgets,
        autoscalers=behind.autoscalers,
        namespaces=behind.namespaces,
    )
    gate = Gate(facts, offline_rules(settings, given))
    return make_plan(kind, arranged, gate, _aims(wanted, settings, given, arranged, ungated=ungated))


def _selected(found: files.ClusterFile, text: str, source: str) -> files.ClusterFile:
    selector = parse(text)
    nodes = tuple(node for node in found.nodes if selector.matches(node.labels))
    if not nodes:
        raise files.BadFile(f"{source}: BALLAST_CLUSTER__NODE_SELECTOR = {text} selects none of its nodes.")
    return replace(found, nodes=nodes)


def offline_rules(settings: Settings, given: frozenset[str]) -> Rules:
    """Limits hold when they are among the `given` fields, what only time can show is met."""
    limits = ("limit_total", "limit_node", "limit_namespace", "limit_workload")
    unset: dict[str, Any] = {name: UNLIMITED for name in limits if name not in given}
    return replace(rules_of(settings), rates=(), **unset)


def _aims(wanted: _Wanted, settings: Settings, given: frozenset[str], arranged: Layout, *, ungated: bool) -> Aims:
    pods = int(np.count_nonzero(arranged.present))
    most = limit(settings.eviction.max_moves) if "max_moves" in given else UNLIMITED
    if wanted.max_moves is not None:
        most = Limit(wanted.max_moves)
    elif wanted.max_moves_percent is not None:
        most = Limit(percent=Fraction(str(wanted.max_moves_percent)))
    aims = replace(aims_of(settings), max_moves=most.of(pods))
    return replace(aims, kappa=None) if ungated else aims


def _settings(pairs: tuple[str, ...]) -> tuple[Settings, frozenset[str]]:
    """The settings, and which fields of evictions somebody gave."""
    environ = dict(os.environ)
    told: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not value.strip():
            raise UsageError(f"--set {pair}: give KEY=VALUE.")
        if key not in _FIELDS:
            close = get_close_matches(key, _FIELDS, 1)
            hint = f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(_FIELDS)}."
            raise UsageError(f"--set {pair}: there is no {key}. {hint}")
        environ[variable(_PART, key)] = value.strip()
        told[variable(_PART, key)] = key
    findings = examine(environ)
    for warning in findings.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if findings.problems:
        raise SettingsError(*(_told(problem, told) for problem in findings.problems))
    return findings.settings, frozenset(field for part, field in findings.values if part == _PART)


def _told(problem: str, told: Mapping[str, str]) -> str:
    name = problem.split(" ", 1)[0]
    return problem.replace("(environment)", f"(--set {told[name]})") if name in told else problem


def _warn(found: files.ClusterFile, behind: Backing) -> None:
    if not found.pods:
        typer.echo("warning: there are no pods, so there is nothing to plan.", err=True)
    elif behind.absent:
        told = "; ".join(f"no {kind}: {ABSENT[kind]}" for kind in behind.absent)
        typer.echo(f"warning: the cluster file has {told}.", err=True)
    for each in found.objects.get("ConfigMap", ()):
        data = each.get("data") or {}
        if (each.get("metadata") or {}).get("name") == "ballast-switches":
            on = [key for key in ("paused", "paused.eviction") if data.get(key, "false") != "false"]
            if on:
                typer.echo(f"warning: evictions are paused by {on[0]} of ConfigMap ballast-switches.", err=True)


def _print(plan: Plan) -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if plan.steps:
        table = Table(box=None, pad_edge=False)
        for column in ("POD", "FROM", "TO"):
            table.add_column(column, no_wrap=True)
        table.add_column("GAIN", justify="right")
        table.add_column("REASON")
        for move in plan.steps:
            table.add_row(move.pod, move.source, move.target or "?", f"{move.gain:.3g}", move.reason)
        console.print(table)
    else:
        console.print("No eviction helps, or none is allowed.")
    for name, before in numbers(plan.before).items():
        after = numbers(plan.after)[name]
        if before is not None and after is not None:
            console.print(f"deviation of {name}: {before:.4f} -> {after:.4f}")
    if plan.placed:
        console.print(f"start: {', '.join(plan.placed)}")
    if plan.refused:
        console.print(f"refused: {', '.join(f'{check} {count}' for check, count in plan.refused.items())}")
