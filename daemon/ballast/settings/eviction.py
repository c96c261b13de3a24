"""The part `eviction` of the settings."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from ballast.settings.eviction_budgets import WrittenBudget
from ballast.settings.eviction_tidy import TidySetting
from ballast.settings.eviction_windows import EvictionWindow
from ballast.settings.fractions import Load, LoadLimit, Share, Shares
from ballast.settings.lists import TEXT_OR_MAP, ListOf, as_map
from ballast.settings.names import selector
from ballast.settings.part import Expert, Mode, ModeSetting, Positive, SettingsPart
from ballast.settings.written import Count, Duration, Rate


def _planner(name: str) -> str:
    from ballast.planners.built_in import planners  # numpy is slow to import

    names = [planner.name for planner in planners()]
    if name not in names:
        raise ValueError(f"expected planners out of {', '.join(names)}; {name!r} is not one of them")
    return name


def _of_planners(shares: Mapping[str, float]) -> Mapping[str, float]:
    for name in shares:
        _planner(name)
    return shares


_RANKS = list(Mode)


Planner = Annotated[str, AfterValidator(_planner)]
"""The name of a planner, built in or of another package."""


class EvictionSettings(SettingsPart):
    """When pods may be evicted, and how many."""

    mode: ModeSetting = Mode.DRY_RUN
    """Whether pods are evicted."""

    planners: ListOf[Planner] = ("relieve", "redistribute", "rebalance")
    """Planners that run."""

    modes: Expert[Annotated[Mapping[Planner, ModeSetting], BeforeValidator(as_map), WithJsonSchema(TEXT_OR_MAP)]] = {}
    """What single planners may do within mode, such as {"consolidate": "dry-run"}. A planner with dry-run or on runs
    beside those of planners; one with off does not run."""

    interval: Expert[Annotated[Duration, Positive]] = Duration("60s")
    """Time between two plans."""

    confirmations: Expert[Annotated[int, Field(ge=1)]] = 3
    """Consecutive windows that must show a node as overloaded before it is relieved."""

    max_moves: Expert[Count] = Count.parse("1%")
    """Maximum moves in one plan, as a count or a share of all pods."""

    min_gain: Expert[Share] = 0.0
    """Gain below which a move is not made."""

    high: LoadLimit = 0.8
    """Load above which a node is relieved: a number for cpu and memory, or a map such as {"cpu": 0.8, "disk": 0.9}."""

    low: LoadLimit = 0.6
    """Load at which relieving a node stops, as high."""

    deviation: Expert[Load | None] = None
    """Distance above the mean load of its pool from which a node is relieved, until half of that distance is left;
    replaces high and low."""

    target_high: LoadLimit = 0.7
    """Maximum predicted load of a target, as high; a resource that it lacks may reach its high."""

    limit_total: Expert[Count] = Count(5)
    """Maximum evictions in one cycle."""

    limit_node: Expert[Count] = Count(1)
    """Maximum evictions from one node in one cycle; relief of a node at 0.9 or above is not limited by it."""

    limit_namespace: Expert[Count] = Count(2)
    """Maximum evictions from one namespace in one cycle."""

    limit_workload: Expert[Count] = Count.parse("10%")
    """Maximum evictions from one workload within workload_window."""

    workload_window: Expert[Duration] = Duration("30m")
    """Time over which limit_workload counts evictions."""

    rate: Annotated[ListOf[Rate], WithJsonSchema({"type": ["string", "integer", "array"]})] = (
        Rate.parse("20/1h"),
        Rate.parse("1%/1d"),
    )
    """Maximum evictions over time, each as a count or a share of all pods; without a duration it is per hour. A share
    of few pods permits as many as the largest count here. A quarter may be used at once and comes back evenly. Relief
    of nodes at 0.9 or above and tidy count apart."""

    windows: Annotated[ListOf[EvictionWindow], WithJsonSchema({"type": ["string", "array"]})] = ()
    """Times at which evictions may happen, as a JSON list such as [{"allow": "0 22 * * mon-fri", "duration": "8h",
    "timezone": "Europe/Amsterdam", "planners": ["rebalance"]}]; deny instead of allow closes. Without planners it is
    for all of them. Empty: always."""

    budgets: Annotated[ListOf[WrittenBudget], WithJsonSchema({"type": ["string", "array"]})] = ()
    """How many evictions there may be, as a JSON list such as [{"pods": 20, "per": "1h"}, {"share": "10%",
    "per": "24h", "scope": "workload"}, {"nodes": 1, "per": "10m", "schedule": "0 8 * * mon-fri", "duration": "10h",
    "planners": ["rebalance"]}]. Each one holds; scope is cluster, node, workload or namespace. With any, rate,
    limit_total, limit_node, limit_namespace, limit_workload and cooldown hold only where they are set themselves."""

    rate_shares: Expert[Annotated[Shares, AfterValidator(_of_planners)]] = {"relieve": 0.5}
    """Share of each rate that only this planner may use, as long as it runs."""

    confidence: Expert[Annotated[float, Field(ge=0, allow_inf_nan=False)]] = 3.0
    """Standard errors by which the gain of a move must exceed zero, beside its price."""

    price: Expert[Annotated[float, Field(ge=0, allow_inf_nan=False)]] = 1.0
    """Price of an ordinary eviction: 1 is a fall of the sum of squared distances from the mean load by 0.001, such as
    moving a pod of 2% of a node to one that is 4.5 points less loaded; for relieve 0.1% of the node. 0: evictions are
    free."""

    cooldown: Expert[Duration] = Duration("10m")
    """Time after an eviction during which no other pod is evicted from the same node; relieve counts only its own."""

    min_pod_age: Expert[Duration] = Duration("10m")
    """Pods younger than this are left alone."""

    min_node_age: Expert[Duration] = Duration("5m")
    """Nodes younger than this are left alone."""

    quiet_after_scale: Expert[Duration] = Duration("5m")
    """Workloads whose replica count changed within this time are left alone."""

    max_unavailable: Count = Count.parse("10%")
    """Maximum missing, unready and terminating replicas of a workload."""

    min_replicas: Annotated[int, Field(ge=0)] = 2
    """Workloads with fewer replicas are left alone."""

    priority_below: Expert[int | None] = None
    """Only pods with a lower priority are evicted; unset: any."""

    pvc: Expert[Literal["allow", "refuse"]] = "allow"
    """Whether pods with volume claims are evicted."""

    exclude_storage_classes: Expert[ListOf[str]] = ()
    """StorageClasses: pods with a volume claim of one of these, or of a class that is not known, are left alone."""

    local_storage: Expert[Literal["refuse", "scratch", "memory", "allow"]] = "scratch"
    """Whether pods with emptyDir volumes are evicted: scratch permits those of pods that a ReplicaSet makes, memory
    those in memory, allow all of them."""

    resource_claims: Expert[Literal["allow", "refuse"]] = "refuse"
    """Whether pods with resource claims are evicted."""

    jobs: Expert[Literal["allow", "refuse"]] = "refuse"
    """Whether pods that run to an end are evicted."""

    gangs: Expert[Literal["allow", "refuse"]] = "refuse"
    """Whether pods of a group that is started together are evicted."""

    without_pdb: Expert[Literal["allow", "refuse"]] = "allow"
    """Whether pods without a PodDisruptionBudget are evicted."""

    pod_selector: Annotated[str, AfterValidator(selector)] | None = None
    """Label selector of the pods that may be evicted; unset: all."""

    namespaces: ListOf[str] = ()
    """Namespaces whose pods may be evicted; empty: all."""

    exclude_namespaces: ListOf[str] = ()
    """Namespaces whose pods are left alone."""

    namespace_selector: Expert[Annotated[str, AfterValidator(selector)] | None] = None
    """Label selector of the namespaces whose pods may be evicted; unset: all."""

    operator_only: Expert[ListOf[Literal["exclude", "exclude-until", "evict", "evict-lifts"]]] = ()
    """Annotations of Ballast that count on namespaces alone, not on pods and workloads, which tenants may change."""

    grace_period: Expert[Duration | None] = None
    """Termination grace period of an evicted pod; unset: the pod's own."""

    ready_within: Expert[Annotated[Duration, Positive]] = Duration("5m")
    """Time a replacement may take to become Ready, longer where its workload's progressDeadlineSeconds, its startup
    probes or three times its measured restarts are; if it takes longer, its workload is left alone for an hour."""

    nominate: Expert[bool] = False
    """Whether a pod that room is made for is nominated to that node; needs the right to patch pods/status."""

    wait_for: Expert[Duration] = Duration("2m")
    """Time that a pod has to wait before room is made for it."""

    landing: Literal["extender", "taint", "none"] = "extender"
    """What decides where replacements go. extender: Ballast, which schedulers ask. taint: the node of an evicted pod is
    tainted PreferNoSchedule until the replacement is bound. none: nothing, so only nodes at 0.9 are relieved."""

    single: Expert[Literal["refuse", "restart"]] = "refuse"
    """Whether the only pod of a Deployment is moved by a rollout restart, which takes it once another is Ready."""

    surge: Expert[bool] = False
    """Whether pods of Deployments are moved by one more replica that becomes Ready first."""

    tidy: Expert[TidySetting | None] = None
    """What the planner tidy removes, as JSON such as {"failed": {"minAge": "1h"}, "lifetime": {"maxAge": "7d",
    "selector": "app=web"}, "restarts": {"threshold": 100}}; unset: nothing."""

    nodes_reserve: Expert[Annotated[int, Field(ge=0)]] = 1
    """Nodes that may be lost at any time after consolidate has emptied others: the rest still holds all pods."""

    consolidate_nodes: Expert[Annotated[int, Field(ge=0)]] = 1
    """Nodes that consolidate empties at a time; max_moves does not limit it."""

    kappa: Expert[Annotated[float, Field(ge=0)]] = 0.5
    """Decides nothing any more."""

    def mode_of(self, planner: str) -> Mode:
        """What a planner may do: no more than `mode`."""
        wished = self.modes.get(planner, self.mode if planner in self.planners else Mode.OFF)
        return min(wished, self.mode, key=_RANKS.index)

    @property
    def running(self) -> Mapping[str, Mode]:
        """The planners that run while `mode` is not off, with what each may do."""
        named = dict.fromkeys((*self.planners, *self.modes))
        return {name: self.mode_of(name) for name in named if self.modes.get(name) is not Mode.OFF}

    @property
    def acting(self) -> frozenset[str]:
        """The planners whose evictions are sent."""
        return frozenset(name for name, mode in self.running.items() if mode is Mode.ON)

    @property
    def imagining(self) -> frozenset[str]:
        """The planners whose evictions are planned and not sent."""
        return frozenset(name for name, mode in self.running.items() if mode is Mode.DRY_RUN)

    def beside(self, planner: str) -> frozenset[str]:
        """The planners that `planner` counts on: those that run, but not those in dry-run where it acts itself."""
        return self.acting if planner in self.acting else frozenset(self.running)
