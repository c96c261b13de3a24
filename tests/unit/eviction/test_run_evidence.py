"""Where pods can run, and where nothing starts, against the rules written out plainly."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.eviction.run_evidence import with_evidence
from ballast.eviction.starting import STARTING, TRIED, barren_nodes, in_words
from ballast.model.node import Node, Taint
from ballast.model.pod import Owner, Pod
from ballast.model.template import Template, Toleration
from ballast.placement.node_constraints import NodeConstraints
from tests.properties import examples

NOW = 1_700_000_000.0
SOFT = [Taint("spot", "PreferNoSchedule", "x"), Taint("ballast.dev/overloaded", "PreferNoSchedule")]
SIGNS = ["condition KernelDeadlock", "example.org/reboot", "ballast.dev/leaving"]


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    return [
        Node(
            f"n{number}",
            system=draw(st.sampled_from(["linux/amd64", "linux/arm64", ""])),
            signs=tuple(draw(st.lists(st.sampled_from(SIGNS), unique=True, max_size=2))),
            taints=tuple(draw(st.lists(st.sampled_from(SOFT), unique=True, max_size=2))),
            images=tuple(draw(st.lists(st.sampled_from(["a", "b"]), unique=True))),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


@st.composite
def pods(draw: st.DrawFn, there: list[Node]) -> list[Pod]:
    return [
        Pod(
            "shop",
            f"p{number}",
            node=draw(st.sampled_from(["", *(node.name for node in there)])),
            owner=Owner("ReplicaSet", draw(st.sampled_from(["x", "y"])), "u", True),
            ready=draw(st.booleans()),
            deleting=draw(st.sampled_from([False, False, True])),
            template=Template(
                unpulled=draw(st.sampled_from([(), ("a",), ("a", "b")])),
                tolerations=draw(st.sampled_from([(), (Toleration("spot", "Exists"),)])),
            ),
        )
        for number in range(draw(st.integers(1, 8)))
    ]


def may(pod: Pod, target: Node, there: list[Node], others: list[Pod]) -> bool:
    """As the words of the page say it."""
    home = next((node for node in there if node.name == pod.node), None)
    ready = [other for other in others if other.ready and not other.deleting and other.node]
    same = [other for other in ready if other.owner and pod.owner and other.owner.name == pod.owner.name]
    system = home is None or target.system in {home.system, *(where(other, there).system for other in same)}
    signs = {sign for sign in (*target.signs, *(t.sign for t in target.taints)) if "ballast.dev/" not in sign}
    kept = set() if home is None else {*home.signs, *(t.sign for t in home.taints)}
    kept |= {SOFT[0].sign} if pod.template.tolerations else set()
    holders = {other.node for other in ready if other.template.unpulled == pod.template.unpulled}
    image = {*pod.template.unpulled} <= {*target.images} or (home is not None and target.name in holders)
    return system and (home is None or signs <= kept) and image


def where(pod: Pod, there: list[Node]) -> Node:
    return next(node for node in there if node.name == pod.node)


@examples(300)
@given(data=st.data())
def test_pods_may_go_exactly_where_the_rules_say(data: st.DataObject) -> None:
    there = data.draw(nodes())
    given_pods = data.draw(pods(there))
    known = with_evidence(there, given_pods, "ballast.dev")
    sites = NodeConstraints(there)
    for before, after in zip(given_pods, known, strict=True):
        expected = [may(before, node, there, given_pods) for node in there]
        assert sites.allowed(after.template).tolist() == expected


def test_where_all_nodes_are_alike_nothing_is_made_anew() -> None:
    there = [Node("n1", system="linux/amd64"), Node("n2", system="linux/amd64", taints=(SOFT[1],))]
    some = [Pod("shop", "p", node="n1")]
    assert with_evidence(there, some, "ballast.dev") is some


def trying(name: str, namespace: str = "a", ago: float = 2 * TRIED, **more: Any) -> Pod:
    given: dict[str, Any] = {"node": "n1", "owner": Owner("ReplicaSet", name, name, True), "created": NOW - ago}
    return Pod(namespace, name, **(given | more))


def test_on_which_nodes_nothing_starts() -> None:
    def names(*some: Pod) -> set[str]:
        return {*barren_nodes(some, NOW)}

    both = trying("x"), trying("y", "b")
    assert names(*both) == {"n1"}
    assert names(trying("x"), trying("y")) == set(), "one tenant"
    assert names(trying("x"), trying("x", "b")) == {"n1"}, "workloads of one name in two namespaces are two"
    assert names(both[0], trying("y", "b", ago=TRIED - 1)) == set()
    assert names(both[0], trying("y", "b", node="n2")) == set()
    assert names(both[0], trying("y", "b", ready=True)) == set()
    assert names(*both, trying("z", "c", ago=3 * TRIED, ready=True)) == {"n1"}, "it came before"
    assert names(*both, trying("z", "c", ago=TRIED, ready=True)) == set(), "it came later"
    running = [trying(*where, ago=STARTING - 1, phase="Running") for where in (("x", "a"), ("y", "b"))]
    assert names(*running) == {"n1"}
    assert names(*(trying(*where, ago=STARTING, phase="Running") for where in (("x", "a"), ("y", "b")))) == set()
    assert names(both[0], trying("y", "b", owner=None)) == {"n1"}


def test_the_sentence_names_the_node() -> None:
    told = in_words(barren_nodes([trying("x", ago=1800), trying("y", "b")], NOW))
    assert told == (
        "nothing starts on n1: 2 pods of 2 workloads in 2 namespaces have been trying for up to 30 min, and none that "
        "came since is Ready"
    )
    assert in_words({}) is None


def test_ten_thousand_pods_are_looked_at_once() -> None:
    many = [trying(f"x{number}", f"n{number % 7}", node=f"n{number % 50}") for number in range(10_000)]
    assert len(barren_nodes(many, NOW)) == len({*np.arange(10_000) % 50})
