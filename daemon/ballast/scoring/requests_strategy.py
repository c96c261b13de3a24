"""What the strategies that read requests alone have in common, and weights as kube-scheduler allows them.

Source: kubernetes v1.36 pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring.demand import NOTHING, Units, demand
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import StrategyKeys
from ballast.scoring.scores import Scores, half_away

Weights = Mapping[str, int]
DEFAULT: Weights = {"cpu": 1, "memory": 1}

_NATIVE = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.+|attachable-volumes-.+")
_QUALIFIED = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_UNSCALED = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True)
class Allocation:
    """One resource over the nodes: what placed pods and the arriving one ask for, of what is allocatable.

    `allocatable` is 0 where a node does not have the resource; it then does not count there.
    """

    name: str
    weight: int
    before: Ints
    after: Ints
    allocatable: Ints


@dataclass(frozen=True)
class RequestsStrategy:
    """What strategies that read requests alone need, and nothing else. `weights` are those of the resources."""

    needs_load: ClassVar[bool] = False
    needs_pods: ClassVar[bool] = True
    needs_pod: ClassVar[bool] = False
    warms: ClassVar[bool] = False

    weights: Weights


def allocations(fleet: Fleet, weights: Weights, asked: Units, *, defaults: bool) -> Iterator[Allocation]:
    """Every resource that counts: extended ones only if the arriving pod asks for them.

    With `defaults`, cpu and memory of containers without requests count as 100m and 200Mi, as NodeResourcesFit has it.
    """
    for name, weight in weights.items():
        amount = asked.get(name, 0)
        if not amount and name not in _UNSCALED:
            continue
        placed = fleet.placed.scored(name) if defaults else fleet.placed.reserved(name)
        yield Allocation(name, weight, placed, placed + amount, fleet.allocatable(name))


def fit_scores(
    fleet: Fleet, pod: Pod | None, weights: Weights, percent: Callable[[Ints, Ints], Ints], *, ratio: bool = False
) -> Scores:
    """The weighted mean of `percent(requested, allocatable)` over the resources, without its fraction.

    With `ratio`, resources of 0 percent do not count and the mean is rounded (RequestedToCapacityRatio).
    """
    requests = (demand(pod.shape) if pod else NOTHING).arriving
    nodes = len(fleet.nodes)
    total = np.zeros(nodes)
    divisor: Floats | float = 0.0
    terms: dict[str, Floats] = {}
    for share in allocations(fleet, weights, requests, defaults=True):
        exists, everywhere = _having(fleet, share.name)
        points = percent(share.after, share.allocatable if everywhere else np.maximum(share.allocatable, 1)).astype(
            float
        )
        counts = exists & (points > 0) if ratio else exists
        weight = float(share.weight) if counts.all() else np.where(counts, float(share.weight), 0.0)
        total += points * weight
        divisor = divisor + weight
        terms[share.name] = points if everywhere else np.where(exists, points, np.nan)
    raw = total / np.maximum(divisor, 1)
    exact = half_away(raw) if ratio else np.trunc(raw)
    return Scores(
        exact=exact,
        raw=raw if np.min(divisor) > 0 else np.where(np.greater(divisor, 0), raw, np.nan),
        unknown=np.zeros(nodes, bool),
        terms=terms,
    )


def _having(fleet: Fleet, name: str) -> tuple[Bools, bool]:
    """Which nodes have a resource, and whether all do."""

    if name not in fleet.resources:
        return np.zeros(len(fleet.nodes), bool), False

    def compute() -> tuple[Bools, bool]:
        exists = fleet.allocatable(name) > 0
        return exists, bool(exists.all())

    return fleet.once(("having", name), compute)


def only_weights(name: str, given: Mapping[str, object], *, only_one: bool = False) -> Weights:
    """The weights of a strategy that has no other keys; see `parse_weights`. Raises UsageError."""
    keys = StrategyKeys(name, given)
    weights = parse_weights(keys, only_one=only_one)
    keys.finish()
    return weights


def parse_weights(keys: StrategyKeys, *, only_one: bool = False) -> Weights:
    """`resources`: {name: weight}, a list of names or of {name, weight}, or "name=weight,name".

    Weights are whole numbers from 1 to 100, 1 where none is given; with `only_one` they all have to be 1.
    """
    weights_by_name = _weights_by_name(keys, keys.take("resources"))
    if weights_by_name is None:
        return DEFAULT
    weights = {}
    for name, value in weights_by_name.items():
        check_resource(keys, name)
        weight = 1.0 if value is None else keys.as_number(f"the weight of {name}", value)
        if only_one and weight != 1:
            raise keys.error(f"the weight of {name}", value, "kube-scheduler knows only 1 here, for all alike")
        if not 1 <= weight <= 100 or weight != int(weight):
            raise keys.error(
                f"the weight of {name}",
                value,
                "kube-scheduler takes whole numbers from 1 to 100; its documentation of bin packing allows negative "
                "ones, the scheduler itself refuses them",
            )
        weights[name] = int(weight)
    return weights


def _weights_by_name(keys: StrategyKeys, value: object) -> Mapping[str, object] | None:
    """A weight is None where none is given."""
    if value is None:
        return None
    allowed = 'give {"cpu": 1, "nvidia.com/gpu": 5}, a list of names, or cpu,nvidia.com/gpu=5'
    pairs: list[tuple[object, object]]
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",")]
        pairs = [(name.strip(), weight.strip() if equals else None) for name, equals, weight in parts]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, Sequence):
        pairs = [
            (entry.get("name"), entry.get("weight")) if isinstance(entry, Mapping) else (entry, None) for entry in value
        ]
    else:
        raise keys.error("resources", value, allowed)
    names = [name for name, _ in pairs]
    if not names:
        raise keys.error("resources", value, "give an object with at least one entry")
    if not all(isinstance(name, str) and name for name in names):
        raise keys.error("resources", value, allowed)
    if len(set(names)) < len(names):
        raise keys.error("resources", value, "name every resource once")
    return {str(name): weight for name, weight in pairs}


def check_resource(keys: StrategyKeys, name: str) -> None:
    """Raises UsageError for a name that kube-scheduler does not score."""
    if not _NATIVE.fullmatch(name) and not _QUALIFIED.fullmatch(name):
        raise keys.error(
            "resources",
            name,
            "that is no resource the scheduler scores; they are cpu, memory, ephemeral-storage, hugepages-<size> and "
            "extended ones such as nvidia.com/gpu",
        )
