"""The counters and gauges the parts keep about themselves. Per-node families come from the snapshot, in `serving`."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ANSWER_BUCKETS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)


class Metrics:
    """Everything that is counted while Ballast runs; names are part of the public interface."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.samples_rejected = counter("ballast_samples_rejected", "Samples that did not enter a window.", ["reason"])
        self.queries = counter("ballast_queries", "Queries to telemetry sources.", ["resource", "result"])
        self.query_warnings = counter(
            "ballast_query_warnings", "Warnings in answers, such as partial responses.", ["source"]
        )
        self.reads = counter("ballast_reads", "Read requests to the Kubernetes API.", ["verb", "result"])
        self.writes = counter(
            "ballast_writes", "Writes by kind and outcome, refused and dry ones too.", ["kind", "result"]
        )
        self.watch_restarts = counter(
            "ballast_watch_restarts", "Watches that ended and began again.", ["kind", "reason"]
        )
        self.cycle_seconds = histogram("ballast_cycle_seconds", "Duration of one cycle.", ["cycle"], buckets=_BUCKETS)
        self.cycles = counter("ballast_cycles", "Cycles by outcome.", ["cycle", "result"])
        self.cycle_succeeded = gauge(
            "ballast_cycle_last_success_timestamp_seconds",
            "Unix time at which a cycle last ended without an error.",
            ["cycle"],
        )
        self.cycles_missed = counter(
            "ballast_cycles_missed", "Cycles that could not start in time, or were still running.", ["cycle", "reason"]
        )
        self.condition = gauge("ballast_condition", "Conditions that hold now.", ["type"])
        self.leader = gauge("ballast_leader", "1 while this replica holds the Lease.")
        self.http_refused = counter(
            "ballast_http_refused",
            "HTTP requests refused: no HTTP, or a field that is too large (400); for their size: headers, or requests "
            "before an answer (431), a body (413), all bodies together (503); for who asks (401, 403, 421 for a "
            "browser); for how often (429); for what they ask for (404, 405, 415). `port` is page, health or "
            "extender.",
            ["code", "port"],
        )
        for code in ("400", "401", "403", "413", "421", "429", "431", "503"):
            self.http_refused.labels(code, "page")
        self.log_dropped = counter(
            "ballast_log_lines_dropped", "Lines of the log that were dropped because nobody took them."
        )
        self.extender_requests = counter(
            "ballast_extender_requests",
            "Requests of schedulers by verb and result: answered, neutral or refused.",
            ["verb", "result"],
        )
        self.extender_neutral = counter(
            "ballast_extender_neutral",
            "Answers in which all nodes are equal for want of knowledge, by reason.",
            ["reason"],
        )
        self.extender_seconds = histogram(
            "ballast_extender_seconds",
            "Time from a scheduler's request to the answer to it.",
            ["verb"],
            buckets=_ANSWER_BUCKETS,
        )
        self.extender_rejections = counter("ballast_extender_rejections", "Nodes filtered out, by reason.", ["reason"])
        self.extender_decisions = counter(
            "ballast_extender_decisions", "Decisions that were assumed, and what became of them.", ["outcome"]
        )
        self.extender_assumed = gauge(
            "ballast_extender_assumed", "Decisions that count now and that no watch has shown yet."
        )
        self.extender_unseen = gauge(
            "ballast_extender_unseen", "Decisions of the last seconds about pods that the watch has not shown."
        )
        self.extender_watch_lag = gauge(
            "ballast_extender_watch_lag_seconds", "The most by which the watch showed a pod late, in the last minute."
        )
        self.extender_reserved = gauge(
            "ballast_extender_reserved", "Reservations of room for pods that are about to come."
        )
        self.batch_gated = gauge("ballast_batch_gated_pods", "Pods that the scheduling gate of Ballast holds now.")
        self.batch_pods = counter(
            "ballast_batch_pods",
            "What became of pods whose gate was removed: planned (bound where it was planned), elsewhere, refused (no "
            "node for the scheduler), late, gone, no-room (in no plan), unplanned (the plan was given up).",
            ["result"],
        )
        self.evictions = counter(
            "ballast_evictions",
            "Steps of plans by planner and outcome: evicted, refused, budget, failed, unknown or dry-run.",
            ["planner", "result"],
        )
        self.eviction_effects = counter(
            "ballast_eviction_effects",
            "What came of evictions: landed, elsewhere, returned, ready, late; of plans: effective, without-effect.",
            ["planner", "result"],
        )
        self.eviction_verdicts = counter(
            "ballast_eviction_verdicts",
            "Pods that a check of the gate refused, or let pass on the way to an eviction.",
            ["check", "verdict"],
        )
        self.eviction_plans = counter(
            "ballast_eviction_plans", "Plans by kind and whether they have steps.", ["kind", "result"]
        )
        self.planning_seconds = histogram("ballast_planning_seconds", "Time the worker took.", buckets=_BUCKETS)
        self.planning_memory = gauge("ballast_planning_memory_bytes", "The most memory the worker had.")
