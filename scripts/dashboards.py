"""Writes dashboards/*.json and the copies that the chart ships. With `--check` it only tells whether they are in step.

All replicas export the per-node metrics, so node series are reduced with `max by`, and counters summed over replicas.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    GraphThresholdsStyleMode,
    HeatmapCalculationMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "dashboards", ROOT / "charts" / "ballast" / "dashboards")

OF = 'namespace=~"$namespace"'
WINDOW = f'{OF},resource="$resource",window="$window"'
RATE = "[$__rate_interval]"

Panel = timeseries.Panel | heatmap.Panel | stat.Panel | table.Panel


def fleet() -> dict[str, Any]:
    """Every node by its load, and whether what Ballast says about it can be trusted."""
    board = (
        dashboard.Dashboard("Ballast / Fleet")
        .uid("ballast-fleet")
        .description("How loaded every node is, what was published about it, and how fresh that is.")
        .tags(["ballast", "kubernetes"])
        .refresh("30s")
        .time("now-6h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_variable("namespace", "ballast_leader", multi=True))
        .with_variable(_variable("resource", "ballast_node_load_mean"))
        .with_variable(_variable("window", "ballast_node_load_mean"))
    )
    for title, panels in (
        ("Now", _now()),
        ("Load", _load()),
        ("Scores and writes", _publishing()),
        ("Where the data comes from", _telemetry()),
        ("Ballast itself", _itself()),
    ):
        board.with_row(dashboard.Row(title))
        for panel in panels:
            board.with_panel(panel)
    return dict(json.loads(json.dumps(board.build(), cls=JSONEncoder, sort_keys=True)))


def _now() -> list[Panel]:
    age = f"min(ballast_snapshot_age_seconds{{{OF}}})"
    unknown = f"max(ballast_nodes_unknown{{{OF}}}) / max(ballast_nodes{{{OF}}} > 0)"
    return [
        _stat("Nodes", f"max(ballast_nodes{{{OF}}})"),
        _stat("Unknown nodes", f"max(ballast_nodes_unknown{{{OF}}})"),
        _stat("Share unknown", unknown, unit="percentunit", limits=(0.05, 0.2)),
        _stat("Age of the data", age, unit="s", limits=(90, 300)),
        _stat("Leaders", f"sum(ballast_leader{{{OF}}})"),
        _stat("Frozen", f"max(ballast_frozen{{{OF}}})", limits=(0.5, 1)),
    ]


def _load() -> list[Panel]:
    mean = f"max by (node) (ballast_node_load_mean{{{WINDOW}}})"
    stddev = f"max by (node) (ballast_node_load_stddev{{{WINDOW}}})"
    p95 = f"max by (node) (ballast_node_load_p95{{{WINDOW}}})"
    return [
        _lines(
            "Nodes by mean load",
            [
                ("most loaded", f"max({mean})"),
                ("95th of 100 nodes", f"quantile(0.95, {mean})"),
                ("median node", f"quantile(0.5, {mean})"),
                ("least loaded", f"min({mean})"),
            ],
            unit="percentunit",
        ),
        _heat("Distribution of mean load over nodes", mean),
        _lines("Ten most loaded nodes, mean", [("{{node}}", f"topk(10, {mean})")], unit="percentunit"),
        _lines(
            "The same nodes, mean + and - one standard deviation",
            [
                ("{{node}} +", f"({mean} + {stddev}) and topk(10, {mean})"),
                ("{{node}} -", f"({mean} - {stddev}) and topk(10, {mean})"),
            ],
            unit="percentunit",
        ),
        _lines("Ten highest 95th percentiles", [("{{node}}", f"topk(10, {p95})")], unit="percentunit"),
        _lines("Spread of mean load between nodes (standard deviation)", [("spread", f"stddev({mean})")]),
    ]


def _publishing() -> list[Panel]:
    score = f"max by (node) (ballast_node_score{{{OF}}})"
    return [
        _heat("Distribution of scores over nodes", score, unit="none"),
        _lines("Ten lowest scores", [("{{node}}", f"bottomk(10, {score})")], unit="none"),
        _lines(
            "Writes by kind and result",
            [("{{kind}} {{result}}", f"sum by (kind, result) (rate(ballast_writes_total{{{OF}}}{RATE}))")],
            unit="wps",
            stacked=True,
        ),
    ]


def _telemetry() -> list[Panel]:
    return [
        _lines(
            "Unknown and young nodes",
            [
                ("unknown", f"max(ballast_nodes_unknown{{{OF}}})"),
                ("of these young", f"max(ballast_nodes_young{{{OF}}})"),
            ],
            unit="none",
        ),
        _lines(
            "Samples rejected, by reason",
            [("{{reason}}", f"sum by (reason) (rate(ballast_samples_rejected_total{{{OF}}}{RATE}))")],
            unit="cps",
            stacked=True,
        ),
        _lines(
            "Queries by resource and result",
            [("{{resource}} {{result}}", f"sum by (resource, result) (rate(ballast_queries_total{{{OF}}}{RATE}))")],
            unit="reqps",
            stacked=True,
        ),
        _lines(
            "Warnings in answers",
            [("{{source}}", f"sum by (source) (rate(ballast_query_warnings_total{{{OF}}}{RATE}))")],
            unit="cps",
        ),
        _lines("Age of the data", [("{{pod}}", f"ballast_snapshot_age_seconds{{{OF}}}")], unit="s"),
        _lines(
            "Watches that began again",
            [("{{kind}} {{reason}}", f"sum by (kind, reason) (rate(ballast_watch_restarts_total{{{OF}}}{RATE}))")],
            unit="cps",
        ),
    ]


def _itself() -> list[Panel]:
    buckets = f"sum by (job, le) (rate(ballast_cycle_seconds_bucket{{{OF}}}{RATE}))"
    return [
        _lines("Leader", [("{{pod}}", f"ballast_leader{{{OF}}}")], unit="none", stacked=True),
        _table("Conditions that hold", f"max by (type) (ballast_condition{{{OF}}}) > 0"),
        _lines("Cycle duration, 99th percentile", [("{{job}}", f"histogram_quantile(0.99, {buckets})")], unit="s"),
        _lines(
            "Cycles failed and missed",
            [
                ("{{job}} failed", f'sum by (job) (rate(ballast_cycles_total{{{OF},result="failed"}}{RATE}))'),
                (
                    "{{job}} missed: {{reason}}",
                    f"sum by (job, reason) (rate(ballast_cycles_missed_total{{{OF}}}{RATE}))",
                ),
            ],
            unit="cps",
        ),
        _lines(
            "Kubernetes API reads",
            [("{{verb}} {{result}}", f"sum by (verb, result) (rate(ballast_reads_total{{{OF}}}{RATE}))")],
            unit="reqps",
        ),
        _lines("Memory", [("{{pod}}", _own(f"process_resident_memory_bytes{{{OF}}}"))], unit="bytes"),
        _lines(
            "Processor cores in use", [("{{pod}}", _own(f"rate(process_cpu_seconds_total{{{OF}}}{RATE})"))], unit="none"
        ),
    ]


def _own(expr: str) -> str:
    """Only the series of targets that are Ballast."""
    return f"{expr} and on (namespace, pod, instance) ballast_leader{{{OF}}}"


def _variable(label: str, metric: str, *, multi: bool = False) -> dashboard.QueryVariable:
    variable = (
        dashboard.QueryVariable(label)
        .label(label.capitalize())
        .datasource(_source())
        .query(f"label_values({metric}, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(multi)
        .include_all(multi)
    )
    return variable.all_value(".*") if multi else variable


def _stat(title: str, expr: str, *, unit: str = "none", limits: tuple[float, float] | None = None) -> stat.Panel:
    panel = (
        stat.Panel()
        .title(title)
        .datasource(_source())
        .unit(unit)
        .span(4)
        .height(4)
        .no_value("unknown")
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_query(expr, "A").instant())
    )
    steps = [Threshold(value=None, color="green")]
    if limits is not None:
        steps += [Threshold(value=limits[0], color="orange"), Threshold(value=limits[1], color="red")]
    return panel.thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))


def _lines(title: str, series: list[tuple[str, str]], *, unit: str = "percentunit", stacked: bool = False) -> Panel:
    panel = (
        timeseries.Panel()
        .title(title)
        .datasource(_source())
        .unit(unit)
        .min(0)
        .span(12)
        .height(8)
        .fill_opacity(20 if stacked else 0)
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.RIGHT)
            .show_legend(True)
            .calcs(["lastNotNull"])
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.OFF))
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for index, (legend, expr) in enumerate(series):
        panel.with_target(_query(expr, chr(ord("A") + index)).legend_format(legend))
    return panel


def _heat(title: str, expr: str, *, unit: str = "percentunit") -> Panel:
    return (
        heatmap.Panel()
        .title(title)
        .datasource(_source())
        .unit(unit)
        .span(12)
        .height(8)
        .calculate(True)
        .calculation(
            common.HeatmapCalculationOptions().y_buckets(
                common.HeatmapCalculationBucketConfig().mode(HeatmapCalculationMode.COUNT).value("20")
            )
        )
        .with_target(_query(expr, "A").legend_format("{{node}}"))
    )


def _table(title: str, expr: str) -> Panel:
    return (
        table.Panel()
        .title(title)
        .datasource(_source())
        .span(12)
        .height(8)
        .no_value("none")
        .with_target(_query(expr, "A").instant().format(PromQueryFormat.TABLE))
    )


def _query(expr: str, ref: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).ref_id(ref).datasource(_source())


def _source() -> DataSourceRef:
    return DataSourceRef(type_val="prometheus", uid="${datasource}")


DASHBOARDS = {"fleet": fleet}


def rendered() -> dict[str, str]:
    """{file name: text}."""
    return {f"{name}.json": json.dumps(make(), indent=2) + "\n" for name, make in DASHBOARDS.items()}


def main() -> None:
    for name, text in rendered().items():
        for folder in FOLDERS:
            path = folder / name
            if "--check" not in sys.argv[1:]:
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                sys.exit(f"{path.relative_to(ROOT)} is out of step: run .venv/bin/python scripts/dashboards.py")


if __name__ == "__main__":
    main()
