"""What the eviction job goes by: hot nodes, changed replicas, and how pods are asked about."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import UNSET

from ballast.answers.evictions import Eviction, Measured, MeasuredShare, Plan, Predicted, Step
from ballast.base.metrics import Metrics
from ballast.cluster.write import WriteTarget
from ballast.jobs.eviction.eviction_sentences import rate_used_up
from ballast.jobs.eviction.executor import with_effects
from ballast.jobs.eviction.observations import HotNodes, InvalidAnnotations, RecentScaling
from ballast.jobs.eviction.replaced_use import ReplacedUse
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot, Window
from ballast.model.workload import Autoscaler, Namespace, Workload
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import EvictionPlan, Move, Refusal
from ballast.planning.moment import loads
from ballast.settings import Settings
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast.telemetry.pod_usage import FEW_NAMESPACES, HOUR, Homes, PodAnswers, decode
from ballast.telemetry.pod_usage_cache import FEW, PodUsageCache
from ballast.telemetry.prometheus_source import PrometheusSource
from tests.worlds.clock import FakeClock

NAN = float("nan")


def snapshot(time: float, **cpu: float) -> Snapshot:
    """Nodes with a mean of cpu, and half of the memory used."""
    mean = np.array([list(cpu.values()), [0.5] * len(cpu)])
    known = np.isfinite(mean)
    window = Window("15m", 900.0, mean, mean * 0, mean, np.zeros(mean.shape, int), mean, known)
    nodes = tuple(Node(name, unschedulable=name.endswith("cordoned")) for name in cpu)
    return Snapshot(time, nodes, ("cpu", "memory"), {"15m": window}, mean, mean, NodeStates.of(known.any(axis=0)))


def looked(*snapshots: Snapshot, **aims: Any) -> HotNodes:
    found = HotNodes(Aims(**aims), 30.0)
    for each in snapshots:
        found.observe(each)
    return found


def test_windows_in_a_row_are_counted_truly() -> None:
    found = looked(snapshot(0, a=0.85, b=0.85), snapshot(30, a=0.85, b=0.5), snapshot(60, a=0.85, b=0.85))
    assert found.confirmed == {"a": 3, "b": 1}


def test_an_unknown_load_in_between_starts_again() -> None:
    assert looked(snapshot(0, a=0.85), snapshot(30, a=NAN), snapshot(60, a=0.85)).confirmed == {"a": 1}


def test_the_same_window_counts_once_and_a_gap_starts_again() -> None:
    assert looked(snapshot(0, a=0.85), snapshot(0, a=0.85)).confirmed == {"a": 1}
    assert looked(snapshot(0, a=0.85), snapshot(300, a=0.85)).confirmed == {"a": 1}
    assert looked(snapshot(30, a=0.85), snapshot(0, a=0.85)).confirmed == {"a": 1}


def test_cordoned_nodes_are_not_relieved() -> None:
    assert looked(snapshot(0, cordoned=0.95)).confirmed == {}


def test_overloaded_takes_two_of_the_shortest_windows_of_nine_tenths() -> None:
    """The first window may still show the load of before."""
    two = [snapshot(30 * i, a=0.6, b=0.6, c=0.95) for i in range(2)]
    for each in two:
        recent = np.array([[0.9, 0.89, 0.6], [0.5] * 3])
        windows = {**each.windows, "5m": replace(each.primary, name="5m", seconds=300.0, mean=recent)}
        object.__setattr__(each, "windows", windows)
    assert looked(*two[:1]).overloaded == frozenset()
    found = looked(*two)
    assert found.overloaded == {"a"}
    assert found.causes == {"a": frozenset({"cpu"}), "c": frozenset({"cpu"})}


def test_hot_may_mean_far_from_the_mean() -> None:
    assert looked(snapshot(0, a=0.5, b=0.1, c=0.1), deviation=0.2).confirmed == {"a": 1}


def test_loads_of_nodes_that_the_snapshot_does_not_know_are_unknown() -> None:
    found = loads(snapshot(0, a=0.5, b=0.1), ("cpu", "memory"), ["b", "new"])
    assert np.array_equal(found, [[0.1, 0.5], [NAN, NAN]], equal_nan=True)


def test_changed_replicas_are_as_old_as_the_look_that_found_them() -> None:
    lately = RecentScaling()

    def look(now: float, replicas: int) -> dict[str, float | None]:
        lately.observe([Workload("Deployment", "shop", "web", replicas=replicas)], now)
        return {each.name: each.scaled_at for each in lately.beside([])}

    assert look(0, 3) == {}
    assert look(60, 4) == {"web": 60}
    assert look(120, 4) == {"web": 60}
    scaled = Autoscaler("shop", "Deployment", "web", scaled_at=90.0)
    assert [each.scaled_at for each in lately.beside([scaled])] == [90.0]
    lately.observe([], 180)
    assert lately.beside([]) == ()


def test_an_autoscaler_that_never_scaled_is_one_and_a_change_by_others_is_none() -> None:
    lately = RecentScaling()
    for now, replicas in ((0, 3), (60, 4)):
        lately.observe([Workload("Deployment", "shop", "web", replicas=replicas)], now)
    idle = Autoscaler("shop", "Deployment", "api")
    assert [(each.name, each.scaled_at, bool(each.own_kind)) for each in lately.beside([idle])] == [
        ("api", None, True),
        ("web", 60, False),
    ]


class Asked(PrometheusSource):
    def __init__(self) -> None:
        self.questions: list[tuple[float, int | None]] = []

        self.hours: list[float] = []

    def ask_pods(self, at: float, resources: Any = (), pods: Any = None, *, hour: bool = False) -> PodAnswers:
        self.questions.append((at, None if pods is None else len(pods)))
        if not hour:
            return PodAnswers(at, {"cpu": b"now"}, {}, tuple(resources), 90.0, 30.0)
        self.hours.append(at)
        return PodAnswers(
            at, {"cpu": b"now", f"{HOUR}cpu": b"long"}, {f"{HOUR}memory": "no"}, tuple(resources), 90.0, 30.0
        )


def test_pods_are_asked_about_once_a_minute() -> None:
    source = Asked()
    asking = PodUsageCache(source, lambda path: b"", Settings())
    for at in (0, 30, 60, 90):
        asking.ask(at, ("cpu",))
    assert source.questions == [(0, None), (60, None)]


def test_means_over_an_hour_are_asked_for_every_five_minutes_and_kept_meanwhile() -> None:
    source = Asked()
    asking = PodUsageCache(source, lambda path: b"", Settings(), hour=True)
    for at in range(0, 660, 60):
        answers = asking.ask(at, ("cpu", "memory"))
        assert (answers.at, answers.bodies) == (at, {"cpu": b"now", f"{HOUR}cpu": b"long"})
        assert answers.problems == {f"{HOUR}memory": "no"}
    assert source.hours == [0, 300, 600]
    asking.ask(670, ("cpu",), ["shop/a"])
    asking.ask(740, ("cpu",), ["shop/b"])
    assert source.hours == [0, 300, 600, 670, 740], "of other pods another hour counts"


def test_a_few_pods_are_asked_about_by_name_and_more_when_more_are_needed() -> None:
    source = Asked()
    asking = PodUsageCache(source, lambda path: b"", Settings())
    asking.ask(0, ("cpu",), ["shop/a", "shop/b"])
    asking.ask(10, ("cpu",), ["shop/a"])
    asking.ask(20, ("cpu",), ["shop/c"])
    asking.ask(30, ("cpu",), [f"shop/{i}" for i in range(FEW + 1)])
    asking.ask(40, ("cpu",), ["shop/a"])
    assert source.questions == [(0, 2), (20, 1), (30, None)]


def test_without_prometheus_metrics_server_is_asked() -> None:
    paths: list[str] = []

    def get(path: str) -> bytes:
        paths.append(path)
        return b'{"items": []}'

    settings = Settings()
    asking = PodUsageCache(MetricsServerSource(get, settings, Metrics()), get, settings)
    assert decode(asking.ask(0, ("cpu",)), Homes((), ())).pods == ()
    assert paths == ["/apis/metrics.k8s.io/v1beta1/pods"]


def test_of_a_few_pods_metrics_server_lists_their_namespaces_alone() -> None:
    paths: list[str] = []

    def get(path: str) -> bytes:
        paths.append(path)
        where = {"namespace": path.split("/")[-2], "name": "a"}
        items = [{"metadata": where, "timestamp": "1970-01-01T00:00:00Z", "containers": [{"usage": {"cpu": "500m"}}]}]
        return msgspec.json.encode({"items": items})

    settings = Settings()
    asking = PodUsageCache(MetricsServerSource(get, settings, Metrics()), get, settings)
    usage = decode(asking.ask(0, ("cpu",), ["shop/a", "shop/b", "bank/a"]), Homes((), ()))
    assert usage.by_pod() == {"bank/a": {"cpu": 0.5}, "shop/a": {"cpu": 0.5}}
    assert paths == [f"/apis/metrics.k8s.io/v1beta1/namespaces/{name}/pods" for name in ("bank", "shop")]
    paths.clear()
    asking.ask(60, ("cpu",), [f"n{number}/a" for number in range(FEW_NAMESPACES + 1)])
    assert paths == ["/apis/metrics.k8s.io/v1beta1/pods"]


def test_an_answer_that_is_reused_is_no_further_sample() -> None:
    """Plans every 15 s: what is asked once a minute tells of one sample a minute."""
    clock = FakeClock(0.0)
    body = {"metadata": {"namespace": "shop", "name": "a"}, "containers": [{"usage": {"cpu": "1", "memory": "1Gi"}}]}

    def get(path: str) -> bytes:
        return msgspec.json.encode(
            {"items": [{**body, "timestamp": f"1970-01-01T00:{int(clock.wall() // 60):02d}:00Z"}]}
        )

    settings = Settings()
    asking = PodUsageCache(MetricsServerSource(get, settings, Metrics()), get, settings)
    used = ReplacedUse(asking, clock.wall, lambda: (), lambda: ())
    told: list[str] = []
    for _ in range(20):
        told += used(["shop/a"])
        clock.advance(15.0)
    assert told == ["shop/a"] * 5


def web(**annotations: str) -> Workload:
    return Workload("Deployment", "shop", "web", annotations={f"ballast.dev/{k}": v for k, v in annotations.items()})


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({"evict": "maybe"}, 'it has ballast.dev/evict: "maybe", which is neither "true" nor "false"'),
        ({"exclude": "yes"}, 'it has ballast.dev/exclude: "yes", which is neither "true" nor "false"'),
        ({"exclude-until": "soon"}, 'it has ballast.dev/exclude-until: "soon", which is no RFC 3339 time'),
        ({"evict": "true", "exclude": "false", "exclude-until": "2020-01-01T00:00:00Z"}, None),
        ({}, None),
    ],
)
def test_a_value_that_means_nothing_is_told_once(annotations: dict[str, str], told: str | None) -> None:
    heard: list[tuple[WriteTarget, str]] = []
    wishes = InvalidAnnotations("ballast.dev", lambda target, why: heard.append((target, why)))
    for _ in range(2):
        wishes.observe([web(**annotations)], [], [])
    expected = [] if told is None else [(WriteTarget("Deployment", "web", "shop", api_version="apps/v1"), told)]
    assert [(str(target), why) for target, why in heard] == [
        (str(target), f"left alone by evictions: {why}") for target, why in expected
    ]


def test_words_of_others_that_mean_nothing_are_told_of_pods() -> None:
    heard: list[tuple[str, str]] = []
    wishes = InvalidAnnotations("ballast.dev", lambda target, why: heard.append((str(target), why)))
    odd, fine = ({"karpenter.sh/do-not-disrupt": value} for value in ("soon", "24h"))
    wishes.observe([], [Namespace("shop", annotations=odd)], [Pod("shop", "a", annotations=odd)])
    wishes.observe([], [], [Pod("shop", "b", annotations=fine)])
    why = 'it has karpenter.sh/do-not-disrupt: "soon", which is neither true nor a duration'
    assert heard == [("Pod shop/a", f"left alone by evictions: {why}")]


def test_pods_and_namespaces_are_looked_at_too_and_again_after_they_were_mended() -> None:
    heard: list[str] = []
    wishes = InvalidAnnotations("ballast.dev", lambda target, why: heard.append(str(target)))
    strange = {"ballast.dev/evict": "?"}
    for pods in ([Pod("shop", "a", annotations=strange)], [], [Pod("shop", "a", annotations=strange)]):
        wishes.observe([], [Namespace("shop", annotations=strange)], pods)
    assert heard == ["Namespace shop", "Pod shop/a", "Pod shop/a"]


def test_judged_steps_of_plans_carry_the_measured_share() -> None:
    steps = [
        Step(pod=name, source="n1", to="n2", gain=0.1, gain_error=0.0, cost=0.0, reason="")
        for name in ("shop/a", "shop/b")
    ]
    plan = Plan(
        id="p",
        time=1000.0,
        mode="on",
        kind="relieve",
        steps=steps,
        before={},
        after={},
        refused={},
        placed=(),
        verdicts=(),
        sentence="",
    )

    def judged(pod: str, time: float, kind: str = "relieve") -> Eviction:
        return Eviction(
            pod=pod,
            uid="u",
            workload=None,
            source="n1",
            to="n2",
            time=time,
            kind=kind,
            plan="p",
            status="ready",
            landed_on="n2",
            ready_at=time,
            predicted=Predicted(0.1, {}, {}, {}),
            measured=Measured(share=0.9, low=0.7, high=1.1),
            why=None,
        )

    later = with_effects(plan, [judged("shop/a", 998.0), judged("shop/b", 90.0), judged("shop/b", 999.0, "rebalance")])
    assert [step.measured for step in later.steps] == [MeasuredShare(0.9, 0.7, 1.1), UNSET]


def test_what_the_rates_left_undone_is_told() -> None:
    refusal = Refusal("shop/a", "rate", "BALLAST_EVICTION__RATE for 1 h is used up")
    step = Move("shop/a", "n1", "n2", 0.05, "n1 is too full", "u", {})
    relief = EvictionPlan("relieve", (), {}, {}, {"rate": 3, "pdb": 1}, (), (refusal,), held_back=step)
    idle = replace(relief, held_back=None)
    calm = EvictionPlan("rebalance", (), {}, {}, {"gain": 9}, ())
    told = (
        "relieve: the rate leaves shop/a (gain 0.050: n1 is too full) in place: "
        "BALLAST_EVICTION__RATE for 1 h is used up"
    )
    assert rate_used_up([relief, calm], {}) == told
    assert rate_used_up([idle, calm], {}) is None, "nobody would move them"
    assert rate_used_up([calm], {"rebalance": 1}) == "rebalance: the rate leaves 1 pod in place"
    assert rate_used_up([calm], {}) is None


def test_a_node_that_was_created_again_was_not_hot_yet() -> None:
    before, after = snapshot(0, a=0.95), snapshot(30, a=0.95)
    object.__setattr__(after, "nodes", (Node("a", "another"),))
    found = looked(before, after)
    assert (found.confirmed, found.overloaded) == ({"a": 1}, frozenset())
    assert looked(before, snapshot(30, a=0.95)).confirmed == {"a": 2}
