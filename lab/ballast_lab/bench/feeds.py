"""How well an absolute budget follows feeds that swing, and wrong constants behind a late meter."""

from __future__ import annotations

from statistics import fmean

from ballast_lab.bench.rows import Row, at_least, at_most
from tests.worlds.swinging import FEEDS, follow
from tests.worlds.wrong_watts import judge

QUICK = {"seeds": 5}
BEFORE = {"ramp of 1 % a minute": 42, "brown-outs": 95, "noise": 200, "saw with cliffs": 192}
"""Actions when a rise waited for a window of its own (0.2.0); on the feeds that are left out 0 or 1."""


def measure(seeds: int = 1000) -> list[Row]:
    """Time over the feed, use and actions of each feed; the same of drawn worlds beside true constants."""
    return [*_swinging(), *_wrong(seeds)]


def _swinging() -> list[Row]:
    rows: list[Row] = []
    for name, feed in FEEDS.items():
        fixed, asked = (follow(feed, asked_again=again) for again in (False, True))
        most = 2 * BEFORE.get(name, 1)
        parts = {
            "time over": at_most(asked.over, 0.01),
            "use": at_least(asked.use, 0.95),
            "actions": at_most(asked.actions, most),
        }
        missed = [f"{part}: {verdict}" for part, verdict in parts.items() if verdict != "met"]
        rows.append(
            {
                "what": f"power: {name}",
                "at": "4 h, 100 replicas of 50 W, defaults, asked again a second after a sudden fall",
                "reach": f"over ≤ 1 %, use ≥ 95 % of the sliding minimum, ≤ {most} actions",
                "measured": f"over {asked.over:.2%}, use {asked.use:.1%}, {asked.actions} actions; "
                f"a sample every 15 s alone: over {fixed.over:.2%}, {fixed.actions} actions",
                "verdict": ", ".join(missed) or "met",
            }
        )
    return rows


def _wrong(seeds: int) -> list[Row]:
    worlds = [judge(seed) for seed in range(seeds)]
    more = [world.over - world.unavoidable for world in worlds]
    use = [world.use for world in worlds]
    beyond, below = sum(each > 0.01 for each in more), sum(each < 0.92 for each in use)
    at = f"{seeds:,} drawn worlds: .5 to 2 × the watts, meter and drains up to 10 min, up to half of a target Pending"
    return [
        {
            "what": "power: wrong constants, time over beyond that with the true ones",
            "at": at,
            "reach": "≤ 1 %",
            "measured": f"{fmean(more):+.1%} in the mean, at most {max(more):.1%}",
            "verdict": f"{at_most(fmean(more), 0.01)} in the mean; above 1 % in {beyond} worlds",
        },
        {
            "what": "power: wrong constants, use beside the true ones",
            "at": at,
            "reach": "≥ 92 %",
            "measured": f"{fmean(use):.1%} in the mean, at least {min(use):.1%}",
            "verdict": f"{at_least(fmean(use), 0.92)} in the mean; below 92 % in {below} worlds",
        },
    ]
