"""`ballast plan`: what would be evicted. There is deliberately no way to do it from here: only the daemon acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ballast import log
from ballast.cli.eviction_settings import offline_rules, settings_of
from ballast.cli.evidence import Origin, gather, variables
from ballast.cli.live import daemons_plan
from ballast.errors import UsageError
from ballast.eviction.document import as_json
from ballast.eviction.gate import Gate
from ballast.eviction.plan import Aims, Kind, make_plan
from ballast.eviction.rules import UNLIMITED, EvictionLimit
from ballast.jobs.eviction.rules import aims_of, limit
from ballast.placement.planners.layout import Layout
from ballast.settings import Settings


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


app = typer.Typer(
    no_args_is_help=True,
    help="Plans evictions, from files or a cluster. Nothing is changed: only the daemon evicts, behind its gate.",
)

Cluster = Annotated[
    Path | None, typer.Option(help="What `kubectl get nodes,pods,pdb,deploy,rs,sts,ds,hpa,ns,pvc -A -o json` prints.")
]
Metrics = Annotated[Path | None, typer.Option("--metrics", help="A load-watcher document, as GET /watcher answers.")]
PodMetrics = Annotated[
    Path | None,
    typer.Option(help="What `kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods` prints; else requests count."),
]
Live = Annotated[
    bool, typer.Option("--live", help="Reads the cluster itself, and the load from the daemon in it, with your rights.")
]
Kubeconfig = Annotated[Path | None, typer.Option(help="Likewise, the cluster of this file.")]
Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Shows what a running daemon has planned last, such as its page's address."),
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
    cluster: Cluster = None,
    metrics_file: Metrics = None,
    pod_metrics: PodMetrics = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    url: Url = None,
    max_moves: MaxMoves = None,
    max_moves_percent: MaxMovesPercent = None,
    seed: Seed = 0,
    settings: Set = None,
    output: Form = Output.TABLE,
) -> None:
    """Moves pods off nodes that are too loaded."""
    origin = Origin(cluster, metrics_file, pod_metrics, live, kubeconfig)
    _answer("relieve", _Wanted(origin, url, max_moves, max_moves_percent, tuple(settings or ())), output)


@app.command()
def rebalance(
    cluster: Cluster = None,
    metrics_file: Metrics = None,
    pod_metrics: PodMetrics = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    url: Url = None,
    max_moves: MaxMoves = None,
    max_moves_percent: MaxMovesPercent = None,
    seed: Seed = 0,
    settings: Set = None,
    output: Form = Output.TABLE,
) -> None:
    """Moves pods so that nodes are loaded evenly."""
    origin = Origin(cluster, metrics_file, pod_metrics, live, kubeconfig)
    _answer("rebalance", _Wanted(origin, url, max_moves, max_moves_percent, tuple(settings or ())), output)


@app.command()
def redistribute(
    cluster: Cluster = None,
    metrics_file: Metrics = None,
    pod_metrics: PodMetrics = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    url: Url = None,
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
    origin = Origin(cluster, metrics_file, pod_metrics, live, kubeconfig)
    _answer(
        "redistribute",
        _Wanted(origin, url, max_moves, max_moves_percent, tuple(settings or ())),
        output,
        ungated=ungated,
    )


@dataclass(frozen=True)
class _Wanted:
    origin: Origin
    url: str | None
    max_moves: int | None
    max_moves_percent: float | None
    settings: tuple[str, ...]

    @property
    def made_here(self) -> bool:
        """Whether anything is given that a plan made elsewhere would not know of."""
        counted = self.max_moves is not None or self.max_moves_percent is not None
        return counted or bool(self.settings) or self.origin != Origin(None, None, None)


def _answer(kind: Kind, wanted: _Wanted, output: Output, *, ungated: bool = False) -> None:
    log.configure("warning")
    if wanted.url is not None:
        if wanted.made_here or ungated:
            raise UsageError("--url shows what a daemon has planned: give it without the options of another plan.")
        _show(daemons_plan(wanted.url, kind), output)
        return
    if wanted.max_moves is not None and wanted.max_moves_percent is not None:
        raise UsageError("--max-moves and --max-moves-percent say the same thing: give one of them.")
    wanted.origin.check()
    settings, given = settings_of(wanted.settings, variables(wanted.origin))
    evidence = gather(wanted.origin, settings)
    gate = Gate(evidence.facts, offline_rules(settings, given))
    aims = _aims(wanted, settings, given, evidence.arranged, ungated=ungated)
    _show(as_json(make_plan(kind, evidence.arranged, gate, aims)), output)


def _show(plan: Mapping[str, Any], output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(plan, indent=2, allow_nan=False))
    else:
        _print(plan)


def _aims(wanted: _Wanted, settings: Settings, given: frozenset[str], arranged: Layout, *, ungated: bool) -> Aims:
    pods = int(np.count_nonzero(arranged.present))
    most = limit(settings.eviction.max_moves) if "max_moves" in given else UNLIMITED
    if wanted.max_moves is not None:
        most = EvictionLimit(wanted.max_moves)
    elif wanted.max_moves_percent is not None:
        most = EvictionLimit(percent=Fraction(str(wanted.max_moves_percent)))
    aims = replace(aims_of(settings), max_moves=most.of(pods))
    return replace(aims, kappa=None) if ungated else aims


def _print(plan: Mapping[str, Any]) -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if plan.get("sentence"):
        at = datetime.fromtimestamp(plan["time"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        console.print(f"{at}, {plan['mode']}: {plan['sentence']}")
    if plan["steps"]:
        table = Table(box=None, pad_edge=False)
        for column in ("POD", "FROM", "TO"):
            table.add_column(column, no_wrap=True)
        table.add_column("GAIN", justify="right")
        table.add_column("REASON")
        for step in plan["steps"]:
            table.add_row(step["pod"], step["from"], step["to"] or "?", f"{step['gain']:.3g}", step["reason"])
        console.print(table)
    else:
        console.print("No eviction helps, or none is allowed.")
    for name, before in plan["before"].items():
        after = plan["after"][name]
        if before is not None and after is not None:
            console.print(f"deviation of {name}: {before:.4f} -> {after:.4f}")
    if plan["placed"]:
        console.print(f"start: {', '.join(plan['placed'])}")
    if plan["refused"]:
        console.print(f"refused: {', '.join(f'{check} {count}' for check, count in plan['refused'].items())}")
