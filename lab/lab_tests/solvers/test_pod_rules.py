"""Rules of pod specs in solvers, held against the planners' own constraints: pod by pod, all others present."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ballast.base.errors import Infeasible
from ballast.model.node import Taint
from ballast.model.pod import Pod
from ballast.model.selector import Requirement, Selector
from ballast.model.template import HostPort, PodTerm, Template, Toleration, TopologySpread
from ballast.placement.layout import Layout
from ballast.solving import Problem, arrange
from ballast_lab.solvers import solve
from ballast_lab.solvers.pod_rules import PodRules
from tests.properties import examples
from tests.worlds.planning import a_layout, a_node, a_pod, standing_of

NODES = [
    a_node(f"n{row}", labels={"zone": zone, "host": f"n{row}"}, taints=(Taint("dedicated", "NoSchedule"),) * (row == 4))
    for row, zone in enumerate("aabbc")
]
FEW = examples(25, suppress_health_check=[HealthCheck.too_slow])


def of(name: str) -> Selector:
    return Selector((Requirement("app", "In", (name,)),))


def term(name: str, key: str) -> PodTerm:
    return PodTerm(key, of(name), ("a",))


APPS = st.sampled_from(["web", "db", "log"])
KEYS = st.sampled_from(["zone", "host"])
TEMPLATES = st.one_of(
    st.just(Template()),
    st.builds(lambda app, key: Template(anti_affinity=(term(app, key),)), APPS, KEYS),
    st.builds(lambda app, key: Template(affinity=(term(app, key),)), APPS, KEYS),
    st.builds(lambda app, skew: Template(spread=(TopologySpread("zone", skew, of(app)),)), APPS, st.integers(1, 2)),
    st.builds(lambda port: Template(host_ports=(HostPort(port),)), st.integers(80, 81)),
    st.just(Template(node_selector=(("zone", "b"),))),
    st.just(Template(tolerations=(Toleration("dedicated", "Exists"),))),
)


def problem_of(layout: Layout) -> Problem:
    nodes = [node.name for node in layout.nodes]
    fixed, targets = np.zeros(len(layout.pods), bool), np.ones(len(nodes), bool)
    rules = PodRules(layout.nodes, layout.pods, layout.on, fixed, targets, {})
    return arrange(
        nodes,
        [pod.name for pod in layout.pods],
        layout.resources,
        capacity=layout.whole,
        use=layout.used,
        kinds=layout.kinds,
        room=layout.total.astype(float),
        request=layout.asked.astype(float),
        home=layout.on,
        rules=rules.rules(),
    )


@given(each=st.lists(st.tuples(APPS, TEMPLATES, st.integers(1, 3)), min_size=1, max_size=8), seed=st.integers(0, 9))
@FEW
def test_every_pod_could_run_where_it_is_placed(each: list[tuple[str, Template, int]], seed: int) -> None:
    pods = [
        a_pod(f"p{row}", cpu, 1, waiting=0.0, labels={"app": app}, template=template)
        for row, (app, template, cpu) in enumerate(each)
    ]
    layout = a_layout(NODES, pods)
    try:
        found = solve(problem_of(layout), solver="late-acceptance", evaluations=400, seed=seed)
    except Infeasible:
        return
    assert found.violations == ()
    names = {node.name: row for row, node in enumerate(layout.nodes)}
    placed = [
        a_pod(pod.name, cpu, 1, on=found.placement[pod.name], labels=pod.labels, template=pod.template)
        for pod, (_, _, cpu) in zip(pods, each, strict=True)
    ]
    standing = standing_of(a_layout(NODES, placed), ceiling=100.0)
    for row, pod in enumerate(standing.layout.pods):
        here = names[pod.node]
        near = standing.neighbours.allowed(row)
        assert standing.sites.allowed(pod.template)[here]
        assert near is None or near[here]
    assert (standing.free >= 0).all()


@pytest.mark.parametrize("solver", ["late-acceptance", "longest-first", "genetic", "steepest"])
def test_a_pod_that_was_alone_is_not_left_by_one_that_comes_later(solver: str) -> None:
    templates = [Template(), Template(affinity=(term("db", "zone"),)), Template(anti_affinity=(term("web", "zone"),))]
    pods = [
        a_pod(f"p{row}", 1, 1, waiting=0.0, labels={"app": app}, template=template)
        for row, (app, template) in enumerate(zip(["web", "db", "db"], templates, strict=True))
    ]
    assert solve(problem_of(a_layout(NODES, pods)), solver=solver, evaluations=400).violations == ()


def spread_pods(count: int, template: Template) -> list[Pod]:
    return [a_pod(f"p{row}", 1, 1, waiting=0.0, labels={"app": "web"}, template=template) for row in range(count)]


def test_one_pod_of_an_app_in_each_zone_and_no_fourth() -> None:
    template = Template(anti_affinity=(term("web", "zone"),), tolerations=(Toleration("dedicated", "Exists"),))
    found = solve(problem_of(a_layout(NODES, spread_pods(3, template))), evaluations=300)
    assert len({"aabbc"[int(node[1])] for node in found.placement.values()}) == 3
    with pytest.raises(Infeasible, match="podAntiAffinity of a/p0"):
        solve(problem_of(a_layout(NODES, spread_pods(4, template))), evaluations=300)


def test_a_pod_may_stay_on_a_node_it_could_not_go_to() -> None:
    pods = [a_pod("old", 1, 1, on="n4"), a_pod("new", 1, 1, waiting=0.0)]
    found = solve(problem_of(a_layout(NODES, pods)), evaluations=300, max_moves=0)
    assert found.placement["old"] == "n4"
    assert found.placement["new"] != "n4"
