#!/usr/bin/env python3
"""Writes the generated pages of docs/reference; with --check only tells whether they are up to date.

Which conditions and Events there are is read from the code; what they mean is written here.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from prometheus_client.metrics_core import Metric
from typer.main import get_command

from ballast.cli.app import app
from ballast.cli.lazy import LazyCommand
from ballast.jobs.power.metrics import PowerMetrics
from ballast.metrics import Metrics
from ballast.serving import exposition, families
from ballast.serving.openapi import DOCUMENT

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
SOURCE = ROOT / "daemon" / "ballast"

CONDITIONS = {
    "Active": (
        "Power: policies follow their feeds. False while a policy is held.",
        "Read the message: it names what is waited for.",
    ),
    "BatchGatesHeld": (
        "Batch: pods wait with a gate that nobody removes.",
        "Resume batch, or let the pods go with `ballast release batch`.",
    ),
    "BatchGivenUp": (
        "Batch: a plan failed and the gates were, or could not be, removed.",
        "Read the message; check the rights of batch on pods.",
    ),
    "BatchNotSteered": (
        "Batch: pods landed elsewhere than planned.",
        "Pair the scheduler with the extender: [pairing](../pairing.md).",
    ),
    "ClusterUnreachable": (
        "The watches of the Kubernetes API fail.",
        "Check the API server and the service account; run `ballast doctor --only kubernetes-reachable,rbac`.",
    ),
    "Contended": (
        "Another writer changes back what Ballast set.",
        'Let one of the two go; exclude the object with `ballast.dev/exclude: "true"`.',
    ),
    "CraneFailing": ("Annotations for crane-scheduler cannot be written.", "Check the right to patch nodes."),
    "Degraded": ("Power: a policy cannot act.", "Read the message: it names the target and the error."),
    "EffectMissing": (
        "Power: a change of replicas did not bring the watts it should, or nobody measured it.",
        "Read the message; check `consumption` of the policy.",
    ),
    "EnergySpent": ("Power: the energy of the period is used up.", "Wait for the next period, or allow more."),
    "EvictionsHalted": (
        "It is not safe to evict now, or plans had no effect.",
        "Read the message and [evictions](../evictions.md).",
    ),
    "Fallback": (
        "Power: a feed is silent, and its fallback applies.",
        "Mend the feed; `ballast doctor --only power-feed` tells what it answers.",
    ),
    "FallbackInUse": (
        "Another source replaces Prometheus.",
        "Mend Prometheus; `ballast doctor --only prometheus-reachable,preset-data`.",
    ),
    "FeedAvailable": ("Power: the feeds give fresh watts. False while one does not.", "Check the feed and its clock."),
    "LandingNotSteered": (
        "The scheduler has not asked the extender lately, so nobody steers where replacements land.",
        "Add the extender to the scheduler's profile: [pairing](../pairing.md).",
    ),
    "LeaseFailing": ("The Lease cannot be renewed.", "Check the right to update Leases in the own namespace."),
    "Limited": ("Power: every target is at its minimum or maximum.", "Widen the limits of the policy, or accept it."),
    "NodesUnknown": (
        "Some nodes have no complete window.",
        "See [telemetry](../telemetry.md): young nodes need minutes, silent ones an exporter.",
    ),
    "NodesUnmeasured": (
        "Nodes never gave a sample, while others do.",
        "Install the exporter there, or leave them out with the line of the message.",
    ),
    "ObjectsTooLarge": ("Objects of the API are larger than Ballast keeps.", "Shrink the named objects."),
    "OverBudget": (
        "Power: the load is above the feed.",
        "Read the watts in the message; check minimums and workloads outside the policy.",
    ),
    "PartialAnswers": ("Prometheus warns that its answers are partial.", "Mend the store that the warning names."),
    "Paused": ("A switch pauses the part.", "`ballast resume` prints the line that ends it."),
    "PlanningFailing": (
        "The planning process fails or is too slow.",
        "Give the pod more cpu or memory; read the message.",
    ),
    "PodUsageUnknown": (
        "The usage of pods cannot be read, so requests count.",
        "Scrape cAdvisor or run metrics-server; `ballast doctor --only pod-usage`.",
    ),
    "PodsUnreadable": ("The watch of pods fails.", "Check the right to list and watch pods."),
    "PublishingFailing": (
        "Labels of nodes cannot be written.",
        "Check the right to patch nodes; another admission policy may refuse.",
    ),
    "PublishingFrozen": (
        "Too many nodes are silent: labels stay as they are.",
        "Mend the telemetry; the message has the numbers.",
    ),
    "Rebaselined": ("Power: a policy waits for a new baseline.", "Nothing; it ends by itself."),
    "ReservationsNotHeld": (
        "The scheduler does not ask the extender's filter, so reserved room may be taken by other pods.",
        "Add the filter verb to the extender's profile: [pairing](../pairing.md).",
    ),
    "ScheduleAvailable": (
        "Power: the schedules of the policies can be read. False while one cannot.",
        "Check the schedule's file or address.",
    ),
    "ScrapesSlow": (
        "Samples are read more often than they are scraped.",
        "Set BALLAST_TELEMETRY__INTERVAL as the message says.",
    ),
    "SeriesDiffer": (
        "Series of one node are not the same thing, such as two clusters in one store.",
        "Set the MATCHERS line of the message.",
    ),
    "SourcesDisagree": (
        "Prometheus and metrics-server differ in their means.",
        "Check the exporter of the named nodes.",
    ),
    "StateNotSaved": ("The ConfigMap `ballast-state` cannot be written.", "Check its size and the right to update it."),
    "TelemetryDegraded": ("Queries fail.", "`ballast doctor` names the query and the fix."),
    "UnmatchedSeries": ("Series match no node.", "Set BALLAST_TELEMETRY__NODE_LABEL: [telemetry](../telemetry.md)."),
}
"""Meaning and what to do, by type."""

EVENTS = {
    "AutoscalerDetected": ("`ballast-state`", "An autoscaler scales a target of a power policy."),
    "BatchNoRoom": ("pod", "The gate was removed although no node had room."),
    "Contended": ("`ballast-state`", "Another writer changes what a power policy set."),
    "CapChanged": ("HorizontalPodAutoscaler, ScaledObject", "A power policy changed the cap of an autoscaler."),
    "CapForPower": ("HorizontalPodAutoscaler, ScaledObject", "With an outcome: a cap was not changed."),
    "Eviction": ("pod", "With an outcome: what came of an eviction."),
    "ExcludeFromEviction": ("pod, workload", "An annotation cannot be read, so evictions leave the object alone."),
    "ExcludeFromPower": ("target", "With an outcome: an annotation cannot be read, so power leaves the target alone."),
    "FallbackActivated": ("`ballast-state`", "A feed is silent, and its fallback applies."),
    "FeedInvalid": ("`ballast-state`", "A feed gives no usable watts."),
    "FeedRecovered": ("`ballast-state`", "A feed gives watts again."),
    "Gate": ("pod", "With an outcome: what came of removing the gate of batch."),
    "GateRemoved": ("pod", "Batch let the pod go, as planned."),
    "GateRemovedWithoutPlan": ("pod", "Batch let the pod go without a plan."),
    "Paused": ("`ballast-state`", "Power changes are paused."),
    "MarkEmpty": ("node", "With an outcome: a node was not marked as empty."),
    "PendingCancelled": ("`ballast-state`", "A change of power ended before its window."),
    "PodEvicted": ("node, workload, pod", "A pod was evicted; the message has the plan's reason and the target."),
    "PowerDecreaseDetected": ("`ballast-state`", "A fall of power begins its window."),
    "PowerIncreaseDetected": ("`ballast-state`", "A rise of power begins its window."),
    "PowerLimited": ("`ballast-state`", "All targets are at a limit."),
    "ReplacementLate": ("workload", "The replacement of an evicted pod is not ready in time; the planner stops."),
    "ReplacementReturned": ("workload", "A replacement went back to the node it left; the workload is left alone."),
    "PublishLoad": ("node", "With an outcome: labels and annotations were not written."),
    "PublishTaint": ("node", "With an outcome: the taint was not written."),
    "Resumed": ("`ballast-state`", "Power changes are no longer paused."),
    "ScaleForPower": ("target", "With an outcome: replicas were not changed."),
    "ScaledForPower": ("target", "A power policy changed the replicas."),
    "StartOneMore": ("workload", "With an outcome: no further replica was started before an eviction."),
}
"""The object it is on, and what it tells, by reason."""

CAMEL = re.compile(r"(?!True|False)[A-Z][a-z]+(?:[A-Z][a-z]+)*")
POWER_REASONS = ("_BEGINS", "_DETECTED")

SHELL = "Generated by `scripts/reference_pages.py`."


def conditions() -> str:
    """docs/reference/conditions.md."""
    text = (
        "Conditions tell what is wrong or special now. They stand in `ballast status`, on the page, in "
        "`/readyz?verbose`, in the key `conditions` of ConfigMap `ballast-state`, and as `ballast_condition{type}`. "
        "`FeedAvailable`, `ScheduleAvailable` and `Active` are good when True; all others when False."
    )
    found = {name: CONDITIONS.get(name, ("Its message says what.", "")) for name in condition_types()}
    rows = [f"| `{name}` | {meaning} | {fix} |" for name, (meaning, fix) in sorted(found.items())]
    return page("Conditions", text, "| type | meaning | what to do |", "|---|---|---|", *rows)


def events() -> str:
    """docs/reference/events.md."""
    text = (
        "Events are in the namespace of the object they are about; those about nodes are in `default`. One of a kind "
        "is sent in five minutes, and counts the others. In dry-run there are none. A write that was not done has its "
        "Event too: the outcome follows the reason, such as `EvictionRefused`."
    )
    found = {name: EVENTS.get(name, ("", "Its message says what.")) for name in event_reasons() | {"PodEvicted"}}
    rows = [f"| `{name}` | {where} | {what} |" for name, (where, what) in sorted(found.items())]
    return page("Events", text, "| reason | on | what it tells |", "|---|---|---|", *rows)


def condition_types() -> frozenset[str]:
    """The types that the code sets."""
    return frozenset(_names({"report", "set", "say"}, SOURCE.rglob("*.py")))


def event_reasons() -> frozenset[str]:
    """The reasons that the code gives, of writes too."""
    power = SOURCE / "jobs" / "power" / "conditions.py"
    begun = {
        word
        for node in ast.walk(ast.parse(power.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Assign | ast.AnnAssign) and any(name in ast.unparse(node) for name in POWER_REASONS))
        or (isinstance(node, ast.FunctionDef) and node.name == "_moments")
        for word in _words(node)
    }
    return frozenset(_names({"tell", "_tell"}, SOURCE.rglob("*.py"))) | begun | frozenset(_keywords())


def _names(functions: set[str], files: Iterable[Path]) -> Iterator[str]:
    """CamelCase words among the first two arguments of calls."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            called = getattr(getattr(node, "func", None), "attr", getattr(getattr(node, "func", None), "id", ""))
            if isinstance(node, ast.Call) and called in functions:
                first = node.args[:1] if functions == {"report", "set", "say"} else node.args[1:2]
                yield from (word for argument in first for word in _words(argument))


def _keywords() -> Iterator[str]:
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg in ("event", "done_event"):
                yield from _words(node.value)
            if isinstance(node, ast.FunctionDef):
                for default in node.args.kw_defaults:
                    yield from _words(default) if node.name == "removal" else ()


def _words(node: ast.AST | None) -> Iterator[str]:
    """CamelCase string constants below a node."""
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and CAMEL.fullmatch(each.value):
            yield each.value


def known_metrics() -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Type, help and labels by the name that Prometheus stores."""
    found: dict[str, tuple[str, str, tuple[str, ...]]] = {}
    own = Metrics()
    power = PowerMetrics(own.registry)
    collected: Iterator[Metric] = iter(own.registry.collect())
    members = [*vars(own).values(), *vars(power).values()]
    labels = {each._name: each._labelnames for each in members if hasattr(each, "_labelnames")}
    for family in collected:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = family.type, family.documentation, tuple(labels.get(family.name, ()))
    for name, help_text in exposition._GAUGES.items():
        found[name] = "histogram" if name == "ballast_load" else "gauge", help_text, ()
    for name, (_, help_text) in families.LOADS.items():
        found[name] = "gauge", help_text, ("node", "resource", "window")
    found[families.SPREAD[0]] = "gauge", families.SPREAD[1], ("pool", "resource")
    found[families.SCORE[0]] = "gauge", families.SCORE[1], ("node",)
    return found


def metrics() -> str:
    """docs/reference/metrics.md."""
    text = (
        "`/metrics` of every replica. The leader alone exports the series of nodes; `BALLAST_METRICS__NODES` chooses "
        "how many. While power is in dry-run, `ballast_power_potential_*` stand beside `ballast_power_*`."
    )
    rows = [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {what} |"
        for name, (kind, what, labels) in sorted(known_metrics().items())
    ]
    return page("Metrics", text, "| name | type | labels | what |", "|---|---|---|---|", *rows)


def api() -> str:
    """docs/reference/api.md."""
    text = (
        "All paths are read only. `/api/v1/openapi.json` of a running daemon is the machine-readable form. Times are "
        "Unix seconds; what is not known is null, never 0."
    )
    blocks = []
    schemas = DOCUMENT["components"]["schemas"]
    for path, methods in DOCUMENT["paths"].items():
        for verb, operation in methods.items():
            blocks += [f"## `{verb.upper()} {path}`", "", textwrap.fill(f"{operation['summary']}.", 120), ""]
            blocks += list(_parameters(operation)) + list(_answers(operation, schemas))
    return page("HTTP API", text, *blocks).rstrip("\n") + "\n"


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    for each in operation.get("parameters", ()):
        yield f"* `{each['name']}` ({each['in']})" + (f": {each['description']}" if "description" in each else "")
    if operation.get("parameters"):
        yield ""


def _answers(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    answer = operation["responses"]["200"]["content"].get("application/json", {}).get("schema", {})
    name = (answer.get("$ref") or answer.get("items", {}).get("$ref", "")).rpartition("/")[2]
    keys = schemas.get(name, {}).get("properties", {})
    if keys:
        yield ("A list of objects with these keys:" if "items" in answer else "An object with these keys:")
        yield ""
        for key, schema in keys.items():
            yield f"* `{key}`" + (f": {schema['description']}" if "description" in schema else "")
        yield ""
    codes = [f"{code} ({each['description']})" for code, each in operation["responses"].items() if code != "200"]
    if codes:
        yield textwrap.fill(f"Errors: {'; '.join(codes)}.", 120)
        yield ""


def page(title: str, text: str, *lines: str) -> str:
    """A page with its title, a note that it is generated, and an introduction."""
    wrapped = textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"# {title}", "", SHELL, "", wrapped, "", *lines]) + "\n"


def commands() -> str:
    """docs/reference/commands.md."""
    text = (
        "`-h` after any command prints its help. `ballast --install-completion` completes commands and options in your "
        "shell. Exit codes: 0 done, 1 refused, failed or something found, 2 wrong use or settings. `kubectl ballast` "
        "is the same command."
    )
    lines: list[str] = []
    for path, command in walk(get_command(app), "ballast"):
        lines += [f"## `{path}`", "", *_paragraphs(command.help or ""), *_options(command)]
    return page("Commands", text, *lines).rstrip("\n") + "\n"


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that is no group, with its path."""
    loaded = command.loaded() if isinstance(command, LazyCommand) else command
    if not hasattr(loaded, "list_commands"):
        yield path, loaded
        return
    context = loaded.make_context(path, [], resilient_parsing=True)
    for name in loaded.list_commands(context):
        yield from walk(loaded.get_command(context, name), f"{path} {name}")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        words = " ".join(paragraph.split())
        yield from textwrap.wrap(words, 120, break_long_words=False, break_on_hyphens=False)
        yield ""


def _options(command: Any) -> Iterator[str]:
    shown = [each for each in command.params if each.name != "help"]
    if not shown:
        return
    yield "| option | default | what |"
    yield "|---|---|---|"
    for each in shown:
        option = each.param_type_name == "option"
        name = ", ".join(each.opts) if option else str(each.metavar or each.name).strip("[]").upper()
        choices = type(each.default) if isinstance(each.default, Enum) else ()
        values = f" One of {', '.join(str(one.value) for one in choices)}." if choices else ""
        default = "" if each.default in (None, False, ()) else str(getattr(each.default, "value", each.default))
        help_text = " ".join((each.help or "").split()).replace("|", "\\|")
        yield f"| `{name}` | {f'`{default}`' if default else ''} | {help_text}{values} |"
    yield ""


PAGES = {"commands": commands, "conditions": conditions, "events": events, "metrics": metrics, "api": api}


def main() -> int:
    """Writes the pages, or compares them."""
    stale = 0
    for name, make in PAGES.items():
        file, text = FOLDER / f"{name}.md", make()
        if "--check" not in sys.argv:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"docs/reference/{name}.md is out of date: run scripts/reference_pages.py\n")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
