"""One pod as the checks see it, and what they say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ballast.eviction.facts import Facts, WorkloadKey
from ballast.eviction.gate_rules import GateRules
from ballast.eviction.history import NOTHING_YET, History, Tally
from ballast.model.node import Node
from ballast.model.pod import Pod


class CheckResult(NamedTuple):
    """`numbers` are what `reason` goes by."""

    allowed: bool
    reason: str
    numbers: Mapping[str, float]

    @property
    def in_words(self) -> str:
        """ "too many nodes are not Ready (not ready 3, nodes 10)"."""
        numbers = ", ".join(f"{name.replace('_', ' ')} {round(value, 3):g}" for name, value in self.numbers.items())
        return f"{self.reason} ({numbers})"


class GateVerdict(NamedTuple):
    check: str
    allowed: bool
    reason: str
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class Feasibility:
    """Where the pod could go.

    `fits` is None if no target was searched for; `crowded`: nodes have room, but their load is too high. `unpaid` and
    `spared` say why moving it does not pay, and why it costs more room than it wins.
    """

    fits: bool | None = None
    crowded: bool = False
    only_unknown: bool = False
    used: bool = True
    unpaid: str | None = None
    spared: str | None = None


LOOKED_NOWHERE = Feasibility()


@dataclass(slots=True)
class CheckInput:
    """`workload` is None for a pod without an owner."""

    pod: Pod
    facts: Facts
    rules: GateRules
    history: History = NOTHING_YET
    tally: Tally = field(default_factory=Tally)
    outlook: Feasibility = LOOKED_NOWHERE
    workload: WorkloadKey | None = field(init=False)

    def __post_init__(self) -> None:
        self.workload = self.facts.key(self.pod)

    @property
    def node(self) -> Node | None:
        return self.facts.nodes.get(self.pod.node)


Check: TypeAlias = Callable[[CheckInput], CheckResult]


def allow(reason: str, **numbers: float) -> CheckResult:
    return CheckResult(True, reason, numbers)


def refuse(reason: str, **numbers: float) -> CheckResult:
    return CheckResult(False, reason, numbers)
