"""Where a pod may run: node selection, taints, ports, affinities, spread; each held against counting by hand."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.model.node import Taint
from ballast.model.pod import Pod
from ballast.model.selector import Requirement, Selector
from ballast.model.template import HostPort, NodeTerm, PodTerm, Template, Toleration, TopologySpread
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners import can_move as ways_out
from ballast.planners.can_move import can_move
from tests.worlds.planning import a_layout, a_node, a_pod, standing_of

ZONES = {"n0": "a", "n1": "a", "n2": "b", "n3": "b", "n4": ""}
NODES = [a_node(name, labels={"zone": zone, "host": name} if zone else {"host": name}) for name, zone in ZONES.items()]


def app(name: str) -> Selector:
    return Selector((Requirement("app", "In", (name,)),))


def near(name: str, key: str = "zone") -> PodTerm:
    return PodTerm(key, app(name), ("a",))


def allowed(template: Template, *others: Pod, nodes: Any = NODES, label: str = "x", on: str = "") -> str:
    """The numbers of the nodes that the pod may go to."""
    asks = a_pod("asks", 1, 1, on=on, waiting=None if on else 0.0, template=template, labels={"app": label})
    layout = a_layout(nodes, [asks, *others])
    row = [pod.name for pod in layout.pods].index("asks")
    return "".join(str(i) for i in np.flatnonzero(standing_of(layout).feasible(row)))


def there(name: str, on: str, label: str = "db", **more: Any) -> Pod:
    return a_pod(name, on=on, labels={"app": label}, **more)


def test_selectors_and_affinity_to_nodes() -> None:
    assert allowed(Template()) == "01234"
    assert allowed(Template(node_selector=(("zone", "a"),))) == "01"
    in_b = NodeTerm((Requirement("zone", "In", ("b",)),))
    by_name = NodeTerm((), (Requirement("metadata.name", "In", ("n0",)),))
    assert allowed(Template(node_affinity=(in_b,))) == "23"
    assert allowed(Template(node_affinity=(in_b, by_name))) == "023"
    assert allowed(Template(node_affinity=(NodeTerm((Requirement("zone", "NotIn", ("a",)),)),))) == "234"
    assert allowed(Template(node_affinity=(NodeTerm((Requirement("zone", "DoesNotExist"),)),))) == "4"
    assert allowed(Template(node_affinity=(NodeTerm(),))) == ""
    assert allowed(Template(node_affinity=())) == ""


@pytest.mark.parametrize(
    ("operator", "bound", "expected"), [("Gt", "1", "2"), ("Lt", "2", "01"), ("Gt", "x", ""), ("Exists", "", "012")]
)
def test_numbers_in_labels(operator: str, bound: str, expected: str) -> None:
    nodes = [a_node(f"n{i}", labels={"cores": str(i)}) for i in range(3)]
    term = NodeTerm((Requirement("cores", operator, (bound,) if bound else ()),))
    assert allowed(Template(node_affinity=(term,)), nodes=nodes) == expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ((), "3"),
        ((Toleration("gpu", "Exists"),), "023"),
        ((Toleration("gpu", "Equal", "yes"),), "023"),
        ((Toleration("gpu", "Equal", "no"),), "3"),
        ((Toleration("gpu", "Exists", "", "NoSchedule"),), "03"),
        ((Toleration("", "Exists"),), "0123"),
        ((Toleration("", "Equal"),), "3"),
    ],
)
def test_taints(toleration: Any, expected: str) -> None:
    nodes = [
        a_node("n0", taints=(Taint("gpu", "NoSchedule", "yes"),)),
        a_node("n1", taints=(Taint("gpu", "NoExecute", "yes"), Taint("old", "NoSchedule"))),
        a_node("n2", taints=(Taint("gpu", "NoExecute", "yes"),)),
        a_node("n3", taints=(Taint("soft", "PreferNoSchedule"),)),
    ]
    assert allowed(Template(tolerations=toleration), nodes=nodes) == expected


@pytest.mark.parametrize(
    ("operator", "bound", "expected"),
    [
        ("Lt", "70", "01"),
        ("Gt", "-6", "012"),
        ("Gt", "65", "2"),
        ("Lt", "-5", ""),
        ("Lt", "070", ""),
        ("Gt", "+1", ""),
        ("Lt", "9223372036854775808", ""),
        ("Gt", "", ""),
    ],
)
def test_taints_compared_as_numbers(operator: str, bound: str, expected: str) -> None:
    values = ("-5", "65", "70", "065", "busy", "9223372036854775808")
    nodes = [a_node(f"n{i}", taints=(Taint("x/load", "NoSchedule", value),)) for i, value in enumerate(values)]
    assert allowed(Template(tolerations=(Toleration("x/load", operator, bound),)), nodes=nodes) == expected


def test_nodes_that_take_nobody() -> None:
    nodes = [a_node("n0", unschedulable=True), a_node("n1", ready=False), a_node("n2", deleting=True), a_node("n3")]
    assert allowed(Template(), nodes=nodes) == "3"


def test_host_ports() -> None:
    web = Template(host_ports=(HostPort(80),))
    busy = there("b", "n1", template=web), there("c", "n2", template=Template(host_ports=(HostPort(80, "UDP"),)))
    assert allowed(web, *busy) == "0234"
    local = there("d", "n3", template=Template(host_ports=(HostPort(80, "TCP", "10.0.0.1"),)))
    assert allowed(web, local) == "0124"
    assert allowed(Template(host_ports=(HostPort(80, "TCP", "10.0.0.2"),)), local) == "01234"
    assert allowed(web, on="n1") == "01234"


def test_affinity_to_pods() -> None:
    to_db = Template(affinity=(near("db"),))
    assert allowed(to_db, there("d", "n2")) == "23"
    assert allowed(to_db) == ""
    assert allowed(to_db, label="db") == "0123"
    assert allowed(to_db, there("d", "n2", namespace="other")) == ""
    assert allowed(to_db, there("d", "n2", phase="Succeeded")) == ""
    both = Template(affinity=(near("db"), near("web", "host")))
    # Only a pod that all terms mean counts (interpodaffinity/filtering.go, podMatchesAllAffinityTerms).
    assert allowed(both, there("d", "n2"), there("w", "n3", "web"), there("v", "n0", "web")) == ""
    twice = Template(affinity=(near("web"), near("web", "host")))
    assert allowed(twice, there("d", "n2"), there("w", "n3", "web")) == "3"


def test_affinity_against_pods() -> None:
    assert allowed(Template(anti_affinity=(near("db"),)), there("d", "n2")) == "014"
    assert allowed(Template(anti_affinity=(near("db", "host"),)), there("d", "n2")) == "0134"
    assert allowed(Template(anti_affinity=(near("x"),)), on="n2") == "01234"


def test_pods_on_nodes_keep_others_away() -> None:
    loner = there("d", "n2", template=Template(anti_affinity=(near("x"),)))
    assert allowed(Template(), loner) == "014"
    assert allowed(Template(), loner, label="other") == "01234"


def test_namespaces_are_chosen_by_name_or_labels() -> None:
    term = PodTerm("zone", app("db"), (), Selector((Requirement("team", "In", ("data",)),)))
    asks = a_pod("asks", 1, 1, waiting=0.0, template=Template(anti_affinity=(term,)))
    layout = a_layout(NODES, [asks, there("d", "n2", namespace="data-1")])
    for labels, expected in (({"team": "data"}, "014"), ({}, "01234")):
        standing = SimulatedPlacement(
            layout, targets=np.ones(5, bool), ceiling=9.0, namespaces={"data-1": labels, "a": {"team": "web"}}
        )
        assert "".join(map(str, np.flatnonzero(standing.feasible(0)))) == expected


def test_spread() -> None:
    spread = Template(spread=(TopologySpread("zone", 1, app("x")),))
    one, two = there("p", "n0", "x"), there("q", "n1", "x")
    assert allowed(spread) == "0123"
    assert allowed(spread, one) == "23"
    assert allowed(spread, one, there("r", "n2", "x")) == "0123"
    assert allowed(Template(spread=(TopologySpread("zone", 2, app("x")),)), one) == "0123"
    assert allowed(Template(spread=(TopologySpread("zone", 2, app("x")),)), one, two) == "23"
    assert (
        allowed(Template(spread=(TopologySpread("zone", 1, app("x"), min_domains=3),)), one, there("r", "n2", "x"))
        == ""
    )
    only_a = Template(spread=(TopologySpread("zone", 1, app("x")),), node_selector=(("zone", "a"),))
    assert allowed(only_a, one, two) == "01"
    assert allowed(spread, there("s", "n0", "x"), on="n1") == "23"


def test_spread_does_not_count_what_is_terminating() -> None:
    spread = Template(spread=(TopologySpread("zone", 1, app("x")),))
    going = there("p", "n2", "x", deleting=True)
    assert allowed(spread, there("q", "n0", "x"), going) == "23"
    assert allowed(spread, going) == "0123"
    assert allowed(Template(anti_affinity=(near("x"),)), going) == "014"


def test_spread_counts_only_nodes_with_all_its_keys() -> None:
    both = Template(spread=(TopologySpread("zone", 1, app("x")), TopologySpread("rack", 9, app("x"))))
    nodes = [
        a_node(f"n{n}", labels={"zone": zone, "rack": rack} if rack else {"zone": zone})
        for n, (zone, rack) in enumerate((("a", "r"), ("a", "s"), ("b", "")))
    ]
    assert allowed(both, there("p", "n0", "x"), nodes=nodes) == "01"


def test_spread_and_taints() -> None:
    nodes = [a_node("n0", labels={"zone": "a"}), a_node("n1", labels={"zone": "b"}, taints=(Taint("x", "NoSchedule"),))]
    one = there("p", "n0", "x")
    assert allowed(Template(spread=(TopologySpread("zone", 1, app("x")),)), one, nodes=nodes) == ""
    assert allowed(Template(spread=(TopologySpread("zone", 1, app("x"), honour_taints=True),)), one, nodes=nodes) == "0"


def test_nominated_pods_take_their_room_and_their_place() -> None:
    nodes = [a_node(f"n{n}", 2, 2, labels={"zone": "ab"[n], "host": f"n{n}"}) for n in range(2)]

    def nominated(label: str = "db", **more: Any) -> Pod:
        return a_pod("w", 2, 2, waiting=0.0, nominated="n0", labels={"app": label}, **more)

    assert allowed(Template(), nominated(), nodes=nodes) == "1"
    assert allowed(Template(), nominated(deleting=True), nodes=nodes) == "01"
    assert allowed(Template(), nominated(gates=("g",)), nodes=nodes) == "01"
    small = msgspec.structs.replace(nominated(), shape=a_pod("s", 1, 1).shape)
    assert allowed(Template(anti_affinity=(near("db"),)), small, nodes=nodes) == "1"
    # It may not come: what it would make possible is not there yet.
    assert allowed(Template(affinity=(near("db"),)), small, nodes=nodes) == ""
    # It is looked at on its own node alone.
    alike = [msgspec.structs.replace(each, labels={"zone": "a"}) for each in nodes]
    assert allowed(Template(anti_affinity=(near("db"),)), small, nodes=alike) == "1"
    gone = msgspec.structs.replace(small, nominated="other")
    assert allowed(Template(anti_affinity=(near("db"),)), gone, nodes=nodes) == "01"


def test_a_spread_holds_on_each_node_with_the_pods_nominated_to_it_alone() -> None:
    """As kube-scheduler looks at it: pods that are nominated to other nodes do not raise the least."""
    nodes = [a_node(f"n{n}", 8, 8, labels={"host": f"n{n}"}) for n in range(2)]
    spread = Template(spread=(TopologySpread("host", 1, app("x")),))
    coming = [a_pod(f"w{n}", 1, 1, waiting=0.0, nominated=f"n{n}", labels={"app": "x"}) for n in range(2)]
    assert allowed(spread, nodes=nodes) == "01"
    assert allowed(spread, coming[0], nodes=nodes) == "1"
    assert allowed(spread, *coming, nodes=nodes) == ""


labels = st.sampled_from(["x", "y"])
terms = st.builds(near, labels, st.sampled_from(["zone", "host"]))
templates = st.builds(
    Template,
    anti_affinity=st.lists(terms, max_size=1).map(tuple),
    affinity=st.lists(terms, max_size=1).map(tuple),
    spread=st.lists(st.builds(TopologySpread, st.just("zone"), st.integers(1, 2), labels.map(app)), max_size=1).map(
        tuple
    ),
    host_ports=st.lists(st.builds(HostPort, st.integers(1, 2)), max_size=1).map(tuple),
)
crowds = st.lists(st.tuples(st.integers(0, 4), labels, templates), min_size=1, max_size=6)


@settings(deadline=None)
@given(crowds, st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 4)), max_size=6))
def test_moving_pods_leaves_what_building_again_gives(crowd: Any, moves: Any) -> None:
    pods = [a_pod(f"p{i}", 1, 1, f"n{on}", labels={"app": a}, template=t) for i, (on, a, t) in enumerate(crowd)]
    places = [on for on, _, _ in crowd]
    standing = standing_of(a_layout(NODES, pods))
    for number, target in moves:
        pod = number % len(pods)
        standing.move(pod, target)
        places[pod] = target
    again_pods = [
        a_pod(f"p{i}", 1, 1, f"n{on}" if on >= 0 else "", 0.0, labels={"app": a}, template=t)
        for i, (on, (_, a, t)) in enumerate(zip(places, crowd, strict=True))
    ]
    again = standing_of(a_layout(NODES, again_pods))
    for pod in range(len(pods)):
        assert standing.feasible(pod).tolist() == again.feasible(pod).tolist()
        assert (standing.free == again.free).all()


@settings(deadline=None)
@given(crowds, st.sampled_from([0.25, 0.45, 9.0]))
def test_ways_out_of_many_are_those_of_each(crowd: Any, ceiling: float) -> None:
    pods = [
        a_pod(f"p{i}", 1 + i % 3, 1 + i % 2, f"n{on}", labels={"app": a}, template=t)
        for i, (on, a, t) in enumerate(crowd)
    ]
    layout = a_layout([a_node(n.name, 4, 4, labels=n.labels) for n in NODES], pods)
    standing = standing_of(layout, ceiling)
    rows = np.arange(len(pods))
    assert can_move(standing, rows).tolist() == [bool(standing.open_to(row).any()) for row in rows.tolist()]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.integers(0, 4), min_size=1, max_size=4), labels, templates), min_size=1, max_size=4),
    st.sampled_from([0.25, 0.45, 9.0]),
)
def test_ways_out_of_pods_alike_are_those_of_each(crowd: Any, ceiling: float) -> None:
    pods = []
    for number, (places, label, template) in enumerate(crowd):
        shared = {"app": label}
        for on in places:
            name = f"p{len(pods):02}"
            pods.append(a_pod(name, 1 + number % 3, 1 + number % 2, f"n{on}", labels=shared, template=template))
    layout = a_layout([a_node(n.name, 4, 4, labels=n.labels) for n in NODES], pods)
    standing = standing_of(layout, ceiling)
    rows = np.arange(len(pods))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways_out, "_SEVERAL", 1)
        found = can_move(standing, rows).tolist()
    assert found == [bool(standing.open_to(row).any()) for row in rows.tolist()]
