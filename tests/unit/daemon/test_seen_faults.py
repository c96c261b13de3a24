"""What the doctor finds, the daemon says by itself where it sees it."""

from fractions import Fraction
from typing import Any

import pytest

from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.conditions import Conditions
from ballast.jobs.power.policy_conditions import report_conditions
from ballast.jobs.power.tick_report import Inputs, TickContext, TickReport
from ballast.telemetry.feeds.budget_feed import Watts
from ballast_lab.harness.waiting import HUNG, until
from ballast_lab.pages.doctor import SEEN
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.worlds.daemons import NODE, WINDOW, Rig, condition
from tests.worlds.power import policy

pytestmark = pytest.mark.slow


def test_a_missing_metrics_server_is_said_while_prometheus_answers(calm: Rig) -> None:
    daemon = calm.settled()
    assert condition(daemon, "FallbackMissing") is None
    calm.faults.metrics_server_missing()
    calm.cycle(daemon, 3)
    assert "metrics.k8s.io" in (condition(daemon, "FallbackMissing") or "")
    calm.faults.clear()
    calm.cycle(daemon, 21)
    assert condition(daemon, "FallbackMissing") is None


def test_scores_under_another_prefix_are_said(calm: Rig) -> None:
    daemon = calm.settled()
    assert condition(daemon, "SecondBallast") is None
    labels = {"other.example.com/score": "5", "other.example.com/load": "low"}
    body = {"metadata": {"labels": labels}}
    calm.cluster.resources.patch(NODE, "", calm.names[0], "application/merge-patch+json", body)
    calm.cycle(daemon, 2)
    assert condition(daemon, "SecondBallast") == "nodes have scores under other.example.com too"


def test_another_ballast_that_agrees_on_every_label_is_said(calm: Rig) -> None:
    daemon = calm.settled()
    name = calm.names[0]
    theirs = calm.own(name)[WINDOW].replace('"by":"ballast/ballast"', '"by":"elsewhere/ballast"')
    body = {"metadata": {"annotations": {WINDOW: theirs}}}
    calm.cluster.resources.patch(NODE, "", name, "application/merge-patch+json", body)
    calm.cycle(daemon)
    assert condition(daemon, "Contended") is None
    assert f"elsewhere/ballast has written {name}." in (condition(daemon, "SecondBallast") or "")


def test_a_budget_that_can_never_be_met_is_said(calm: Rig) -> None:
    kind = BY_NAME["PodDisruptionBudget"]
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    meta = {"name": "all", "namespace": "default"}
    calm.cluster.resources.create(kind, "default", {"metadata": meta, "spec": spec})
    daemon = calm.daemon(EVICTION__MODE="dry-run")
    assert daemon.context.workloads.wait_synced(HUNG)
    until(lambda: daemon.context.switches.paused("eviction") is None, "the switches")
    calm.advance()
    calm.watch(daemon)
    daemon.scheduler.run("eviction")
    assert condition(daemon, "BudgetsUnsatisfiable") == "default/all: maxUnavailable: 0 allows no eviction"


@pytest.mark.parametrize(("consumed", "said"), [(None, "True"), (Fraction(90), "False")])
def test_a_consumption_that_cannot_be_read_is_said(consumed: Fraction | None, said: str) -> None:
    metered = policy(independents=[{"ref": "ns/a", "max": 4, "wattsPerReplica": 10}], consumption={"query": "w"})
    conditions = Conditions(SystemClock(), Metrics())
    view = TickReport(Inputs(metered, TickContext(Fraction(0), 0.0), Watts(Fraction(100), 0.0, consumed=consumed)))
    report_conditions(conditions, [view], None, {})
    assert {each.type: each.status for each in conditions.list()}["ConsumptionUnknown"] == said


@pytest.mark.parametrize(
    ("fault", "values", "check"),
    [
        ("prometheus_html", {}, "prometheus-reachable"),
        ("prometheus_401", {}, "prometheus-credentials"),
        ("prometheus_empty", {}, "preset-data"),
        ("prometheus_labels", {"labels": {"instance": "x-{index}", "node": "{node}"}}, "node-label"),
        ("prometheus_clusters", {}, "clusters-mixed"),
        ("prometheus_clusters", {"label": "k8s_cluster_name"}, "clusters-mixed"),
        ("prometheus_duplicates", {}, "duplicate-exporters"),
        ("prometheus_forged", {"nodes": [0], "labels": {"job": "evil"}, "by": 0.5}, "several-jobs"),
        ("prometheus_stale", {"age": 200.0}, "clock-skew"),
        ("prometheus_nan", {}, "units"),
        ("prometheus_partial", {"share": 0.5}, "unmeasured-nodes"),
        ("metrics_server_missing", {}, "metrics-server"),
        ("prometheus_higher", {"by": 0.5}, "sources-disagree"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_seeded_fault_is_a_condition_too(calm: Rig, fault: str, values: dict[str, Any], check: str) -> None:
    calm.faults.apply(fault, **values)
    daemon = calm.daemon(WINDOWS__LENGTHS="5m", WINDOWS__MIN_SAMPLES="3")
    calm.cycle(daemon, 14)
    assert any(condition(daemon, each) for each in SEEN[check].conditions)


def test_readings_between_scrapes_are_a_condition_too(calm: Rig) -> None:
    calm.interval = 5.0
    daemon = calm.daemon()
    calm.cycle(daemon, 8)
    assert condition(daemon, SEEN["scrape-interval"].conditions[0])
