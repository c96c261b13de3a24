"""The answers of `/api/v1/plans` and `/api/v1/evictions`: times are Unix seconds, an unknown value is null, never 0."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from ballast.answers.api import NAMESPACED, UNIX, Answer, Loads, Numbers
from ballast.answers.views import RefusalPrice

Limits = Mapping[str, str | Sequence[str]]
"""By name; as in the settings."""

EvictionStatus = Literal["recorded", "evicted", "refused", "landed", "ready", "failed", "stopped"]


class Siblings(Answer):
    """Pods of one workload on two nodes."""

    source: int
    target: int


class Concentration(Answer):
    """The most pods of one workload on one node, of workloads that have at least two."""

    before: int
    after: int


class MeasuredShare(Answer):
    """The measured share of a predicted effect, and the interval that it lies in."""

    share: float
    low: float
    high: float


class Step(Answer, kw_only=True):
    """One eviction of a plan."""

    pod: Annotated[str, NAMESPACED]
    source: str | None = field(name="from")
    to: str | None
    gain: Annotated[float, Meta(description="redistribute: waiting pods that start; else the fall of the objective")]
    gain_error: Annotated[float, Meta(description="its standard error")]
    cost: Annotated[float, Meta(description="the price of the eviction, in the measure of the gain")]
    reason: str
    siblings: Annotated[Siblings | UnsetType, Meta(description="pods of its workload there after the step")] = UNSET
    measured: Annotated[MeasuredShare | UnsetType, Meta(description="once its effect was judged")] = UNSET


class Verdict(Answer):
    """What the checks say about one pod."""

    pod: Annotated[str, NAMESPACED]
    check: Annotated[str | None, Meta(description="the check that refused it")]
    verdict: Literal["allowed", "refused"]
    reason: str


class Plan(Answer, kw_only=True):
    """One eviction plan."""

    id: str
    time: float
    mode: str
    kind: str
    steps: Sequence[Step]
    before: Annotated[Numbers, Meta(description="standard deviation of the load between nodes, by resource")]
    after: Annotated[Numbers, Meta(description="the same, as predicted")]
    refused: Annotated[Mapping[str, int], Meta(description="pods by the first check that refused them")]
    placed: Annotated[Sequence[str], Meta(description="waiting pods that would start")]
    empty: Annotated[Sequence[str] | UnsetType, Meta(description="nodes that are or become empty")] = UNSET
    concentration: Concentration | UnsetType = UNSET
    prices: Annotated[
        Mapping[str, RefusalPrice] | UnsetType, Meta(description="checks that alone keep pods on hot nodes")
    ] = UNSET
    verdicts: Sequence[Verdict]
    sentence: str


class Predicted(Answer):
    """The effect that a plan predicts. `load` is by node and resource, in fractions of allocatable."""

    gain: float
    load: Loads
    before: Numbers
    after: Numbers
    starts: Annotated[int | UnsetType, Meta(description="waiting pods this eviction makes room for")] = UNSET


class Measured(Answer):
    """The effect that was measured; empty until then."""

    load: Loads | UnsetType = UNSET
    before: Numbers | UnsetType = UNSET
    after: Numbers | UnsetType = UNSET
    started: Annotated[int | UnsetType, Meta(description="waiting pods that started")] = UNSET
    share: Annotated[float | UnsetType | None, Meta(description="measured effect / predicted effect")] = UNSET
    low: Annotated[float | UnsetType, Meta(description="lower bound of the share")] = UNSET
    high: Annotated[float | UnsetType, Meta(description="upper bound of the share")] = UNSET


class Eviction(Answer):
    """One eviction and its outcome."""

    pod: Annotated[str, NAMESPACED]
    uid: str
    workload: Annotated[str | None, Meta(description="namespace/kind/name")]
    source: str = field(name="from")
    to: Annotated[str | None, Meta(description="the node its replacement is steered to; null where it is not steered")]
    time: float
    kind: str
    plan: Annotated[str, Meta(description="id of its plan")]
    status: EvictionStatus
    landed_on: str | None
    ready_at: Annotated[float | None, UNIX]
    predicted: Predicted
    measured: Measured
    why: str | None


class HeldRoom(Answer):
    """Room on a node that is held for a pod: cores of cpu, bytes of memory."""

    node: str
    for_: Annotated[str, Meta(description="the pod, namespace/name")] = field(name="for")
    kind: str
    until: Annotated[float | None, UNIX]
    cpu: float
    memory: float


class Evictions(Answer):
    """Recent evictions, and the room that is held for pods."""

    mode: str | None
    paused: Annotated[str | None, Meta(description="why nothing is evicted now")]
    limits: Annotated[Limits, Meta(description="as in the settings; empty before the first cycle")]
    breaker: Annotated[str | None, Meta(description="why evictions have stopped")]
    recent: Annotated[Sequence[Eviction], Meta(description="newest first")]
    reservations: Sequence[HeldRoom]
