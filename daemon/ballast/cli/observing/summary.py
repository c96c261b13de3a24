"""What a daemon's answers come to: is the cluster balanced, what was done today, what is wrong."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HIGH = 0.8
"""The load above which a node is hot, where the settings cannot be read."""

JUDGED = ("cpu", "memory")
"""The resources a single limit is for."""

Json = Mapping[str, Any]


def spread(nodes: Iterable[Json], resources: Iterable[str]) -> dict[str, float | None]:
    """Population standard deviation of the mean load over known, schedulable nodes, as fractions of allocatable.

    None for a resource that no node knows.
    """
    counted = [node for node in nodes if node["state"] == "known" and node["schedulable"]]
    return {
        name: _deviation([mean for node in counted if (mean := mean_of(node, name)) is not None]) for name in resources
    }


def mean_of(node: Json, resource: str) -> float | None:
    """The mean load of one resource, None while unknown."""
    load = node["load"].get(resource)
    return None if load is None else load["mean"]


def limits_of(settings: Iterable[Json]) -> dict[str, float]:
    """The load above which a node is hot, by resource: BALLAST_PUBLISHING__HIGH."""
    value = next((row["value"] for row in settings if row["name"] == "BALLAST_PUBLISHING__HIGH"), HIGH)
    if isinstance(value, Mapping):
        return {name: float(limit) for name, limit in value.items()}
    try:
        return dict.fromkeys(JUDGED, float(value))
    except (TypeError, ValueError):
        return dict.fromkeys(JUDGED, HIGH)


def hot(nodes: Iterable[Json], limits: Mapping[str, float]) -> list[dict[str, Any]]:
    """Known nodes with a mean load at or above a limit, the most loaded first: `{"node", "load": {resource: mean}}`."""
    hottest = []
    for node in nodes:
        loads = {name: mean for name in limits if (mean := mean_of(node, name)) is not None}
        if node["state"] == "known" and any(mean >= limits[name] for name, mean in loads.items()):
            hottest.append({"node": node["name"], "load": loads})
    return sorted(hottest, key=lambda node: (-max(node["load"].values()), node["node"]))


def busiest(node: Json) -> float:
    """The larger of cpu and memory, by which nodes are ordered; below 0 where neither is known."""
    return max((mean for name in JUDGED if (mean := mean_of(node, name)) is not None), default=-1.0)


def wrong(status: Json) -> list[dict[str, Any]]:
    """What is wrong now, causes first, tuning last, as the daemon tells it; `message` and `do` are its troubles'."""
    troubles = status["troubles"]
    # A daemon of an earlier version says no tense.
    told = status.get("wrong") or [
        {name: trouble[name] for name in ("type", "rank", "title")}
        | {"cause": trouble["message"], "since": None, "tense": "holds", "next": trouble["do"]}
        for trouble in troubles
    ]
    return [
        {**row, "message": trouble["message"], "do": trouble["do"]} for row, trouble in zip(told, troubles, strict=True)
    ]


def broken(problems: Iterable[Json]) -> list[Json]:
    """Without what is only tuning."""
    return [problem for problem in problems if problem["rank"] != "tuning"]


def _deviation(values: Sequence[float]) -> float | None:
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
