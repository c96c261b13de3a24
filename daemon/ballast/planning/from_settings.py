"""What the settings of evictions mean for the gate and the planners, of the daemon and of the command line."""

from datetime import UTC

from ballast.eviction.gate_rules import UNLIMITED, EvictionBudget, EvictionLimit, GateRules, LocalStorage
from ballast.eviction.time_windows import TimeWindow
from ballast.model.selector import parse
from ballast.planners.aims import Aims
from ballast.planners.tidy_rules import NOTHING
from ballast.scoring import dominant_residual
from ballast.settings import Count, Settings
from ballast.settings.eviction_budgets import WrittenBudget


def rules_of(settings: Settings, planner: str = "") -> GateRules:
    """Those that all planners share; `planner` decides whose shares of the rates count."""
    eviction = settings.eviction
    beside = eviction.beside(planner)
    # Budgets say what was said by limits, a rate and a rest: their defaults give way, what is set itself holds too.
    spoken = eviction.model_fields_set if eviction.budgets else frozenset(type(eviction).model_fields)

    def most(name: str) -> EvictionLimit:
        return limit(getattr(eviction, name)) if name in spoken else UNLIMITED

    return GateRules(
        prefix=settings.publishing.prefix,
        operator_only=frozenset(f"{settings.publishing.prefix}/{name}" for name in eviction.operator_only),
        limit_total=most("limit_total"),
        limit_node=most("limit_node"),
        limit_namespace=most("limit_namespace"),
        limit_workload=most("limit_workload"),
        workload_window=eviction.workload_window,
        rates=tuple((limit(rate.count), float(rate.per)) for rate in eviction.rate if "rate" in spoken),
        budgets=tuple(map(_budget, eviction.budgets)),
        windows=tuple(
            TimeWindow(window.denies, window.cron, window.duration, window.zone, frozenset(window.planners))
            for window in eviction.windows
        ),
        rate_shares={name: share for name, share in eviction.rate_shares.items() if name in beside},
        cooldown=eviction.cooldown if "cooldown" in spoken else 0.0,
        min_pod_age=eviction.min_pod_age,
        min_node_age=eviction.min_node_age,
        quiet_after_scale=eviction.quiet_after_scale,
        max_unavailable=limit(eviction.max_unavailable),
        min_replicas=eviction.min_replicas,
        confirmations=eviction.confirmations,
        surge=eviction.surge,
        restart=eviction.single == "restart",
        kept_off=eviction.landing == "taint",
        max_unknown=settings.publishing.max_unknown,
        priority_below=eviction.priority_below,
        refuse_volume_claims=eviction.pvc == "refuse",
        without_storage_classes=frozenset(eviction.exclude_storage_classes),
        grace_period=eviction.grace_period,
        local_storage=LocalStorage(eviction.local_storage),
        allow_jobs=eviction.jobs == "allow",
        allow_gangs=eviction.gangs == "allow",
        refuse_resource_claims=eviction.resource_claims == "refuse",
        needs_budget=eviction.without_pdb == "refuse",
        pod_selector=parse(eviction.pod_selector) if eviction.pod_selector else None,
        only_namespaces=frozenset(eviction.namespaces),
        without_namespaces=frozenset(eviction.exclude_namespaces),
        namespace_selector=parse(eviction.namespace_selector) if eviction.namespace_selector else None,
    )


def _budget(written: WrittenBudget) -> EvictionBudget:
    planners = frozenset(written.planners)
    window = None if written.cron is None else TimeWindow(False, written.cron, written.duration, UTC, planners)
    return EvictionBudget(
        limit(written.count), float(written.per), written.scope, written.of_nodes, window, planners, written.text
    )


def aims_of(settings: Settings, planner: str = "") -> Aims:
    """Without MAX_MOVES, which may be a share of the pods. Raises UsageError for keys of dominant-residual."""
    eviction = settings.eviction
    return Aims(
        high=eviction.high,
        low=eviction.low,
        target_high=eviction.target_high,
        deviation=eviction.deviation,
        min_gain=eviction.min_gain,
        wait_for=eviction.wait_for,
        confidence=eviction.confidence,
        price=eviction.price,
        nodes_reserve=eviction.nodes_reserve,
        consolidate_nodes=eviction.consolidate_nodes,
        packed="consolidate" in eviction.beside(planner),
        tidy=eviction.tidy.rules if eviction.tidy else NOTHING,
        criterion=dominant_residual.parse(settings.scoring.keys.get(dominant_residual.NAME, {})),
    )


def limit(count: Count) -> EvictionLimit:
    return EvictionLimit(count.number, count.percent)
