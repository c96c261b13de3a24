"""The whole experiment: tables, rows beside published numbers, and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from ballast_lab.experiments import intervals
from ballast_lab.experiments.figures import BLUE, RED, Sheet
from ballast_lab.experiments.power import closed_loop, contestants, day_ahead, days, figures, idle, signals
from ballast_lab.experiments.power.contestants import CONTESTANTS
from ballast_lab.experiments.power.signals import Signal
from ballast_lab.experiments.results import ResultRow, Results, markdown
from ballast_lab.experiments.running import run

RAMPS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
MODELS = ("published", "published, 30 %", "anchor", "absolute", "absolute, no wait")
LONG = ("published", "anchor", "absolute", "step caps", "clamp")
HOURLY = {1: "quarter", 4: "hour"}
"""By rows of a series of quarters of an hour that one row stands for."""
COMPOSITION = {"large": 7.0, "small": 7.0}
"""What the published model's author recorded after one ramp up and down, from 15 and 3."""

Figures = Sequence[Mapping[str, float]]
"""By signal of a group."""
Found = Mapping[str, Mapping[str, Figures]]
"""By group of signals and by who followed them."""


def results(
    public: Sequence[Signal] = (),
    notes: Sequence[str] = (),
    carbon: Mapping[str, day_ahead.Rows] | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> Results:
    """The experiment on its own signals and on days of `public` ones; `notes` say which of these are missing.

    Where chance plays a part, numbers are means over the seeds or days with their intervals. `carbon` are days of
    carbon intensity, by name.
    """
    drawn = [signals.recorded(seed) for seed in seeds]
    parts: dict[str, tuple[Mapping[str, Sequence[Signal]], Sequence[str]]] = {
        "recorded signals": ({each[0].name: _distinct(each) for each in zip(*drawn, strict=True)}, MODELS),
        "ramps": ({each.name: [each] for each in map(signals.ramp, RAMPS)}, MODELS[:4]),
        "ratchets and square wave": ({each.name: [each] for each in signals.disturbed()}, MODELS[:4]),
        "clouds": ({"clouds": [signals.clouds(seed) for seed in seeds]}, LONG),
        "public series": ({each.name: signals.days(each) for each in public}, LONG),
    }
    calls = [
        (each, name) for groups, names in parts.values() for of in groups.values() for name in names for each in of
    ]
    answers = iter(run(measured, calls, jobs, begin(len(calls))))
    tables = {
        title: {group: {name: [next(answers) for _ in of] for name in names} for group, of in groups.items()}
        for title, (groups, names) in parts.items()
    }
    published = {each.name: each.published for each in drawn[0]}
    rows = [row for title, found in tables.items() for row in _rows(title, found, published)]
    text = "".join(_table(title, found) for title, found in tables.items() if found)
    lived = (_ticking(public), _closed_loop(), _idle(), _composition(), _autoscaled(), _planned(carbon or {}))
    for more, shown in lived:
        rows += more
        text += shown
    text += "".join(f"\n{note}\n" for note in notes)
    figure = {
        "power.svg": cloudy_day(signals.clouds(seeds[0])),
        "power-dark.svg": cloudy_day(signals.clouds(seeds[0]), dark=True),
    }
    return Results("power", tuple(rows), text, figure, {"seeds": list(seeds), "left_out": list(notes)})


def _distinct(of_seeds: Sequence[Signal]) -> Sequence[Signal]:
    """One, where the seed changes nothing."""
    return of_seeds[:1] if of_seeds[0].rows == of_seeds[-1].rows else of_seeds


def measured(signal: Signal, name: str) -> dict[str, float]:
    """The figures of one contestant on one signal."""
    followed = CONTESTANTS[name](signal)
    return {**figures.judged(signal, followed), **figures.ends(signal, followed)}


def _rows(title: str, found: Found, published: Mapping[str, Mapping[str, float]]) -> Iterable[ResultRow]:
    for group, by_name in found.items():
        for name, several in by_name.items():
            known = published.get(group, {}) if name == "published" else {}
            for figure in several[0]:
                values = [each[figure] for each in several]
                label = f"{group}: {name}: {figure}"
                yield ResultRow(title, label, known.get(figure), fmean(values), intervals.of_mean(values))


def _table(title: str, found: Found) -> str:
    heads = ["signal", "runs", "who", "error", "rows over", "time over", "Wh over", "Wh unused", "actions"]
    lines = [
        [
            group,
            f"{len(several)}",
            name,
            *(
                intervals.plus_minus([each[figure] for each in several], digits) + unit
                for figure, digits, unit in _COLUMNS
            ),
        ]
        for group, by_name in found.items()
        for name, several in by_name.items()
    ]
    return f"{title.capitalize()}\n\n{markdown(heads, lines)}\n"


_COLUMNS = (
    ("error", 1, ""),
    ("rows over", 1, " %"),
    ("time over", 1, " %"),
    ("Wh over", 1, ""),
    ("Wh unused", 1, ""),
    ("actions", 0, ""),
)


def _ticking(public: Sequence[Signal]) -> tuple[list[ResultRow], str]:
    """An absolute budget with its defaults on the ticks of the daemon, between the rows of a slow feed too."""
    title = "public series on the daemon's ticks"
    slow = {f"{each.name}, by the {HOURLY[step]}": signals.thinned(each, step) for each in public for step in HOURLY}
    found = {name: [contestants.ticking(day) for day in signals.days(each)] for name, each in slow.items()}
    rows = [
        ResultRow(title, f"{name}: {figure}", None, fmean(values), intervals.of_mean(values))
        for name, days_of in found.items()
        for figure in days_of[0]
        for values in ([each[figure] for each in days_of],)
    ]
    lines = [
        [name, f"{len(days_of)}"]
        + [
            intervals.plus_minus([each[figure] for each in days_of], digits) + unit
            for figure, digits, unit in (("time over", 2, " %"), ("Wh unused", 0, ""), ("actions", 0, ""))
        ]
        for name, days_of in found.items()
    ]
    shown = markdown(["series", "days", "time over", "Wh unused", "actions"], lines)
    return rows, f"Public series on the daemon's ticks of 30 s, absolute, defaults\n\n{shown}\n" if lines else ""


def _closed_loop() -> tuple[list[ResultRow], str]:
    title = "closed loop"
    found = {(lag, way.name): dict(closed_loop.lived(way, lag)) for lag in closed_loop.LAGS for way in closed_loop.WAYS}
    rows = [
        ResultRow(title, f"{lag} s: {way}: {figure}", None, value)
        for (lag, way), each in found.items()
        for figure, value in each.items()
    ]
    lines = [
        [f"{lag} s", way, f"{each['actions']:.0f}", f"{each['s over']:.0f}", f"{each['fewest']:.0f}–{each['most']:.0f}"]
        for (lag, way), each in found.items()
    ]
    heads = ["averaged over", "who", "actions", "s over", "replicas after the step"]
    return rows, f"Closed loop\n\n{markdown(heads, lines)}\n"


def _idle() -> tuple[list[ResultRow], str]:
    title = "idle power"
    found = {each: idle.lived(each) for each in idle.IDLE}
    rows = [
        ResultRow(title, f"{each} W: {way}: {figure}", None, value)
        for each, ways in found.items()
        for way, (share, count) in ways.items()
        for figure, value in (("drawn of the feed, percent", 100 * share), ("replicas", count))
    ]
    lines = [
        [f"{each} W", *(f"{100 * share:.0f} %, {count:.0f} replicas" for share, count in ways.values())]
        for each, ways in found.items()
    ]
    heads = ["idle node", *next(iter(found.values()))]
    return rows, f"Idle power: drawn of the feed, and what runs\n\n{markdown(heads, lines)}\n"


def _composition() -> tuple[list[ResultRow], str]:
    title = "composition"
    found = {name: days.composition(keys) for name, keys in days.WAYS.items()}
    rows = [
        ResultRow(title, f"{name}: {short}", COMPOSITION[short] if name == "published" else None, each[target])
        for name, each in found.items()
        for short, target in (("large", days.LARGE), ("small", days.SMALL))
    ]
    lines = [[name, f"{each[days.LARGE]}", f"{each[days.SMALL]}"] for name, each in found.items()]
    return rows, f"Ten days and nights from 15 and 3 replicas\n\n{markdown(['who', 'large', 'small'], lines)}\n"


def _autoscaled() -> tuple[list[ResultRow], str]:
    title = "autoscaler"
    found = {name: days.autoscaled(keys) for name, keys in days.WAYS.items() if name != "published"}
    rows = [
        ResultRow(title, f"{name}: {key}", None, value) for name, each in found.items() for key, value in each.items()
    ]
    lines = [[name, *(f"{value:.1f}" for value in each.values())] for name, each in found.items()]
    heads = ["who", *next(iter(found.values()))]
    return rows, f"A web service with an autoscaler, two solar days\n\n{markdown(heads, lines)}\n"


def _planned(carbon: Mapping[str, day_ahead.Rows]) -> tuple[list[ResultRow], str]:
    title = "day ahead"
    found = {name: day_ahead.lived(rows) for name, rows in carbon.items()}
    rows = [
        ResultRow(title, f"{name}: {way}: {figure}", None, value)
        for name, ways in found.items()
        for way, each in ways.items()
        for figure, value in each.items()
    ]
    lines = [
        [name, way, f"{each['least']:.1f}–{each['most']:.1f}", f"{each['grams']:.1f}", f"{each['actions']:.0f}"]
        for name, ways in found.items()
        for way, each in ways.items()
    ]
    shown = markdown(["series", "who", "kWh a day", "g/kWh", "actions"], lines)
    return rows, f"60 kWh a day of a site of 5 kW, 30 days from 11 April\n\n{shown}\n" if lines else ""


SHOWN = {"published": RED, "absolute": BLUE}
EVERY = 4
"""Rows of a feed from one point of a line to the next."""


def cloudy_day(signal: Signal, *, dark: bool = False) -> str:
    """Watts of the feed as an area, and of what runs as lines."""
    sheet = Sheet("Twelve hours of sun with clouds: kilowatts available, and of what runs", dark=dark)
    hours = [at / 3600 for at, _ in signal.rows][::EVERY]
    available = [watts / 1000 for _, watts in signal.rows][::EVERY]
    sheet.axes.fill_between(hours, available, color="goldenrod", alpha=0.4, linewidth=0, label="available")
    for name, colour in SHOWN.items():
        drawn = [count * signal.each / 1000 for count in CONTESTANTS[name](signal).totals]
        sheet.axes.plot(hours, drawn[::EVERY], color=colour, linewidth=1.5, label=name)
    sheet.axes.set_ylim(0)
    sheet.axes.margins(x=0)
    sheet.axes.set_xlabel("hours")
    sheet.name_series(3)
    return sheet.svg()
