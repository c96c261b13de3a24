"""The sweep of the dominant-residual method beside the published numbers, as rows, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ballast_lab.experiments import intervals
from ballast_lab.experiments.dominant_residual import BEST, PAPER, STOCK, Sweep, TableRow
from ballast_lab.experiments.figures import BLUE, RED, Sheet
from ballast_lab.experiments.redistribution import NONE
from ballast_lab.experiments.results import ResultRow, Results, markdown
from ballast_lab.experiments.scheduling import gain
from ballast_lab.experiments.worlds import CALIBRATED

HEADS = ("pods placed", "paper", "here, first list", "all lists")
PAPER_GAIN = 37.3
"""Percent more pods than kube-scheduler, as published."""


def results(found: Sweep, redistribution: str = NONE) -> Results:
    """`redistribution` is the rule that ran beside it."""
    details = {each: value for each, value in found.document().items() if each != "experiment"}
    return Results(
        "dominant-residual",
        tuple(_rows(found)),
        f"{markdown(HEADS, beside_paper(found))}\n{_tables(found)}" if len(found.worlds()) == 1 else _tables(found),
        {"best-by-lambda.svg": best_by_lambda(found), "heat-map.svg": heat_map(found)},
        {**details, "redistribution": redistribution},
    )


def _rows(found: Sweep) -> Iterator[ResultRow]:
    for name, row in found.rules().items():
        yield ResultRow("pods placed", name, PAPER.get(name), row.count, intervals.of_mean(row.of_lists["count"]))
    yield ResultRow("gain in percent", "most over the default", PAPER_GAIN, 100 * gain(found.best()[2], found.base))
    for lambda_, most in zip(found.lambdas, found.counts.max(axis=1).tolist(), strict=True):
        yield ResultRow("figure 1", f"lambda {lambda_:g}, best C", 744.0 if lambda_ == 0.1 else None, most)
    for lambda_, counts in zip(found.lambdas, found.counts.tolist(), strict=True):
        for c, count in zip(found.cs, counts, strict=True):
            published = 744.0 if lambda_ == 0.1 and c in (22.0, 50.0) else None
            yield ResultRow("figure 2", f"lambda {lambda_:g}, C {c:g}", published, count)


def beside_paper(found: Sweep) -> list[tuple[str, str, str, str]]:
    """(what, published, in the first list, over all lists) as a table shows them."""
    rules, first = found.rules(), replace(found, places=found.places[:1])
    (lambda_, c, best), stock = first.best(), first.rules()[STOCK]
    counts = [place.counts for place in found.places]
    most = [100 * gain(float(each.max()), place.base) for each, place in zip(counts, found.places, strict=True)]
    return [
        (
            "kube-scheduler's default",
            f"{PAPER[STOCK]}",
            f"{stock.count:.0f} ({stock.least} to {stock.most})",
            _pods(rules[STOCK]),
        ),
        (
            f"most of {len(found.lambdas) * len(found.cs)} settings",
            "744 at λ = 0.1, C = 22 and 50",
            f"{best:.0f} at λ = {lambda_:g}, C = {c:g}",
            _pods(rules[BEST]),
        ),
        *(
            (name, "744", f"{first.rules()[name].count:.0f}", _pods(rules[name]))
            for name in PAPER
            if name.startswith("lambda") and name in rules
        ),
        (
            "fewest of them",
            "above the default",
            f"{first.counts.min():.0f}",
            intervals.plus_minus([float(each.min()) for each in counts], 0),
        ),
        ("most over the default", f"+{PAPER_GAIN:g} %", f"{most[0]:+.1f} %", f"+{intervals.plus_minus(most)} %"),
    ]


def _pods(row: TableRow) -> str:
    return intervals.plus_minus(row.of_lists["count"], 0)


def _tables(found: Sweep) -> str:
    """One table, or one for the calibrated worlds and one for the others where both are there."""
    parts = {
        "Calibrated worlds:": tuple(place for place in found.places if place.world in CALIBRATED),
        "Ordinary worlds:": tuple(place for place in found.places if place.world not in CALIBRATED),
    }
    if not all(parts.values()):
        return _table(found.rules())
    return "\n".join(
        f"{title}\n\n{_table(Sweep(found.lambdas, found.cs, places).rules())}" for title, places in parts.items()
    )


def _table(rules: Mapping[str, TableRow]) -> str:
    heads = (
        "rule",
        "lists",
        "pods",
        "gain",
        "volume",
        "first waits after",
        "placed of dev / small / medium / large, %",
    )
    moves = any(row.moves for row in rules.values())
    rows = (
        (
            name,
            f"{len(row.of_lists['count'])}",
            _pods(row),
            f"{intervals.plus_minus([100 * each for each in row.of_lists['gain']])} %",
            f"{intervals.plus_minus([100 * each for each in row.of_lists['volume']])} %",
            intervals.plus_minus(row.of_lists["first"], 0),
            " / ".join(f"{100 * share:.0f}" for share in row.accepted),
            *([f"{row.moves:.1f}"] if moves else []),
        )
        for name, row in rules.items()
    )
    return markdown((*heads, *(["evictions"] if moves else [])), rows)


def best_by_lambda(sweep: Sweep) -> str:
    """For each lambda the most placed pods over all C, and kube-scheduler's as a line."""
    best = sweep.counts.max(axis=1).tolist()
    sheet = Sheet(f"Pods placed, best C for each lambda: {_where(sweep)}")
    sheet.axes.axhline(sweep.base, color=RED, linestyle="--", label=f"kube-scheduler {sweep.base:.0f}")
    sheet.axes.plot(sweep.lambdas, best, "o-", color=BLUE, label="dominant residual")
    for lambda_, count in zip(sweep.lambdas, best, strict=True):
        sheet.axes.annotate(f"{count:.0f}", (lambda_, count), (0, 7), textcoords="offset points", ha="center")
    sheet.axes.margins(y=0.15)
    sheet.axes.set_xlabel("lambda")
    sheet.name_series(2)
    return sheet.svg()


def heat_map(sweep: Sweep) -> str:
    """The placed pods for each lambda and C."""
    sheet = Sheet(f"Pods placed; kube-scheduler {sweep.base:.0f}: {_where(sweep)}")
    sheet.axes.imshow(sweep.counts, cmap="Blues", origin="lower", aspect="auto")
    middle = (sweep.counts.min() + sweep.counts.max()) / 2
    for (row, column), count in np.ndenumerate(sweep.counts):
        ink = "white" if count > middle else "black"
        sheet.axes.text(column, row, f"{count:.0f}", ha="center", va="center", color=ink)
    sheet.axes.set_xticks(range(len(sweep.cs)), [f"{c:g}" for c in sweep.cs])
    sheet.axes.set_yticks(range(len(sweep.lambdas)), [f"{lambda_:g}" for lambda_ in sweep.lambdas])
    sheet.axes.set_xlabel("C")
    sheet.axes.set_ylabel("lambda")
    return sheet.svg()


def _where(sweep: Sweep) -> str:
    names = ", ".join(dict.fromkeys(place.world for place in sweep.places))
    seeds = len({place.seed for place in sweep.places})
    return f"{names}, seed {sweep.places[0].seed}" if seeds == 1 else f"{names}, mean of {seeds} lists of pods"
