"""What a running daemon says about one node, and about a pod that it moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ballast.base.errors import BallastError
from ballast.cli.observing.remote import NoAnswer, Remote


def node_explanation(remote: Remote, name: str) -> dict[str, Any]:
    """`/api/v1/nodes/NAME` with the strategy and terms of its score. Raises BallastError for an unknown node."""
    path = f"/api/v1/nodes/{quote(name, safe='')}"
    try:
        found: dict[str, Any] = remote.json(path)
    except NoAnswer as error:
        if error.status != 404:
            raise
        raise BallastError(f"{name}: no such node among the selected ones. A pod is named NAMESPACE/POD.") from None
    score = remote.json(f"{path}/score")
    return {**found, "strategy": score["strategy"], "terms": score["terms"]}


def node_words(found: Mapping[str, Any]) -> str:
    """The same in words: state, loads, what the score is made of, and the label."""
    published = found["published"]
    label = f"label score {published['score'] or 'none'}, load {published['load'] or 'none'}"
    if found["state"] != "known":
        lost = f", it lost {' and '.join(found['lost'])}" if found["lost"] else ""
        return f"{found['name']} is {found['state']}{lost}: its load is unknown, so it has no score; {label}."
    terms = ", ".join(f"{name} {value:g}" for name, value in found["terms"].items()) or "none"
    window, loads = next(iter(found["windows"].items()))
    lines = [
        f"{found['name']} has score {found['score']} of 100 (100 is the best place for a pod); {label}.",
        f"made of   {found['strategy']}: {terms}",
    ]
    lines += [
        f"  {name}: mean {one['mean']:.1%}, deviation {one['std']:.1%}, p95 {one['p95']:.1%} over {window}"
        for name, one in loads.items()
        if one["mean"] is not None
    ]
    return "\n".join(lines)


def evictions_of(remote: Remote, pod: str) -> list[dict[str, Any]]:
    """Recent evictions of a pod, the newest first."""
    recent: list[dict[str, Any]] = remote.json("/api/v1/evictions")["recent"]
    return sorted((each for each in recent if each["pod"] == pod), key=lambda each: -each["time"])


def eviction_words(each: Mapping[str, Any]) -> str:
    """Why a pod was moved, and what it brought."""
    share = each["measured"].get("share")
    brought = "not measured yet" if share is None else f"{share:.0%} of what was predicted"
    where = f"to {each['landed_on']}" if each["landed_on"] else f"planned for {each['to'] or 'any other node'}"
    return (
        f"{each['pod']} was moved off {each['from']} by {each['kind']}, {where}: {each['why']}. "
        f"It is {each['status']}; the effect is {brought}. Plan {each['plan']}."
    )
