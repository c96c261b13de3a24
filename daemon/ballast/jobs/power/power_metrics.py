"""The Prometheus metrics of power policies, one series per policy."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from ballast.jobs.power.tick_report import TickReport
from ballast.power.controller_state import ControllerMode

POLICY = "policy"
WORKLOAD = (POLICY, "workload_namespace", "name")


class PowerMetrics:
    """The families of one prefix. A dry run has a second set, `potential` in its names, for what would be."""

    def __init__(self, registry: CollectorRegistry, *, potential: bool = False) -> None:
        prefix = "ballast_power_potential" if potential else "ballast_power"

        def gauge(name: str, words: str, *labels: str) -> Gauge:
            return Gauge(f"{prefix}_{name}", words, [POLICY, *labels], registry=registry)

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"{prefix}_{name}", words, [POLICY, *labels], registry=registry)

        self.available = gauge("available_watts", "Watts the feed gives now; absent while it gives none.")
        self.reference = gauge("reference_watts", "Watts last acted on.")
        self.change = gauge("relative_change", "Of the feed to the reference, as a fraction.")
        self.state = gauge("state", "1 for the state the policy is in.", "state")
        self.window = gauge("window_elapsed_seconds", "Age of the open window; 0 without one.")
        self.target = gauge("target_replicas", "What the watts carry, without bounds and rounding.")
        self.current = gauge("current_replicas", "Replicas, or caps, of the targets together.")
        self.unmet = gauge("unmet_replicas", "Wanted, but beyond the bounds of all targets.")
        self.demand = gauge("unmet_demand_replicas", "Wanted by autoscalers beyond their caps.")
        self.load = gauge("load_watts", "Of what runs, with the base power; absent where watts are not declared.")
        self.over = gauge("over_budget_watts", "Of what runs, above what is allowed; absent where they are not known.")
        self.drawn = gauge("measured_watts", "Of what runs, as the policy's consumption tells; absent without one.")
        self.allowed = gauge("allowed_watts", "May be drawn now: the least of feed, schedule and energy.")
        self.draw = gauge("drawn_watts", "Of what runs: the larger of model and meter; absent where neither is known.")
        self.bound = gauge("bound_watts", "What the schedule allows now; absent without one.")
        self.age = gauge("feed_age_seconds", "Age of the feed's newest usable sample.")
        self.workload = Gauge(
            f"{prefix}_target_replicas_by_workload", "Replicas, or cap, of one target.", WORKLOAD, registry=registry
        )
        self.learned = Gauge(f"{prefix}_learned_watts", "Of one replica, as measured.", WORKLOAD, registry=registry)
        self.learned_error = Gauge(
            f"{prefix}_learned_watts_error", "Standard error of the learned watts.", WORKLOAD, registry=registry
        )
        self.actions = counter("actions", "Plans by direction and result.", "direction", "result")
        self.cancellations = counter("cancellations", "Windows left without an action.", "reason")
        self.invalid = counter("feed_invalid", "Samples that could not be used.", "reason")
        self.patch_errors = counter("patch_errors", "Writes to targets that failed.", "code")
        self.foreign = counter("foreign_changes", "Replicas or caps changed by someone else.")
        self.leader = Gauge(f"{prefix}_leader", "1 while this replica acts on power.", registry=registry)
        self._workloads: dict[str, dict[str, int]] = {}

    def put(self, gauge: Gauge, policy: str, value: float | None) -> None:
        """Sets a series; None removes it."""
        if value is None:
            gauge.remove_by_labels({POLICY: policy})
        else:
            gauge.labels(policy).set(value)

    def put_state(self, policy: str, state: ControllerMode | None) -> None:
        """Sets 1 for this state and 0 for the others."""
        for mode in ControllerMode:
            self.state.labels(policy, mode.value).set(mode is state)

    def put_workloads(self, policy: str, counts: Mapping[str, int]) -> None:
        """Sets the counts by namespace/name; targets without a count lose their series."""
        before = self._workloads.get(policy, {})
        if before == counts:
            return
        for name in before.keys() - counts.keys():
            self.workload.remove(policy, *_parts(name))
        for name, count in counts.items():
            if before.get(name) != count:
                self.workload.labels(policy, *_parts(name)).set(count)
        self._workloads[policy] = dict(counts)

    def count(self, report: TickReport, seen: float | None, *, real: bool) -> None:
        """Takes the report of a tick. `seen` is the Unix time of the newest usable sample.

        With `real` the counts are those of the cluster, where the report has those of a dry run.
        """
        name, watts, reference = report.policy.name, report.inputs.watts.watts, report.reference
        counts = report.counts
        if real:
            counts = {n: status.count for n, status in report.inputs.statuses.items() if status.count is not None}
        change = watts / reference - 1 if watts is not None and reference else None
        known = report.outcome.load is not None and report.allowed is not None
        values = {
            self.available: watts,
            self.reference: reference,
            self.change: change,
            self.window: report.window_age or 0,
            self.target: report.ideal,
            self.current: sum(counts.values()) if counts else None,
            self.unmet: abs(report.decision.unmet),
            self.demand: report.outcome.unmet_demand,
            self.load: report.outcome.load,
            self.over: (report.over or 0) if known else None,
            self.drawn: report.inputs.watts.consumed,
            self.allowed: report.allowed,
            self.draw: report.drawn,
            self.bound: report.inputs.watts.bound,
            self.age: None if seen is None else max(0.0, report.inputs.now.wall - seen),
        }
        for gauge, value in values.items():
            self.put(gauge, name, None if value is None else float(value))
        self.put_state(name, report.state.mode)
        self.put_workloads(name, counts)
        self._put_learned(report)
        self._count_events(report)

    def _put_learned(self, report: TickReport) -> None:
        for target, (watts, error) in (
            report.inputs.learned.watts if report.inputs.learned is not None else {}
        ).items():
            labels = (report.policy.name, *_parts(target))
            self.learned.labels(*labels).set(watts)
            self.learned_error.labels(*labels).set(error)

    def _count_events(self, report: TickReport) -> None:
        name = report.policy.name
        if report.inputs.watts.watts is None:
            self.invalid.labels(name, report.inputs.watts.reason or "unreadable").inc()
        if report.decision.cancelled:
            self.cancellations.labels(name, str(report.reason)).inc()
        self.foreign.labels(name).inc(report.decision.foreign)
        if report.outcome.action is not None:
            direction = "up" if sum(report.outcome.action.changes.values()) > 0 else "down"
            result = "failed" if report.outcome.action.codes else report.outcome.action.result
            self.actions.labels(name, direction, result).inc()
            for code in report.outcome.action.codes:
                self.patch_errors.labels(name, str(code)).inc()

    def begin(self, policies: Iterable[str]) -> None:
        """Creates the counters with 0, so that Prometheus sees their first rise."""
        for policy in policies:
            self.foreign.labels(policy)
            for direction in ("up", "down"):
                self.actions.labels(policy, direction, "done")


def _parts(name: str) -> tuple[str, str]:
    namespace, _, own = name.partition("/")
    return namespace, own
