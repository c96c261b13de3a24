"""What the job and the pod of a series say of the name that it gives. A name alone is only a claim."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ballast.telemetry.node_claims import GUESSED, canonical, is_address
from ballast.telemetry.several_jobs import Job

TARGET: Final = "target"
"""The pod behind a series stands on the node."""

KEPT = 300.0
"""Seconds for which a guess that was right stays so: the series of a Node that is gone are strangers' for so long."""


class Told(NamedTuple):
    """One series: what it calls its node, and who tells it."""

    value: str
    job: Job
    pod: str
    """namespace/name; empty where no label tells."""
    node: str
    """Which node that names; empty where it is none, or several."""
    how: str
    """One of `node_claims.MATCHED_BY`; empty where it names nothing, AMBIGUOUS where it names several."""


@dataclass(frozen=True)
class Origins:
    """Of the series of one metric, by what they call their nodes."""

    doubted: frozenset[str] = frozenset()
    """Short names that do not count."""
    confirmed: frozenset[str] = frozenset()
    """Short names whose pods stand on these nodes."""
    targets: Mapping[str, str] = field(default_factory=dict)
    """What names no node, but its pod → the node where that pod stands."""


class JobNaming:
    """Judges how the jobs of one metric name nodes."""

    def __init__(self) -> None:
        self._right_at: dict[str, float] = {}
        """By short name: when it counted last, Unix seconds."""

    def judge(self, at: float, told: Iterable[Told], runs_on: Callable[[str], str | None]) -> Origins:
        """`runs_on` gives the node of a pod as the watch has it.

        A guess counts while its job tells of no machine that is no node, finds another node in the same way or a node
        exactly (or nobody finds any exactly), and no other series names that node exactly.
        """
        series = list(told)
        targets, confirmed = _targets(series, runs_on)
        exact_jobs = {each.job for each in series if each.node and each.how != GUESSED}
        exact_nodes = {each.node for each in series if each.node and each.how != GUESSED} | {*targets.values()}
        strange = {each.job for each in series if each.value and not each.how and each.value not in targets}
        guesses = [each for each in series if each.how == GUESSED]
        alike: dict[tuple[Job, str], set[str]] = defaultdict(set)
        for each in guesses:
            alike[each.job, _domain(each.value)].add(each.node)
        right = {
            each.value
            for each in guesses
            if each.job not in strange
            and (not exact_jobs or each.job in exact_jobs or len(alike[each.job, _domain(each.value)]) > 1)
        }
        self._right_at = {
            value: seen for value, seen in self._right_at.items() if 0 <= at - seen < KEPT
        } | dict.fromkeys(right, at)
        doubted = {
            each.value
            for each in guesses
            if each.value not in confirmed and (each.value not in self._right_at or each.node in exact_nodes)
        }
        return Origins(frozenset(doubted), frozenset(confirmed), targets)


def _targets(series: Iterable[Told], runs_on: Callable[[str], str | None]) -> tuple[dict[str, str], set[str]]:
    """`Origins.targets` and `confirmed`. A pod that tells of several machines scrapes for others: it proves nothing."""
    pods: dict[str, set[str]] = defaultdict(set)
    values: dict[str, set[str]] = defaultdict(set)
    nameless: dict[str, Told] = {}
    for each in series:
        values[each.pod].add(each.value)
        if each.how in ("", GUESSED):
            pods[each.value].add(each.pod)
            nameless[each.value] = each
    targets: dict[str, str] = {}
    confirmed: set[str] = set()
    for value, each in nameless.items():
        if not each.pod or not value or len(pods[value]) > 1 or len(values[each.pod]) > 1:
            continue
        place = runs_on(each.pod)
        if place and each.how == GUESSED and place == each.node:
            confirmed.add(value)
        elif place and not each.how and _is_of_pod(value, each.pod):
            targets[value] = place
    return targets, confirmed


def _is_of_pod(value: str, pod: str) -> bool:
    """Whether a target is called so because of its pod: by its name, or by the address of a network of pods."""
    host = canonical(value).rpartition(":")[0].strip("[]") or canonical(value)
    return host == pod.partition("/")[2] or canonical(value) == pod.partition("/")[2] or is_address(canonical(host))


def _domain(value: str) -> str:
    return canonical(value).partition(".")[2].partition(":")[0]
