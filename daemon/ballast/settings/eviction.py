"""When pods may be moved, and how many."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from ballast.settings.part import Mode, ModeSetting, Positive, SettingsPart
from ballast.settings.values.collection import as_list
from ballast.settings.values.count import Count, Rate
from ballast.settings.values.duration import Duration
from ballast.settings.values.fraction import Load, Share
from ballast.settings.values.selector import selector

Planner = Literal["relieve", "rebalance", "redistribute"]


class EvictionSettings(SettingsPart):
    mode: ModeSetting = Mode.DRY_RUN
    """Whether pods are evicted."""

    planners: Annotated[tuple[Planner, ...], BeforeValidator(as_list)] = ("relieve", "rebalance", "redistribute")
    """What plans are made."""

    interval: Annotated[Duration, Positive] = Duration("60s")
    """Time between two plans."""

    confirmations: Annotated[int, Field(ge=1)] = 3
    """Windows in a row that must show a node too loaded."""

    max_moves: Count = Count.parse("1%")
    """Moves in one plan, as a count or a share of all pods."""

    min_gain: Share = 0.0
    """Gain below which a move is not worth it."""

    high: Load = 0.8
    """Load above which a node is relieved."""

    low: Load = 0.6
    """Load at which relieving stops."""

    deviation: Load | None = None
    """Load above the mean of its pool from which a node is relieved, until half of it is left; instead of high and
    low."""

    target_high: Load = 0.7
    """Load a target may be predicted to reach."""

    limit_total: Count = Count(5)
    """Evictions in one cycle."""

    limit_node: Count = Count(1)
    """Evictions from one node in one cycle."""

    limit_namespace: Count = Count(2)
    """Evictions from one namespace in one cycle."""

    limit_workload: Count = Count.parse("10%")
    """Evictions from one workload within workload_window."""

    workload_window: Duration = Duration("30m")
    """Time over which limit_workload counts."""

    rate: Annotated[
        tuple[Rate, ...], BeforeValidator(as_list), WithJsonSchema({"type": ["string", "integer", "array"]})
    ] = (Rate.parse("20/1h"), Rate.parse("1%/1d"))
    """Evictions over time, each as a count or a share of all pods; without a duration it is per hour."""

    cooldown: Duration = Duration("10m")
    """Rest of a node after an eviction from it."""

    min_pod_age: Duration = Duration("10m")
    """Younger pods are left alone."""

    min_node_age: Duration = Duration("5m")
    """Younger nodes are left alone."""

    quiet_after_scale: Duration = Duration("5m")
    """Workloads whose replicas changed this recently are left alone."""

    max_unavailable: Count = Count.parse("10%")
    """Missing, unready and leaving replicas of a workload."""

    min_replicas: Annotated[int, Field(ge=0)] = 2
    """Workloads with fewer replicas are left alone."""

    priority_below: int | None = None
    """Only pods with a lower priority are moved; unset: any."""

    pvc: Literal["allow", "refuse"] = "allow"
    """Whether pods with volume claims are moved."""

    resource_claims: Literal["allow", "refuse"] = "allow"
    """Whether pods with resource claims are moved."""

    without_pdb: Literal["allow", "refuse"] = "allow"
    """Whether pods that no disruption budget covers are moved."""

    pod_selector: Annotated[str, AfterValidator(selector)] | None = None
    """Only pods with these labels are moved; unset: any."""

    namespaces: Annotated[tuple[str, ...], BeforeValidator(as_list)] = ()
    """Only pods of these namespaces are moved; empty: of any."""

    exclude_namespaces: Annotated[tuple[str, ...], BeforeValidator(as_list)] = ()
    """Pods of these namespaces are left alone."""

    grace_period: Duration | None = None
    """Time an evicted pod has to end; unset: its own."""

    ready_within: Annotated[Duration, Positive] = Duration("5m")
    """Time a replacement may take to become Ready; later, its planner stops for an hour."""

    nominate: bool = False
    """Whether pods that room is made for are nominated to its node, which needs the right to patch pods/status."""

    kappa: Annotated[float, Field(ge=0)] = 0.5
    """Redistribution: residual that may be lost per pod that starts."""
