"""`ballast plan`: shows which pods would be evicted. It never evicts: only the daemon does."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ballast.answers.views import RefusalPrice
from ballast.base import log
from ballast.base.errors import UsageError
from ballast.cli.observing.remote import daemons_plan, find
from ballast.cli.output import LiveOutput, LiveOutputOption
from ballast.cli.place import ContextOption, NamespaceOption, Place
from ballast.cli.planning.eviction_settings import offline_rules, settings_of
from ballast.cli.planning.gather import Origin, PlanFiles, gather, peaks_of, variables
from ballast.cli.score import key_and_value
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, EvictionLimit
from ballast.planners.aims import Aims
from ballast.planners.built_in import planner
from ballast.planners.eviction_plan import DAY_UNKNOWN, Kind, make_plan
from ballast.planners.plan_document import as_json
from ballast.planners.refusal_prices import refusal_prices
from ballast.planning.from_settings import aims_of, limit
from ballast.scoring import dominant_residual
from ballast.scoring.dominant_residual import DominantResidual
from ballast.settings import Settings

app = typer.Typer(
    no_args_is_help=True,
    help="Plan evictions from files or from a cluster. Nothing is changed: only the daemon evicts.",
)

Cluster = Annotated[
    Path | None, typer.Option(help="Output of `kubectl get nodes,pods,pdb,deploy,rs,sts,ds,hpa,ns,pvc,pv -A -o json`.")
]
Metrics = Annotated[Path | None, typer.Option("--metrics", help="A load-watcher document, as GET /watcher returns it.")]
PodMetrics = Annotated[
    Path | None,
    typer.Option(
        help="Output of `kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods`. Without it, requests are used."
    ),
]
Peak = Annotated[
    Path | None,
    typer.Option(help='JSON {"node": {"cpu": 0.6, "memory": 0.7}}: the load of each node at the p95 of a day.'),
]
Live = Annotated[
    bool,
    typer.Option(
        "--live", help="Read the cluster of your current kubeconfig, and the load from the Ballast that runs in it."
    ),
]
Kubeconfig = Annotated[Path | None, typer.Option(help="The same as --live, with this kubeconfig.")]
Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Show the latest plan of a running daemon. URL is the address of its page."),
]
MaxMoves = Annotated[
    int | None, typer.Option(min=0, help="Maximum number of evictions; 0 means no limit.", show_default=False)
]
MaxMovesPercent = Annotated[
    float | None,
    typer.Option(min=0, max=100, help="The same limit in percent of all pods on nodes.", show_default=False),
]
Seed = Annotated[int, typer.Option(hidden=True)]
"""Accepted, and without effect: plans are deterministic."""
Ungated = Annotated[
    bool,
    typer.Option(
        "--ungated",
        help="Use the published rule: it ignores lost room for other pods, and pods land by the linear g unless g is "
        "set.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A field of BALLAST_EVICTION__* in lower case, or weights={resource: weight}; for redistribute also a key "
        "of dominant-residual, such as lambda, c, g or profiles. Can be repeated.",
    ),
]


def _add_command(kind: Kind, description: str, *, without: Sequence[str] = ("ungated", "peak")) -> None:
    """Adds the command for one kind of plan. It takes the options of `_plan`, except those `without`."""
    parameters = list(signature(_plan, eval_str=True).parameters.values())[1:]

    def command(**options: Any) -> None:
        _plan(kind, **options)

    shown = [parameter for parameter in parameters if parameter.name not in without]
    setattr(command, "__signature__", Signature(shown))  # noqa: B010
    app.command(kind, help=description)(command)


def _plan(
    kind: Kind,
    cluster: Cluster = None,
    metrics_file: Metrics = None,
    pod_metrics: PodMetrics = None,
    peak: Peak = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    context: ContextOption = None,
    namespace: NamespaceOption = None,
    url: Url = None,
    max_moves: MaxMoves = None,
    max_moves_percent: MaxMovesPercent = None,
    seed: Seed = 0,
    ungated: Ungated = False,
    settings: Set = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    log.configure("warning")
    origin = Origin(cluster, metrics_file, pod_metrics, live, kubeconfig, context, namespace)
    if url is not None:
        limited = max_moves is not None or max_moves_percent is not None
        if limited or ungated or settings or peak or origin != Origin(None, None, None):
            raise UsageError("--url shows the latest plan of a daemon. Do not combine it with options for a new plan.")
        _show(daemons_plan(find(Place(url)), kind), output)
        return
    if max_moves is not None and max_moves_percent is not None:
        raise UsageError("--max-moves and --max-moves-percent set the same limit: give one of them.")
    origin.check()
    pairs, keys = take_keys(settings or ()) if kind == "redistribute" else (settings or (), {})
    pairs, no_peak = take_no_peak(pairs) if planner(kind).whole_nodes else (pairs, False)
    settings_read, origins = settings_of(pairs, variables(origin))
    evidence = gather(origin, settings_read)
    gate = Gate(evidence.facts, offline_rules(settings_read, origins, kind))
    if max_moves is not None:
        most = EvictionLimit(max_moves)
    elif max_moves_percent is not None:
        most = EvictionLimit(percent=Fraction(str(max_moves_percent)))
    else:
        most = (
            limit(settings_read.eviction.max_moves)
            if "max_moves" in origins and not planner(kind).spans_cycles
            else UNLIMITED
        )
    pods = int(np.count_nonzero(evidence.arranged.present))
    aims = replace(aims_of(settings_read), max_moves=most.of(pods))
    if kind == "redistribute":
        aims = replace(aims, criterion=criterion(settings_read, keys, published=ungated))
    if ungated:
        aims = replace(aims, priced=False, wait_for=0.0)
    aims = replace(aims, no_peak=no_peak)
    day = evidence.peak if no_peak else None
    if peak is not None:
        day = peaks_of(peak, evidence.arranged)
    plan = make_plan(kind, evidence.arranged, gate, aims, peak=day)
    if plan.note:
        advice = f": give --peak FILE, or --set {NO_PEAK}=true to go without" if plan.note == DAY_UNKNOWN else ""
        plan = replace(plan, note=f"{kind} {plan.note}{advice}")
        typer.echo(f"warning: {plan.note}.", err=True)
    answer = {**as_json(plan), **_prices(kind, evidence, gate, aims)}
    _show(answer, output)


def _prices(kind: Kind, evidence: PlanFiles, gate: Gate, aims: Aims) -> dict[str, Any]:
    """The key `prices`, where one check alone keeps pods on hot nodes. The plan has spent limits of its own gate."""
    unspent = Gate(evidence.facts, gate.rules)
    prices = refusal_prices(evidence.arranged, unspent, aims) if planner(kind).moves else {}
    return {"prices": msgspec.to_builtins(prices)} if prices else {}


_add_command("relieve", "Move pods off overloaded nodes.")
_add_command("rebalance", "Move pods so that all nodes have a similar load.")
_add_command("redistribute", "Move pods so that pending pods can start.", without=("peak",))
_add_command("repair", "Move pods that are not where they ask to be.")
_add_command("tidy", "Remove failed and old pods and those that restart again and again.")
_add_command("consolidate", "Empty nodes that the others can do without.", without=("ungated",))


def _show(plan: Mapping[str, Any], output: LiveOutput) -> None:
    if output is LiveOutput.TABLE:
        _print(plan)
    else:
        typer.echo(output.text(plan, str, indent=2))


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
            console.print(f"standard deviation of {name}: {before:.4f} -> {after:.4f}")
    if plan["placed"]:
        console.print(f"pods that can start: {', '.join(plan['placed'])}")
    if plan.get("empty"):
        console.print(f"nodes that are empty then: {', '.join(plan['empty'])}")
    _print_refusals(console, plan)


def _print_refusals(console: Console, plan: Mapping[str, Any]) -> None:
    if plan["refused"]:
        counts = (f"{check} {count}" for check, count in plan["refused"].items())
        console.print(f"refused pods by check: {', '.join(counts)}")
    for check, price in plan.get("prices", {}).items():
        console.print(f"{RefusalPrice(**price).keeps(check)}: {price['setting']}")


NO_PEAK = "no_peak"


def take_no_peak(pairs: Sequence[str]) -> tuple[list[str], bool]:
    """(the other pairs, whether nodes are emptied without knowing a day). Raises UsageError for another value."""
    mine = [pair for pair in pairs if pair.partition("=")[0].strip() == NO_PEAK]
    values = {pair.partition("=")[2].strip() for pair in mine}
    if not values <= {"true", "false"}:
        raise UsageError(f"--set {mine[-1]}: expected {NO_PEAK}=true or {NO_PEAK}=false.")
    return [pair for pair in pairs if pair not in mine], "true" in values


KEYS = ("lambda", "c", "g", "profiles", "resources", "weigh_by", "devices")


def take_keys(pairs: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """(the pairs that are no keys of the criterion, its keys with their values)."""
    mine = [pair for pair in pairs if pair.partition("=")[0].strip() in KEYS]
    return [pair for pair in pairs if pair not in mine], dict(map(key_and_value, mine))


def criterion(settings: Settings, keys: Mapping[str, object], *, published: bool) -> DominantResidual:
    """`BALLAST_SCORING__KEYS` of dominant-residual, and `keys` over them. `published` has the linear g unless one is
    set. Raises UsageError for keys and values that are not allowed."""
    merged = {**settings.scoring.keys.get(dominant_residual.NAME, {}), **keys}
    return dominant_residual.parse({"g": "linear", **merged} if published else merged)
