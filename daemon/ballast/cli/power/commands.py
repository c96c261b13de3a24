"""`ballast power`: tries out a power policy on a recorded feed or on a change of replicas, offline."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ballast.base import log
from ballast.base.errors import UsageError
from ballast.cli.output import Output, OutputOption
from ballast.cli.power.chart import drawing
from ballast.cli.power.inputs import (
    above_zero,
    by_target,
    check,
    choose,
    count_of,
    demand_of,
    duration_of,
    factors_of,
    interval_of,
    needs_of,
    others_of,
    policies,
    recorded,
    starting,
)
from ballast.power.allocation import ReplicaAllocation
from ballast.power.allocation import allocate as split
from ballast.power.anchor import affordable, load_of, targets_of, wanted_change
from ballast.power.controller_state import Anchor, Sample
from ballast.power.feed_spec import Semantics
from ballast.power.policy import PowerPolicy
from ballast.power.replay import NO_DEMAND, NO_LOAD, RecordedDemand, Replay, Simulation, usual_gap
from ballast.power.replay import replay as follow
from ballast.telemetry.feeds.power_feed import trace
from ballast.telemetry.feeds.power_schedule import recorded_schedule

app = typer.Typer(no_args_is_help=True, help="Try out a power policy, offline.")


class Compat(StrEnum):
    """The values of `--compat`."""

    PAPER = "paper"


PolicyFile = Annotated[Path, typer.Option("--policy", help="A YAML file with power: {...}, as for the daemon.")]
Name = Annotated[str | None, typer.Option("--name", help="The name of the policy, if the file has several.")]
Feed = Annotated[Path | None, typer.Option("--feed", help="A recorded feed: CSV with the columns time,watts.")]
Range = Annotated[
    str | None,
    typer.Option("--range", metavar="START,END", help="Read the feed of the policy from Prometheus for this range."),
]
Step = Annotated[str | None, typer.Option("--step", metavar="DURATION", help="Time between two samples of --range.")]
Replicas = Annotated[
    list[str] | None,
    typer.Option("--replicas", metavar="NS/NAME=N", help="Initial replicas of a target. Can be repeated."),
]


@app.command()
def replay(
    policy: PolicyFile,
    feed: Feed = None,
    span: Range = None,
    step: Step = None,
    name: Name = None,
    replicas: Replicas = None,
    demand: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="What autoscalers want: columns time,ns/name,replicas.")
    ] = None,
    watts_true: Annotated[
        list[str] | None, typer.Option(metavar="NS/NAME=W", help="Watts that a replica really draws. Can be repeated.")
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option(metavar="NS/NAME=DURATION", help="A removed replica draws so long. Can be repeated."),
    ] = None,
    start_up: Annotated[
        list[str] | None,
        typer.Option(
            "--start", metavar="NS/NAME=DURATION", help="A new replica draws at once, serves later. Can be repeated."
        ),
    ] = None,
    pending: Annotated[
        list[str] | None,
        typer.Option(metavar="NS/NAME=N", help="So many of its replicas cannot start. Can be repeated."),
    ] = None,
    meter_lag: Annotated[str | None, typer.Option(metavar="DURATION", help="The simulated meter is so late.")] = None,
    base: Annotated[
        float, typer.Option(metavar="W", min=0, help="The simulated meter shows so many watts beside the replicas.")
    ] = 0.0,
    averaged: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The simulated meter averages over so long.")
    ] = None,
    others: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="The same as --base, over time: columns time,watts.")
    ] = None,
    load: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="How many times its watts a replica draws: time,ns/name,factor."),
    ] = None,
    consumption: Annotated[
        bool, typer.Option("--consumption", help="Simulate the policy's meter from what its replicas draw.")
    ] = False,
    interval: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time between two ticks. Default: BALLAST_TELEMETRY__INTERVAL."),
    ] = None,
    compat: Annotated[Compat | None, typer.Option(help="Follow the published model exactly.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw watts and replicas to this file.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the controller of the daemon over a recorded feed and show what it would have done."""
    log.configure("warning")
    if plot is not None and plot.suffix not in ("", ".svg"):
        raise UsageError(f"--plot {plot}: only SVG is supported. Give a file name that ends in .svg.")
    chosen = choose(policies(policy), name)
    if compat is not None:
        chosen = chosen.model_copy(update={"compat": compat.value})
    start = starting(chosen, replicas or ())
    samples = _samples(chosen, feed, span, step)
    every = interval_of(interval, samples)
    _warn(check(chosen, usual_gap(samples), every))
    recorded_demand = NO_DEMAND if demand is None else demand_of(chosen, demand)
    simulation = Simulation(
        by_target(chosen, "--watts-true", watts_true or (), above_zero, "NS/NAME=W with watts above 0"),
        by_target(chosen, "--drain", drain or (), duration_of, "NS/NAME=DURATION, such as 10m,"),
        by_target(chosen, "--start", start_up or (), duration_of, "NS/NAME=DURATION, such as 2m,"),
        by_target(chosen, "--pending", pending or (), count_of, "NS/NAME=N with a whole number of at least 0"),
        _seconds_of("--meter-lag", meter_lag),
        consumption,
        Fraction(str(base)),
        _seconds_of("--averaged", averaged),
        NO_LOAD if others is None else others_of(others),
        NO_LOAD if load is None else factors_of(chosen, load),
    )
    true = simulation.watts
    unknown = [target for target, place in chosen.places.items() if place.member.measured and target not in true]
    if unknown:
        raise UsageError(
            f"wattsPerReplica of {unknown[0]} is measured, which a replay cannot do. Give --watts-true {unknown[0]}=W."
        )
    needed = NO_DEMAND if feed is None else needs_of(chosen, feed)
    _warn(_not_followed(chosen, needed))
    result = follow(chosen, samples, start, recorded_demand, simulation, recorded_schedule(chosen), needed, every)
    if plot is not None:
        _write(plot, drawing(result, chosen))
    if output is Output.JSON:
        typer.echo(json.dumps(result.document(), indent=2, allow_nan=False))
    else:
        _print_replay(result)


def _seconds_of(option: str, text: str | None) -> Fraction:
    try:
        return Fraction(0) if text is None else duration_of(text)
    except ValueError:
        raise UsageError(f"{option} {text}: expected a duration such as 2m.") from None


@app.command()
def allocate(
    policy: PolicyFile,
    delta: Annotated[
        list[int] | None, typer.Option(help="Replicas to add (or remove, if negative). Repeat it for further changes.")
    ] = None,
    feed: Feed = None,
    span: Range = None,
    step: Step = None,
    name: Name = None,
    replicas: Replicas = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Split a change of the number of replicas between the targets of a policy.

    With a feed and --delta, the change starts from the state at the end of the feed; with a feed alone, the change is
    what the feed requires.
    """
    log.configure("warning")
    chosen = choose(policies(policy), name)
    baseline = starting(chosen, replicas or ())
    counts = dict(baseline)
    if not (delta or feed or span):
        raise UsageError("Give --delta N, or a feed (--feed FILE.csv, or --range START,END --step DURATION).")
    samples = _samples(chosen, feed, span, step) if feed or span else []
    every = interval_of(None, samples)
    _warn(check(chosen, usual_gap(samples), every))
    if samples and delta:
        counts = dict(follow(chosen, samples, counts, interval=every).ticks[-1].replicas)
    deltas = delta or [_change(chosen, counts, samples)]
    answers = []
    for change in deltas:
        allocation = _split(chosen, counts, baseline, change)
        counts = {target: count + allocation.changes[target] for target, count in counts.items()}
        answers.append((allocation, counts))
    if output is Output.JSON:
        documents = [_document(allocation) for allocation, _ in answers]
        typer.echo(json.dumps(documents if len(documents) > 1 else documents[0], indent=2, allow_nan=False))
    else:
        for allocation, after in answers:
            _print_allocation(allocation, after)


def _samples(policy: PowerPolicy, feed: Path | None, span: str | None, step: str | None) -> list[Sample]:
    if (feed is None) == (span is None) or (span is None) != (step is None):
        raise UsageError(
            "Give the feed: --feed FILE.csv with the columns time,watts, or --range START,END --step DURATION."
        )
    if feed is not None:
        signed = policy.feed is None or (policy.feed.semantics or Semantics.AVAILABLE) is Semantics.AVAILABLE
        rows = trace(feed, signed=signed)
        # Below 0 nothing is available.
        samples = [Sample.of(row.time, None if row.watts is None else max(0.0, row.watts)) for row in rows]
    else:
        samples = list(recorded(policy, span or "", step or ""))
    if not samples:
        raise UsageError(f"{feed or f'--range {span}'} has no rows; give a recorded feed.")
    return samples


def _split(
    policy: PowerPolicy, counts: Mapping[str, int], baseline: Mapping[str, int], delta: int
) -> ReplicaAllocation:
    targets = targets_of(policy, counts, baseline)
    return split(targets, delta, restore_first=policy.restore_first and not policy.paper, inside_first=not policy.paper)


def _change(policy: PowerPolicy, counts: Mapping[str, int], samples: Sequence[Sample]) -> int:
    """The change of replicas that a feed requires from its first valid sample to its last."""
    powers = [max(sample.watts - policy.base_power, policy.floor) for sample in samples if sample.watts is not None]
    if not powers:
        raise UsageError("The feed has no valid sample.")
    targets = [target for target in targets_of(policy, counts, counts) if not target.suspended]

    def load_after(delta: int) -> Any:
        moved = _split(policy, counts, counts, delta).changes
        return sum(target.watts * (target.current + moved[target.name]) for target in targets)

    load = affordable(Anchor(powers[0], load_of(targets)), powers[-1])
    return wanted_change(targets, load, policy.rounds, load_after) if targets else 0


def _document(found: ReplicaAllocation) -> dict[str, Any]:
    return {
        "delta": found.delta,
        "effective": found.effective,
        "unmet": found.unmet,
        "entities": {
            entity: {"quota": float(quota), "share": found.shares[entity]} for entity, quota in found.quotas.items()
        },
        "changes": dict(found.changes),
        "redistributed": found.redistributed,
    }


def _print_replay(result: Replay) -> None:
    rows = []
    before: tuple[str, str] | None = None
    for tick in result.ticks:
        if tick.delta or (tick.state, tick.reason) != before:
            watts, reference = (_short(value) for value in (tick.watts, tick.reference))
            rows.append(
                (_short(tick.t), watts, tick.state, reference, f"{tick.delta:+d}", str(tick.total), tick.reason)
            )
        before = (tick.state, tick.reason)
    _table(("T", "WATTS", "STATE", "REFERENCE", "DELTA", "REPLICAS", "REASON"), rows, left={2, 6})
    over = result.over
    typer.echo(
        f"Over the feed {float(over.share):.1%} of the time, {_short(over.watt_hours)} Wh, at most "
        f"{_short(over.worst_watts)} W; {_short(result.unused)} Wh left unused"
        f"{f'; {float(over.unknown):.1%} of the time could not be judged' if over.unknown else ''}."
    )
    for price in result.prices:
        typer.echo(
            f"increase.window {price.window:g}s: {price.actions_per_day:.0f} actions a day, "
            f"{price.unused_share:.1%} unused{' (chosen)' if price.chosen else ''}."
        )
    error = "" if result.error is None else f"; mean absolute error {_short(result.error)} replicas"
    typer.echo(
        f"{_counted(len(result.ticks), 'tick')}, {_counted(result.actions, 'action')}, "
        f"{_counted(result.cancels, 'cancel')}, "
        f"{_counted(result.ticks[-1].total, 'replica')} at the end{error}."
    )


def _print_allocation(found: ReplicaAllocation, after: Mapping[str, int]) -> None:
    rows = [(name, f"{change:+d}", str(after[name])) for name, change in found.changes.items()]
    _table(("TARGET", "CHANGE", "REPLICAS"), rows, left={0})
    unmet = f"; {abs(found.unmet)} cannot be met within the bounds" if found.unmet else ""
    typer.echo(f"{found.effective:+d} of {found.delta:+d} replicas, {found.redistributed} redistributed{unmet}.")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: set[int]) -> None:
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(soft_wrap=True, markup=False, highlight=False).print(table)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _short(value: Any) -> str:
    return "-" if value is None else f"{float(value):.6g}"


def _not_followed(policy: PowerPolicy, needed: RecordedDemand) -> Iterator[str]:
    for name, place in policy.places.items():
        if place.member.needs is not None and name not in needed.rows:
            yield (
                f"needs of {name} are not followed: the feed has no column {name}. Record there how many replicas it "
                "needed at each time."
            )


def _warn(warnings: Iterator[str]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror}.") from None
