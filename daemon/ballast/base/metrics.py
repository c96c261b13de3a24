"""The counters and gauges the parts keep about themselves. Per-node families come from the snapshot, in `serving`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ANSWER_BUCKETS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)


class Metrics:
    """Everything that is counted while Ballast runs; names are part of the public interface."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.samples_rejected = Counter(
            "ballast_samples_rejected", "Samples that did not enter a window.", ["reason"], registry=registry
        )
        self.queries = Counter(
            "ballast_queries", "Queries to telemetry sources.", ["resource", "result"], registry=registry
        )
        self.query_warnings = Counter(
            "ballast_query_warnings", "Warnings in answers, such as partial responses.", ["source"], registry=registry
        )
        self.reads = Counter(
            "ballast_reads", "Read requests to the Kubernetes API.", ["verb", "result"], registry=registry
        )
        self.writes = Counter(
            "ballast_writes",
            "Writes by kind and outcome, refused and dry ones too.",
            ["kind", "result"],
            registry=registry,
        )
        self.watch_restarts = Counter(
            "ballast_watch_restarts", "Watches that ended and began again.", ["kind", "reason"], registry=registry
        )
        self.cycle_seconds = Histogram(
            "ballast_cycle_seconds", "Duration of one cycle.", ["cycle"], buckets=_BUCKETS, registry=registry
        )
        self.cycles = Counter("ballast_cycles", "Cycles by outcome.", ["cycle", "result"], registry=registry)
        self.cycle_succeeded = Gauge(
            "ballast_cycle_last_success_timestamp_seconds",
            "Unix time at which a cycle last ended without an error.",
            ["cycle"],
            registry=registry,
        )
        self.cycles_missed = Counter(
            "ballast_cycles_missed",
            "Cycles that could not start in time, or were still running.",
            ["cycle", "reason"],
            registry=registry,
        )
        self.condition = Gauge("ballast_condition", "Conditions that hold now.", ["type"], registry=registry)
        self.leader = Gauge("ballast_leader", "1 while this replica holds the Lease.", registry=registry)
        self.http_refused = Counter(
            "ballast_http_refused",
            "HTTP requests refused for their size: headers, or requests before an answer (431), a body (413), a field "
            "(400), all bodies together (503); for who asks (401, 403, 421 for a browser); for how often (429).",
            ["code"],
            registry=registry,
        )
        for code in ("400", "401", "403", "413", "421", "429", "431", "503"):
            self.http_refused.labels(code)
        self.extender_requests = Counter(
            "ballast_extender_requests",
            "Requests of schedulers by verb and result: answered, neutral or refused.",
            ["verb", "result"],
            registry=registry,
        )
        self.extender_neutral = Counter(
            "ballast_extender_neutral",
            "Answers in which all nodes are equal for want of knowledge, by reason.",
            ["reason"],
            registry=registry,
        )
        self.extender_seconds = Histogram(
            "ballast_extender_seconds",
            "Time from a scheduler's request to the answer to it.",
            ["verb"],
            buckets=_ANSWER_BUCKETS,
            registry=registry,
        )
        self.extender_rejections = Counter(
            "ballast_extender_rejections", "Nodes filtered out, by reason.", ["reason"], registry=registry
        )
        self.extender_decisions = Counter(
            "ballast_extender_decisions",
            "Decisions that were assumed, and what became of them.",
            ["outcome"],
            registry=registry,
        )
        self.extender_assumed = Gauge(
            "ballast_extender_assumed", "Decisions that count now and that no watch has shown yet.", registry=registry
        )
        self.extender_reserved = Gauge(
            "ballast_extender_reserved", "Reservations of room for pods that are about to come.", registry=registry
        )
        self.batch_gated = Gauge(
            "ballast_batch_gated_pods", "Pods that the scheduling gate of Ballast holds now.", registry=registry
        )
        self.batch_pods = Counter(
            "ballast_batch_pods",
            "What became of pods whose gate was removed: planned (bound where it was planned), elsewhere, refused (no "
            "node for the scheduler), late, gone, no-room (in no plan), unplanned (the plan was given up).",
            ["result"],
            registry=registry,
        )
        self.evictions = Counter(
            "ballast_evictions",
            "Steps of plans by planner and outcome: evicted, refused, budget, failed, unknown or dry-run.",
            ["planner", "result"],
            registry=registry,
        )
        self.eviction_effects = Counter(
            "ballast_eviction_effects",
            "What came of evictions: landed, elsewhere, returned, ready, late; of plans: effective, without-effect.",
            ["planner", "result"],
            registry=registry,
        )
        self.eviction_verdicts = Counter(
            "ballast_eviction_verdicts",
            "Pods that a check of the gate refused, or let pass on the way to an eviction.",
            ["check", "verdict"],
            registry=registry,
        )
        self.eviction_plans = Counter(
            "ballast_eviction_plans",
            "Plans by kind and whether they have steps.",
            ["kind", "result"],
            registry=registry,
        )
        self.planning_seconds = Histogram(
            "ballast_planning_seconds", "Time the worker took.", buckets=_BUCKETS, registry=registry
        )
        self.planning_memory = Gauge(
            "ballast_planning_memory_bytes", "The most memory the worker had.", registry=registry
        )
