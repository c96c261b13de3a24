"""The answers of `/api/v1` that the page is made of, beside those of `api`. What is not known is null, never 0."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, field

from ballast.answers.api import NAMESPACED, UNIX, Answer, Numbers
from ballast.answers.ledger_answer import DryRunEffect
from ballast.base.text import pods


class FleetNames(Answer):
    """All nodes in columns: what hardly ever changes. `pool` and `zone` are places in `pools` and `zones`, by node."""

    roster: Annotated[str, Meta(description="names this order of nodes; columns of one roster belong together")]
    names: Sequence[str]
    pools: Sequence[str]
    pool: Sequence[int]
    zones: Annotated[Sequence[str], Meta(description="of label topology.kubernetes.io/zone")]
    zone: Sequence[int]


class FleetLoads(Answer):
    """All nodes in columns, in the order of `roster`: what changes with every snapshot."""

    roster: str
    time: float
    window: str
    resources: Sequence[str]
    load: Annotated[
        Mapping[str, Sequence[int | None]],
        Meta(description="by resource, in thousandths of allocatable, null while unknown"),
    ]
    score: Sequence[int | None]
    state: Annotated[Sequence[int], Meta(description="0 known, 1 young, 2 down, 3 unmeasured, 4 silent, 5 disputed")]
    class_: Annotated[Sequence[int | None], Meta(description="0 low, 1 normal, 2 high")] = field(name="class")
    published: Annotated[Sequence[int | None], Meta(description="the label score that the node carries")]
    schedulable: Annotated[Sequence[int], Meta(description="1 ready and not cordoned, else 0")]


class SpreadHistory(Answer):
    """The last 24 hours of the cluster in steps of five minutes, as far as this replica has seen them."""

    step: float
    times: Annotated[Sequence[float], Meta(description="when each step began, oldest first")]
    spread: Annotated[
        Mapping[str, Sequence[float | None]], Meta(description="standard deviation of the load between nodes")
    ]
    hot: Annotated[Sequence[int], Meta(description="nodes at or above BALLAST_PUBLISHING__HIGH")]


class NodeScore(Answer):
    """The score of one node as it is published, and what it is made of."""

    node: str
    strategy: str
    score: int | None
    terms: Annotated[Mapping[str, float], Meta(description="by name; empty while unknown")]


class NodeHistory(Answer):
    """The last 24 hours of one node in means over five minutes, as far as this replica has seen them."""

    node: str
    step: float
    times: Annotated[Sequence[float], Meta(description="when each step began, oldest first")]
    load: Annotated[Mapping[str, Sequence[float | None]], Meta(description="in fractions of allocatable")]
    score: Sequence[float | None]


class PodOnNode(Answer):
    """A pod on a node, what it requests and what it uses: cores and bytes."""

    pod: Annotated[str, NAMESPACED]
    owner: Annotated[str | None, Meta(description="kind/name")]
    phase: str
    ready: bool
    created: Annotated[float, UNIX]
    requests: Mapping[str, float]
    usage: Annotated[Mapping[str, float] | None, Meta(description="null while it is not known")] = None


class FoundPod(Answer):
    """A pod that a search found."""

    pod: Annotated[str, NAMESPACED]
    node: str | None


class RefusalPrice(Answer):
    """What a check costs that alone keeps pods where they are, and the line that would free them."""

    pods: int
    load: Annotated[float, Meta(description="their shares of their nodes' most loaded resource, added up")]
    setting: Annotated[str, Meta(description="NAME=VALUE: a variable, or an annotation of the pods")]

    def keeps(self, check: str) -> str:
        """ "local-storage alone keeps 3 pods on hot nodes, 0.75 nodes' load"."""
        return f"{check} alone keeps {pods(self.pods)} on hot nodes, {self.load:.2f} nodes' load"


class CheckVerdict(Answer, omit_defaults=True):
    """What one check says about a pod; `numbers` are what it goes by."""

    number: int
    check: str
    verdict: Literal["allowed", "refused"]
    reason: str
    numbers: Mapping[str, int | float]
    price: Annotated[RefusalPrice | None, Meta(description="of a check that alone refuses it")] = None


class BestTarget(Answer):
    """The move that evens out most; gain, error and cost are in the measure of `rebalance`."""

    node: str
    gain: float
    gain_error: float
    cost: float
    pays: bool


class Targets(Answer):
    """Where a pod on a node could go."""

    feasible: int
    why_not: Annotated[Mapping[str, int], Meta(description="other nodes by the first reason against them")]
    best: BestTarget | None


class PendingPod(Answer):
    """Why no node takes a pod."""

    why_not: Annotated[Mapping[str, int], Meta(description="nodes by the first reason against them")]
    gated: Annotated[bool, Meta(description="whether a scheduling gate holds it")]


class Explanation(Answer):
    """Whether a pod may be moved, with all checks in their order."""

    pod: Annotated[str, NAMESPACED]
    node: str | None
    workload: Annotated[str | None, Meta(description="kind namespace/name")]
    allowed: bool
    checks: Sequence[CheckVerdict]
    notes: Sequence[str]
    targets: Targets | None = None
    pending: PendingPod | None = None


class Balance(Answer):
    """How evenly the load of one resource is spread over the known, schedulable nodes, in fractions."""

    now: Annotated[float | None, Meta(description="standard deviation between the nodes")]
    before: Annotated[float | None, Meta(description="the same at `since`")]
    mean: float | None
    highest: float | None
    threshold: Annotated[float | None, Meta(description="load from which a node is hot; null where there is none")]
    bars: Annotated[Sequence[int], Meta(description="nodes by load, in 20 bars of 5 %; the last has what is above too")]
    bars_before: Sequence[int]


class HotNode(Answer):
    """A node at or above the threshold, by the resource that is furthest above."""

    node: str
    resource: str
    load: float


class Today(Answer):
    """What was done since midnight (UTC)."""

    since: Annotated[float | None, Meta(description="Unix time of midnight; null where the ledger cannot be read")]
    hot_node_minutes: Annotated[float | None, Meta(description="as it was; null where it is not known")]
    hot_node_minutes_without: Annotated[float | None, Meta(description="as it would have been without the moves")]
    evictions: Annotated[
        Mapping[str, int], Meta(description="evicted, refused and failed, by the ledger; empty where it cannot be read")
    ]
    predicted: Annotated[float | None, Meta(description="load taken off nodes as predicted, where it was measured too")]
    measured: Annotated[float | None, Meta(description="load taken off the same nodes, as measured")]
    plans: Annotated[int, Meta(description="of the last 50 that this leader has made")]
    moves: Annotated[int, Meta(description="pods in these plans, which in dry-run would have moved")]
    replicas: Annotated[int, Meta(description="replicas that power policies of this leader added and removed")]
    would: Annotated[
        Mapping[str, DryRunEffect], Meta(description="what parts in dry-run would have brought, by `day` and `week`")
    ] = {}


class Obstacle(Answer):
    """What kept pods from being moved in the newest plan of each kind."""

    check: str
    pods: int
    kind: str
    plain: Annotated[str, Meta(description="the check in plain words")] = ""


class ShownMove(Answer):
    """A pod that was moved, or would be, from one node to another."""

    pod: Annotated[str, NAMESPACED]
    source: str | None = field(name="from")
    to: str | None
    time: Annotated[float, UNIX]


class NextPlan(Answer):
    """The newest plan with steps."""

    id: str
    kind: str
    mode: str
    time: Annotated[float, UNIX]
    steps: int
    first: Annotated[Sequence[ShownMove], Meta(description="at most 4 of its steps")]


class Overview(Answer):
    """Whether the cluster is balanced, what is hot, what was done about it, and what stands in the way."""

    time: float
    since: Annotated[float | None, Meta(description="the oldest time that is remembered, at most 24 hours ago")]
    balance: Annotated[Mapping[str, Balance], Meta(description="by resource")]
    hot: Annotated[int, Meta(description="nodes at or above BALLAST_PUBLISHING__HIGH")]
    hottest: Annotated[Sequence[HotNode], Meta(description="at most 5, the hottest first")]
    today: Today
    held: Annotated[str | None, Meta(description="why nothing is evicted now")]
    considered: Annotated[int, Meta(description="pods in the newest plans")]
    obstacles: Annotated[Sequence[Obstacle], Meta(description="the most frequent first")]
    doing: Annotated[str | None, Meta(description="what is under way, in words")]
    moves: Annotated[Sequence[ShownMove], Meta(description="evictions of the last minutes, at most 24, newest first")]
    plan: NextPlan | None


class PlanSummary(Answer):
    """One eviction plan, without its steps and verdicts."""

    id: str
    time: float
    mode: str
    kind: str
    before: Numbers
    after: Numbers
    moves: int
    refused: int
    sentence: str
