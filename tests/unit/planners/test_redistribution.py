from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.template import Template
from ballast.planners.redistribute import redistribute
from ballast.planners.room_price import WORTH
from tests.properties import examples
from tests.worlds.planning import a_layout, a_node, a_pod, everybody, standing_of

Vector = np.ndarray[Any, np.dtype[np.float64]]


def request(pod: Pod) -> Vector:
    return np.array([pod.shape.requests.get("cpu", 0.0), pod.shape.requests.get("memory", 0.0)])


def free_of(nodes: list[Node], pods: list[Pod]) -> dict[str, Vector]:
    free = {node.name: np.array([node.allocatable["cpu"], node.allocatable["memory"]]) for node in nodes}
    for pod in pods:
        if pod.node:
            free[pod.node] = free[pod.node] - request(pod)
    return free


def allowed(pod: Pod, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in pod.template.node_selector)


def naive(nodes: list[Node], pods: list[Pod]) -> tuple[int, str] | None:
    """The paper's rule, word for word: release each pod, place everybody again in turn, count."""
    waiting = sorted((pod for pod in pods if not pod.node), key=lambda pod: (pod.waiting_since, pod.name))
    best = None
    for leaver in sorted((pod for pod in pods if pod.node), key=lambda pod: pod.name):
        free = free_of(nodes, pods)
        free[leaver.node] = free[leaver.node] + request(leaver)
        started, settled = 0, False
        for pod in [*waiting, leaver]:
            fitting = [n.name for n in nodes if allowed(pod, n) and (request(pod) <= free[n.name]).all()]
            if fitting:
                free[fitting[0]] = free[fitting[0]] - request(pod)
                started, settled = started + (pod is not leaver), settled or pod is leaver
        if settled and started and (best is None or started > best[0]):
            best = (started, leaver.name)
    return best


@st.composite
def crowded(draw: st.DrawFn, unrelated: bool = False) -> tuple[list[Node], list[Pod]]:
    """Nodes filled until nothing fits any more; what does not fit waits."""
    g = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = int(g.integers(2, 6))
    nodes = [
        a_node(f"n{i}", *g.integers(12, 40, 2), labels={"disk": "fast" if g.random() < 0.5 else "slow"})
        for i in range(count)
    ]
    kinds = g.integers(1, 10, (60 if unrelated else 6, 2))
    free = free_of(nodes, [])
    pods: list[Pod] = []
    for number in range(60):
        kind = kinds[g.integers(len(kinds))]
        picky = g.random() < 0.2
        template = Template(node_selector=(("disk", "fast"),)) if picky else Template()
        pod = a_pod(f"p{number:02}", *kind, waiting=float(g.integers(4)), template=template)
        fitting = [n.name for n in nodes if allowed(pod, n) and (request(pod) <= free[n.name]).all()]
        if fitting:
            home = fitting[int(g.integers(len(fitting)))]
            free[home] = free[home] - request(pod)
            pods.append(a_pod(pod.name, *kind, on=home, template=template))
        else:
            pods.append(pod)
    # Some leave again, but nothing that waits finds room.
    for pod in [pod for pod in pods if pod.node]:
        room = free[pod.node] + request(pod)
        home = next(n for n in nodes if n.name == pod.node)
        if g.random() < 0.5 and not any(allowed(w, home) and (request(w) <= room).all() for w in pods if not w.node):
            free[pod.node] = room
            pods.remove(pod)
    return nodes, pods


def first_step(nodes: list[Node], pods: list[Pod], arrivals: float | None = None) -> tuple[int, str] | None:
    layout = a_layout(nodes, pods)
    steps = redistribute(standing_of(layout), everybody(layout), lambda pod, target: None, arrivals=arrivals)
    step = next(iter(steps), None)
    return None if step is None else (int(step.gain), layout.pods[step.pod].name)


@examples(200)
@given(crowded())
def test_the_search_finds_what_trying_everything_finds(world: Any) -> None:
    assert first_step(*world) == naive(*world)


@settings(deadline=None)
@given(crowded(unrelated=True))
def test_also_where_every_pod_asks_for_something_else(world: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ballast.planners.alike_pods._FEW", 1)
        assert first_step(*world) == naive(*world)


def held(nodes: list[Node], pods: list[Pod]) -> float:
    """sum over nodes and kinds of w_b min_k floor(free_k / b_k)."""
    vectors = [tuple(request(pod)) for pod in pods]
    free = free_of(nodes, pods)
    return float(
        sum(
            vectors.count(kind) / len(vectors) * np.floor(min(free[n.name][k] / kind[k] for k in range(2)) + 1e-9)
            for n in nodes
            for kind in sorted(set(vectors))
        )
    )


@examples(25)
@given(crowded(), st.sampled_from([0.0, 1.0, 5.0, 1e9]))
def test_a_step_takes_little_room_from_later_pods(world: Any, arrivals: float) -> None:
    nodes, pods = world
    layout = a_layout(nodes, pods)
    steps = redistribute(standing_of(layout), everybody(layout), lambda p, t: None, arrivals=arrivals)
    now = {pod.name: pod for pod in pods}
    before, started = held(nodes, pods), 0.0
    for step in steps:
        mover = layout.pods[step.pod].name
        now[mover] = a_pod(mover, *request(now[mover]), on=layout.nodes[step.target].name)
        for start, on in zip(step.starts, step.starts_on, strict=True):
            name = layout.pods[start].name
            now[name] = a_pod(name, *request(now[name]), on=layout.nodes[on].name)
        assert all((room >= -1e-9).all() for room in free_of(nodes, list(now.values())).values())
        assert step.gain == len(step.starts)
        started += step.gain
        if not step.starts:
            continue
        after = held(nodes, list(now.values()))
        price = min(arrivals, before) - min(arrivals, after)
        assert price <= WORTH * step.gain + 1e-9
        if "price" in step.numbers:
            assert step.numbers["price"] == pytest.approx(max(0.0, price), abs=1e-9)
        before = after


@examples(25)
@given(crowded())
def test_without_arrivals_all_that_the_published_rule_starts_can_start(world: Any) -> None:
    assert (first_step(*world, arrivals=0.0) or (0,))[0] >= min(1, (naive(*world) or (0,))[0])


def test_a_small_pod_moves_for_a_large_one_in_a_calm_cluster() -> None:
    """One pod waits for 4 cores, 3.5 are free; 33 pods have half a core each."""
    nodes = [a_node("a", 9, 99), a_node("b", 7.5, 99), a_node("c", 7.5, 99)]
    pods = [a_pod(f"p{n:02}", 0.5, 0.1, on="abc"[n // 11]) for n in range(33)]
    pods.append(a_pod("w", 4, 0.1, waiting=0.0))
    assert first_step(nodes, pods, arrivals=0.0) == (1, "p00")
    assert first_step(nodes, pods, arrivals=4.0) == (1, "p00")
    assert first_step(nodes, pods, arrivals=1e6) is None


def test_two_evictions_for_one_pod() -> None:
    def planned(nodes: list[Node], pods: list[Pod], **more: Any) -> list[tuple[str, str, str, int]]:
        layout = a_layout(nodes, pods)
        admit = more.pop("admit", lambda pod, target: None)
        steps = redistribute(standing_of(layout), everybody(layout), admit, **more)
        names = layout.nodes
        return [(layout.pods[s.pod].name, names[s.source].name, names[s.target].name, int(s.gain)) for s in steps]

    small = [a_node("n0", 4, 99), a_node("n1", 2, 99), a_node("n2", 2, 99)]
    two = [a_pod("a", 2, 1, "n0"), a_pod("b", 2, 1, "n0"), a_pod("w", 4, 1, waiting=0.0)]
    assert planned(small, two) == [("a", "n0", "n1", 0), ("b", "n0", "n2", 1)]
    assert planned(small, two, arrivals=None) == []
    assert planned(small, two, limit=1) == []
    assert planned(small, two, admit=lambda pod, target: np.array([pod]) if pod == 0 else None) == []
    row = [a_node("n0", 4, 99), a_node("n1", 4, 99), a_node("n2", 1, 99)]
    chain = [
        a_pod("a", 3, 1, "n0"),
        a_pod("b", 1, 1, "n1"),
        a_pod("c", 1, 1, "n1", template=Template((("x", "y"),))),
        a_pod("w", 4, 1, waiting=0.0),
    ]
    assert planned(row, chain) == [("b", "n1", "n2", 0), ("a", "n0", "n1", 1)]


def test_room_is_made_for_those_that_wait_alone() -> None:
    nodes, pods = _one_for_one()
    layout = a_layout(nodes, pods)
    nobody = np.zeros(len(layout.pods), bool)
    assert not list(redistribute(standing_of(layout), everybody(layout), lambda p, t: None, waiting=nobody))


def test_who_fits_once_terminating_pods_have_ended_does_not_wait() -> None:
    pods = [a_pod("a", 2, 2, "n1"), a_pod("b", 2, 2, "n1", deleting=True), a_pod("c", 3, 3, "n2")]
    waits = [a_pod(name, 2, 2, waiting=0.0, template=Template((("disk", "fast"),))) for name in "wx"]
    nodes = [a_node("n1", 4, 4, labels={"disk": "fast"}), a_node("n2", 5, 5)]
    assert first_step(nodes, [*pods, waits[0]], arrivals=0.0) is None
    assert first_step(nodes, [*pods, waits[0]], arrivals=None) == (1, "a")


def test_the_gate_passes_over_what_costs_too_much() -> None:
    nodes, pods = _one_for_one()
    assert first_step(nodes, pods, arrivals=None) == (1, "b")
    assert first_step(nodes, pods, arrivals=1e9) is None


def test_a_pod_moves_once_and_what_starts_stays() -> None:
    nodes, pods = _one_for_one()
    layout = a_layout(nodes, pods)
    steps = list(redistribute(standing_of(layout), everybody(layout), lambda p, t: None, arrivals=None))
    moved = [step.pod for step in steps]
    assert len(set(moved)) == len(moved)
    assert not set(moved) & {pod for step in steps for pod in step.starts}


def test_the_way_out_is_bound_by_load_and_knowledge() -> None:
    nodes, pods = _one_for_one()
    load = np.array([[0.5, 0.5], [0.5, 0.5]])
    for ceiling, target in ((0.75, 0.5), (0.65, 0.5), (10.0, np.nan)):
        load[1] = target
        layout = a_layout(nodes, pods, load=load)
        steps = redistribute(standing_of(layout, ceiling), everybody(layout), lambda p, t: None, arrivals=None)
        assert len(list(steps)) == (ceiling == 0.75)


def test_who_has_room_anyway_is_no_reason_to_evict() -> None:
    nodes = [a_node("n1", 4, 4), a_node("n2", 4, 4)]
    pods = [a_pod("a", 2, 2, "n1"), a_pod("w", 1, 1, waiting=0.0)]
    assert first_step(nodes, pods) is None


def test_nobody_waits() -> None:
    assert first_step([a_node("n1")], [a_pod("a", 1, 1, "n1"), a_pod("new", 99, 99)]) is None


def test_refused_pods_make_way_for_the_next() -> None:
    nodes, pods = _one_for_one()
    pods.append(a_pod("c", 2, 2, on="n1"))
    nodes[0] = a_node("n1", 8, 8, labels={"disk": "fast"})
    layout = a_layout(nodes, pods)
    asked: list[str] = []

    def admit(pod: int, target: int) -> Any:
        asked.append(layout.pods[pod].name)
        return np.array([pod]) if layout.pods[pod].name == "b" else None

    [step] = redistribute(standing_of(layout), everybody(layout), admit, arrivals=None)
    assert asked == ["b", "c"]
    assert layout.pods[step.pod].name == "c"


@settings(deadline=None)
@given(crowded(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(world: Any, random: Any) -> None:
    nodes, pods = world
    expected = first_step(nodes, pods)
    random.shuffle(pods)
    random.shuffle(nodes)
    assert first_step(nodes, pods) == expected


def _one_for_one() -> tuple[list[Node], list[Pod]]:
    nodes = [a_node("n1", 6, 6, labels={"disk": "fast"}), a_node("n2", 10, 10)]
    return nodes, [
        a_pod("a", 4, 4, "n1"),
        a_pod("b", 2, 2, "n1"),
        a_pod("big", 8, 8, "n2"),
        a_pod("w", 2, 1, waiting=0.0, template=Template(node_selector=(("disk", "fast"),))),
    ]
