"""Panels and variables as all dashboards have them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from grafana_foundation_sdk.builders import common, heatmap, prometheus, timeseries
from grafana_foundation_sdk.builders import dashboard as grafana
from grafana_foundation_sdk.builders import stat as stats
from grafana_foundation_sdk.builders import table as tables
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    GraphThresholdsStyleMode,
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

from .metric_help import helps

Panel = timeseries.Panel | heatmap.Panel | stats.Panel | tables.Panel


def started(name: str, title: str, description: str) -> grafana.Dashboard:
    return (
        grafana.Dashboard(f"Ballast / {title}")
        .uid(f"ballast-{name}")
        .description(description)
        .tags(["ballast", "kubernetes"])
        .refresh("30s")
        .time("now-6h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(grafana.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(variable("cluster", "ballast_build_info", multi=True))
    )


def built(board: grafana.Dashboard, rows: Iterable[tuple[str, list[Panel]]]) -> dict[str, Any]:
    for title, panels in rows:
        board.with_row(grafana.Row(title))
        for panel in panels:
            board.with_panel(panel)
    made = dict(json.loads(json.dumps(board.build(), cls=JSONEncoder, sort_keys=True)))
    for panel in made["panels"]:
        if said := " ".join(_said(panel)):
            panel["description"] = said
    made["annotations"] = {"list": [_annotation(*each) for each in ANNOTATIONS]}
    made["links"] = [LINKS]
    return made


OF = 'cluster=~"$cluster",namespace=~"$namespace"'
ANNOTATIONS = (
    ("Evictions", "orange", f'sum(increase(ballast_evictions_total{{{OF},result="evicted"}}[$__interval])) > 0'),
    ("Another leader", "blue", f"(ballast_leader{{{OF}}} == 1) unless (ballast_leader{{{OF}}} offset 2m == 1)"),
    ("Publishing frozen", "red", f"max(ballast_frozen{{{OF}}}) > 0"),
    ("Mode changed", "purple", f"ballast_settings_info{{{OF}}} unless ballast_settings_info{{{OF}}} offset 2m"),
)
LINKS = {
    "asDropdown": True,
    "icon": "external link",
    "includeVars": True,
    "keepTime": True,
    "tags": ["ballast"],
    "title": "Ballast",
    "type": "dashboards",
}


def _annotation(name: str, color: str, expr: str) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    found = {"datasource": source, "enable": True, "expr": expr, "iconColor": color, "name": name}
    return {**found, "step": "60s", "titleFormat": name, "textFormat": "{{part}} {{mode}} {{pod}}"}


def _said(panel: dict[str, Any]) -> list[str]:
    """What the metrics of a panel say of themselves."""
    text = " ".join(target["expr"] for target in panel.get("targets", ()))
    names = dict.fromkeys(re.sub("_(bucket|total)$", "", name) for name in re.findall(r"ballast_\w+", text))
    said = helps()
    return list(dict.fromkeys(said[name] for name in names if name in said))


def variable(label: str, metric: str, *, multi: bool = False) -> grafana.QueryVariable:
    variable = (
        grafana.QueryVariable(label)
        .label(label.capitalize())
        .datasource(_source())
        .query(f"label_values({metric}, {label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(multi)
        .include_all(multi)
    )
    return variable.all_value(".*") if multi else variable


def stat(title: str, expr: str, unit: str = "none", limits: tuple[float, float] | None = None) -> stats.Panel:
    if "_total" in expr:  # nothing has happened yet where Ballast is seen: a true 0
        expr = f"{expr} or 0 * max(ballast_leader{{{OF}}})"
    panel = (
        stats.Panel()
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
    return panel.thresholds(grafana.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))


def lines(
    title: str, series: list[tuple[str, str]], *, unit: str = "percentunit", stacked: bool = False, zero: bool = True
) -> Panel:
    panel = (
        timeseries.Panel()
        .title(title)
        .datasource(_source())
        .unit(unit)
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
    if zero:
        panel.min(0)
    if stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for index, (legend, expr) in enumerate(series):
        panel.with_target(_query(_or_none(expr, legend), chr(ord("A") + index)).legend_format(legend))
    return panel


def _or_none(expr: str, legend: str) -> str:
    """Counters of what has not happened yet have no series: a true 0, named "none", where Ballast is seen."""
    label = re.search(r"\{\{(\w+)\}\}", legend)
    if label is None or not re.search(r"ballast_\w+_total", expr):
        return expr
    return f'{expr} or on () label_replace(0 * max(ballast_leader{{{OF}}}), "{label[1]}", "none", "", "")'


def spread(title: str, expr: str, *, by: str = "le") -> Panel:
    """A heatmap of buckets, one series each by the label `by`, which costs no series per node."""
    return (
        heatmap.Panel()
        .title(title)
        .datasource(_source())
        .unit("percentunit" if by == "le" else "none")
        .span(12)
        .height(8)
        .calculate(False)
        .with_target(_query(expr, "A").format(PromQueryFormat.HEATMAP).legend_format(f"{{{{{by}}}}}"))
    )


def table(title: str, expr: str) -> Panel:
    return (
        tables.Panel()
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
