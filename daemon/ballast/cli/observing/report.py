"""`ballast report`: what was done and missed, by day, from the ledger."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ballast.cli.observing.remote import find
from ballast.cli.output import LiveOutput, LiveOutputOption
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place, UrlOption
from ballast.model.ledger import AMOUNTS, COUNTS

WITHOUT = "hot_node_minutes_without"
COLUMNS = {
    "evicted": "EVICTED",
    "refused": "REFUSED",
    "failed": "FAILED",
    "predicted": "PREDICTED",
    "measured": "MEASURED",
    "hot_node_minutes": "HOT NODE-H",
    "label_writes": "LABELS",
    "over_watt_hours": "OVER WH",
    "unmet_watt_hours": "UNMET WH",
}
MOST = 90

Row = Mapping[str, Any]


def report(
    days: Annotated[int, typer.Option(min=1, max=MOST, help="So many days, today included.")] = 30,
    url: UrlOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    """Show what was moved, measured and missed, by day (UTC). The counts survive restarts."""
    ledger = find(Place(url, namespace, kubeconfig, context)).json("/api/v1/ledger")
    rows = ledger["days"][-days:]
    answer = {"days": rows, "total": total(rows)}
    typer.echo(output.text(answer, lambda: table(answer)))


def total(rows: Sequence[Row]) -> dict[str, Any]:
    """The sums; None for an amount that no row knows."""
    sums: dict[str, Any] = {name: sum(row[name] for row in rows) for name in COUNTS}
    for name in AMOUNTS:
        known = [row[name] for row in rows if row.get(name) is not None]
        sums[name] = round(sum(known), 4) if known else None
    return sums


def table(answer: Mapping[str, Any]) -> str:
    """A line for each day, the newest last, and the sums; a dash for what is not known."""
    lines = [["DAY", *COLUMNS.values()]]
    lines += [[_day(row["begin"]), *_cells(row)] for row in answer["days"]]
    lines.append(["total", *_cells(answer["total"])])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    ]
    sums = answer["total"]
    if sums["predicted"]:
        share = sums["measured"] / sums["predicted"]
        text.append(f"Moves took {share:.0%} of the predicted load off their nodes, where that could be measured.")
    known = [row for row in answer["days"] if row.get(WITHOUT) is not None]
    if known:
        hot, without = (sum(row[name] for row in known) / 60 for name in ("hot_node_minutes", WITHOUT))
        text.append(f"Without the moves {without:,.1f} node-hours would have been hot; {hot:,.1f} were.")
    return "\n".join(text)


def _day(begin: float) -> str:
    return datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d")


def _cells(row: Row) -> list[str]:
    return [_cell(name, row[name]) for name in COLUMNS]


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name == "hot_node_minutes":
        return f"{value / 60:,.1f}"
    if name in ("predicted", "measured"):
        return f"{value:.2f}"
    return f"{value:,.1f}" if name in AMOUNTS else f"{value:,}"
