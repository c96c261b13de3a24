"""The answers of `/api/v1` beside those of evictions: times are Unix seconds, what is not known is null, never 0.

The handlers encode these objects, and `openapi.json` is generated from them.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

NAMESPACED = Meta(description="namespace/name")
UNIX = Meta(description="Unix time")

Loads = Mapping[str, Mapping[str, float]]
"""{node: {resource: load or change of load}}, fractions of allocatable."""

Numbers = Mapping[str, float | None]
"""By name; None where a number is not known."""


class Answer(Struct, forbid_unknown_fields=True):
    """An object with these keys and no others."""


HISTORY_POINTS = 2_880
"""Points of one power policy, the newest: a day at one each 30 s."""

TARGET_POINTS = 50
"""Changes of one target's replicas that are kept."""

FALLS_KEPT = 100
"""Falls of one power policy, the newest."""

ACTIONS_KEPT = 100
"""Actions of one power policy, the newest."""

State = Literal["known", "young", "down", "unmeasured", "silent", "disputed"]


class StatusCondition(Struct, frozen=True, rename="camel"):
    """`status` is "True" or "False"; `last_transition_time` (RFC 3339) is when that last changed."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str


class Trouble(Struct, frozen=True, forbid_unknown_fields=True):
    """A condition that holds and should not, or does not hold and should."""

    type: str
    title: Annotated[str, Meta(description="what is wrong, in a few words")]
    message: str
    since: Annotated[str, Meta(description="RFC 3339; empty where unknown")]
    do: Annotated[str, Meta(description="the first thing to try, in Markdown; links are those of docs/runbooks")]
    mild: Annotated[bool, Meta(description="tuning: worth knowing, but nothing is wrong")]
    runbook: Annotated[str | None, Meta(description="address of its page in the documentation")]
    rank: Annotated[
        Literal["outage", "partial", "tuning"],
        Meta(description="nothing works, a part of Ballast or of the cluster does not, or it could work better"),
    ]


class Wrong(Answer):
    """One thing that is wrong now, as page and `ballast status` tell it."""

    type: str
    rank: Literal["outage", "partial", "tuning"]
    title: Annotated[str, Meta(description="what is wrong, in a few words")]
    cause: Annotated[str, Meta(description="one sentence, as the condition says it now")]
    since: Annotated[float | None, Meta(description="Unix seconds; null where unknown")]
    tense: Annotated[
        Literal["begins", "holds", "recovering"], Meta(description="begins: within the last two cycles of telemetry")
    ]
    next: Annotated[str, Meta(description="the first thing to try, in plain text")]


class Headline(Answer):
    """How it stands, in one word."""

    word: Annotated[str, Meta(description="such as All well, 2 hot, Blind, Paused, Standby")]
    kind: Literal["ok", "warn", "bad"]
    since: Annotated[float | None, Meta(description="Unix seconds; null where unknown")] = None


class Error(Answer):
    """Why a request failed."""

    error: str


class CycleRecord(Answer):
    """One run of one job: `started` in Unix seconds, the `seconds` it took, and its result in one sentence."""

    job: str
    started: float
    seconds: float
    ok: bool
    sentence: str


class Published(Answer):
    """The labels that a node carries; null for a label it does not have."""

    score: str | None
    load: str | None


class NodeSummary(Answer):
    """What is the same over every window of a node."""

    name: str
    pool: Annotated[str | None, Meta(description="null where there are no pools")]
    state: Annotated[State, Meta(description="why it is not known, if it is not: see docs/telemetry.md")]
    lost: Annotated[Sequence[str], Meta(description="the resources that a silent node has no window of any more")]
    missing: Annotated[Sequence[str], Meta(description="the resources that an unmeasured node needs and never had")]
    starved: Annotated[bool, Meta(description="known, but it waits for its hypervisor, its disks or its memory")]
    score: Annotated[int, Meta(ge=0, le=100, description="null while unknown")] | None
    class_: Annotated[str | None, Meta(description="low, normal or high; null while unknown")] = field(name="class")
    schedulable: Annotated[bool, Meta(description="ready and not cordoned")]
    matched_by: Annotated[
        str | None,
        Meta(description="by what its series are its own: name, label, address, provider-id, target or short-name"),
    ]
    guessed: Annotated[bool, Meta(description="by a short host name that nothing confirms")]
    published: Published


class Load(Answer):
    """One resource of one node over one window, as fractions of allocatable."""

    mean: float | None
    std: float | None
    p95: float | None


class Node(NodeSummary):
    """A node over one window."""

    newest: Annotated[float | None, Meta(description="Unix time of the newest sample")]
    load: Annotated[Mapping[str, Load | None], Meta(description="by resource; null where the window is not known")]


class Nodes(Answer):
    """All nodes over one window."""

    time: float
    window: str
    resources: Sequence[str]
    nodes: Sequence[Node]


class Statistics(Load):
    """A load, and how many samples it rests on. `coverage` is the sampled share of the window."""

    known: bool
    samples: int
    coverage: float | None


class NodeDetail(NodeSummary):
    """A node over every window."""

    time: float
    windows: Annotated[
        Mapping[str, Mapping[str, Statistics]], Meta(description="by length of the window, then by resource")
    ]
    newest: Annotated[Numbers, Meta(description="Unix time of the newest sample, by resource")]
    sources: Annotated[Mapping[str, str], Meta(description="where the samples come from, by resource")]
    capacity: Mapping[str, float]
    allocatable: Mapping[str, float]


class Scores(Answer):
    """What one strategy makes of every node for one pod."""

    strategy: str
    scores: Annotated[Mapping[str, int], Meta(description="0..100 by node")]
    raw: Annotated[Numbers, Meta(description="the strategy's own figure, by node")]
    terms: Annotated[Mapping[str, Numbers], Meta(description="the terms of each score, by node")]
    unknown: Annotated[Sequence[str], Meta(description="nodes that the strategy cannot judge")]


class PodScores(Answer):
    """The scores of every node for one pod."""

    pod: Annotated[str, NAMESPACED]
    node: Annotated[str | None, Meta(description="the node it is bound to, where its load is counted")]
    decided: Annotated[str | None, Meta(description="the node the extender chose, until its binding shows")]
    time: Annotated[float | None, Meta(description="Unix time at which the windows end")]
    neutral: Annotated[str | None, Meta(description="why the extender would now give all nodes the same score")]
    strategies: Annotated[Sequence[Scores], Meta(description="the strategy of the extender, then those it blends")]
    strategy: Annotated[str, Meta(description="that of BALLAST_EXTENDER__STRATEGY")]
    scores: Annotated[Mapping[str, int], Meta(description="0..100 by node, by this strategy")]
    unknown: Annotated[Sequence[str], Meta(description="nodes that this strategy cannot judge")]


class Setting(Answer):
    """One setting, masked where it is secret."""

    name: str
    value: Any
    origin: str | None


class SnapshotSummary(Answer):
    """How old the data is, and how much of the cluster it covers."""

    time: float
    age: Annotated[float, Meta(description="seconds")]
    windows: Sequence[str]
    nodes: int
    known: int
    young: int
    down: int
    unmeasured: int
    silent: int
    disputed: int
    sources: Annotated[Mapping[str, str], Meta(description="where the samples come from, by resource")]


class Status(Answer):
    """The daemon at a glance."""

    version: str
    time: float
    leader: bool
    ready: bool
    frozen: bool
    current: Annotated[bool, Meta(description="false before the first cycle and after cycles stopped: the data is old")]
    modes: Annotated[Mapping[str, str | None], Meta(description="off, dry-run or on, by part")]
    planners: Annotated[Mapping[str, str], Meta(description="dry-run or on, by planner of evictions that runs")]
    paused: Annotated[Mapping[str, str | None], Meta(description="why nothing is written now, by part")]
    interval: Any
    snapshot: SnapshotSummary | None
    jobs: Annotated[Sequence[CycleRecord], Meta(description="the last run of each job")]
    conditions: Sequence[StatusCondition]
    troubles: Annotated[Sequence[Trouble], Meta(description="what is wrong now: causes first, tuning last")]
    wrong: Annotated[Sequence[Wrong], Meta(description="the same, as it is told")]
    headline: Headline = field(default_factory=lambda: Headline("No data yet", "warn"))


class Feed(Answer):
    """Where a policy reads its watts, and the last reading."""

    semantics: str
    watts: Annotated[float | None, Meta(description="null where the last sample is missing or invalid")]
    time: Annotated[float | None, Meta(description="Unix time of the last valid sample")]
    problem: str | None
    bound: Annotated[float | None, Meta(description="watts that the schedule allows now; null without one")]
    consumed: Annotated[float | None, Meta(description="watts that the replicas draw, measured; null where unknown")]


class OpenWindow(Answer):
    """The confirmation window of a change of power that has not ended yet."""

    since: Annotated[float, UNIX]
    length: Annotated[float, Meta(description="seconds")]


class LearnedWatts(Answer):
    """Watts of one replica, as the measured consumption tells."""

    value: float
    error: Annotated[float, Meta(description="standard error")]


class TargetNeeds(Answer):
    """Replicas for a workload's own load."""

    least: Annotated[int, Meta(description="taken away last")]
    most: Annotated[int | None, Meta(description="no more are added; null: any number")]


class EnergyUse(Answer):
    """A budget of energy."""

    kwh: float
    used_kwh: float
    ends_in: Annotated[float, Meta(description="seconds left of this period")]


class Target(Answer):
    """A workload that a power policy scales."""

    ref: Annotated[str, NAMESPACED]
    kind: str
    actuator: Annotated[str | None, Meta(description="how its replicas are changed, or observe")]
    replicas: Annotated[int | None, Meta(description="as the actuator counts them; null where it cannot be read")]
    potential: Annotated[int | None, Meta(description="the replicas it would have, in dry-run")]
    min: int | None
    max: int | None
    original: Annotated[int | None, Meta(description="the autoscaler's maximum before Ballast lowered it")]
    priority: Annotated[int, Meta(description="lower ones give first and get back last")]
    rolling: Annotated[bool, Meta(description="a rollout is under way")]
    watts: LearnedWatts | None
    needs: Annotated[TargetNeeds | None, Meta(description="what it needs for its own load; null where nothing tells")]
    history: Annotated[
        Sequence[tuple[float, int]],
        Meta(description=f"oldest first, at most {TARGET_POINTS}: [Unix time, replicas] whenever they changed"),
    ]
    excluded: Annotated[str | None, Meta(description="why it is left alone")]
    problem: Annotated[str | None, Meta(description="why it is not changed, or only in one direction")]


class PowerAction(Answer):
    """One change of replicas."""

    time: float
    reason: str
    changes: Annotated[
        Mapping[str, int], Meta(description="replicas added, below 0 those removed, by namespace/name of the target")
    ]
    replicas: Annotated[Mapping[str, int], Meta(description="afterwards, by namespace/name of the target")]
    result: str


class PowerFall(Answer):
    """One fall of what a policy may draw, and what became of it."""

    id: str
    begin: float
    end: Annotated[
        float | None, Meta(description="as much as before was allowed again, or the next fall began; null: not yet")
    ]
    allowed: Annotated[float, Meta(description="watts from its begin on: the least of feed, schedule and energy")]
    before: Annotated[float, Meta(description="watts allowed before")]
    drawn: Annotated[float, Meta(description="watts drawn, as last known")]
    seconds_to_comply: Annotated[float | None, Meta(description="until no more was drawn than allowed; null: not yet")]
    over_watt_hours: Annotated[float, Meta(description="drawn above what was allowed")]
    source: Literal["meter", "model"]


class RiseWindow(Answer):
    """What a window for rises would have cost lately, with `increase: auto`."""

    window: Annotated[float, Meta(description="seconds")]
    actions_per_day: float
    unused_share: Annotated[
        float, Meta(description="of the feed's energy: not drawn, or drawn before a replica serves")
    ]
    chosen: bool


Point = tuple[float, float | None, float | None, float | None, float | None, int | None, str]
"""Unix time, watts, reference, low and high end of the dead band (watts), replicas, state."""

Draw = tuple[float, float | None, float | None, float | None, int]
"""Unix time, watts of what runs, watts measured, watts above the feed, unmet demand."""

PolicyState = Literal["STABLE", "PENDING_INCREASE", "PENDING_DECREASE"]


class PowerPledge(Answer):
    """What could be shed within a time, down to the minima."""

    within: Literal["10s", "1m", "10m"]
    watts: float
    by_priority: Annotated[Mapping[str, float], Meta(description="watts by priority; lower ones give first")]
    rests_on: Literal["meter", "declared"]


class Policy(Answer):
    """One power policy: its feed, its state and its targets."""

    name: str
    feed: Feed
    state: Annotated[PolicyState | None, Meta(description="null before it has started")]
    reference: Annotated[
        float | None, Meta(description="watts that the present replicas stand for; null before the first window ends")
    ]
    deadband: Annotated[tuple[float, float] | None, Meta(description="[low, high] watts")]
    window: OpenWindow | None
    waiting_for: Annotated[str | None, Meta(description="one sentence")]
    unmet: Annotated[float, Meta(description="replicas that no target can add or remove")]
    budget: Literal["absolute", "anchor"]
    load: Annotated[float | None, Meta(description="watts of what runs; null where they are not declared")]
    over: Annotated[float | None, Meta(description="watts above the feed; null while it is kept")]
    unmet_demand: Annotated[int, Meta(description="replicas that autoscalers want beyond their caps")]
    shadow: Annotated[bool, Meta(description="dry-run: the replicas are those that would run")]
    missing_effect: Annotated[str | None, Meta(description="the action whose measured effect did not come")]
    energy: EnergyUse | None
    schedule: Annotated[Sequence[tuple[float, float]], Meta(description="[Unix time, watts] of the next day")]
    schedule_problem: Annotated[str | None, Meta(description="why the schedule could not be read again")]
    targets: Sequence[Target]
    history: Annotated[
        Sequence[Point],
        Meta(
            description=f"oldest first, at most {HISTORY_POINTS}: "
            "[Unix time, watts, reference, low, high, replicas, state]"
        ),
    ]
    draws: Annotated[
        Sequence[Draw],
        Meta(
            description=f"oldest first, at most {HISTORY_POINTS}: "
            "[Unix time, watts of what runs, watts measured, watts above the feed, unmet demand]"
        ),
    ]
    actions: Annotated[Sequence[PowerAction], Meta(description=f"newest first, at most {ACTIONS_KEPT}")]
    falls: Annotated[Sequence[PowerFall], Meta(description=f"newest first, at most {FALLS_KEPT}")]
    increase: Annotated[
        Sequence[RiseWindow], Meta(description="with increase: auto the windows it compares, once it knows the feed")
    ]
    pledge: Annotated[
        Sequence[PowerPledge], Meta(description="what could be shed now; empty where watts are not known")
    ]


class Power(Answer):
    """Every power policy, and the conditions of the daemon."""

    mode: str | None
    paused: Annotated[str | None, Meta(description="why nothing is written now")]
    policies: Sequence[Policy]
    conditions: Sequence[StatusCondition]
