import re
import string
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ballast.model.node import Node
from ballast.telemetry.node_names import AMBIGUOUS, NOT_SELECTED, SEPARATOR, UNMATCHED, NodeNames

NODES = [
    Node(
        name="ip-10-0-0-1.eu.internal",
        labels={"rack": "r1"},
        addresses=(("InternalIP", "10.0.0.1"), ("Hostname", "ip-10-0-0-1.eu.internal"), ("ExternalIP", "1.2.3.4")),
    ),
    Node(name="worker", labels={"rack": "r2"}, addresses=(("InternalIP", "10.0.0.2"), ("Hostname", "worker"))),
    Node(name="six", addresses=(("InternalIP", "fd00:0:0::6"),)),
]


@pytest.mark.parametrize(
    ("value", "row"),
    [
        ("ip-10-0-0-1.eu.internal", 0),
        ("IP-10-0-0-1.EU.internal.", 0),
        ("ip-10-0-0-1.eu.internal:9100", 0),
        ("ip-10-0-0-1", 0),
        ("ip-10-0-0-1:9100", 0),
        ("10.0.0.1", 0),
        ("10.0.0.1:9100", 0),
        ("worker", 1),
        ("worker:9100", 1),
        ("worker.example.com", 1),
        ("worker.example.com:9100", 1),
        ("fd00::6", 2),
        ("[fd00::6]:9100", 2),
        ("[fd00:0::0:6]", 2),
        ("10.0.0.9:9100", UNMATCHED),
        ("10", UNMATCHED),
        ("ip-10-0-0-1.us.internal", UNMATCHED),
        ("1.2.3.4", 0),
        ("1.2.3.4:9100", 0),
        ("worker:metrics", 1),
        ("ip-10-0-0-1.eu.internal:https-metrics", 0),
        ("worker:not_a_port", UNMATCHED),
        ("elsewhere\x1fworker:9100", 1),
        ("worker\x1f10.0.0.1", 1),
        ("elsewhere\x1fnowhere", UNMATCHED),
        ("", UNMATCHED),
        (":9100", UNMATCHED),
        ("fd00::6:9100", UNMATCHED),
    ],
)
def test_what_exporters_call_a_node(value: str, row: int) -> None:
    names = NodeNames(NODES)
    assert names.row(value) == row
    assert names.rows([value, "worker", value]).tolist() == [row, 1, row]


def test_a_short_name_of_two_nodes_is_ambiguous() -> None:
    names = NodeNames([Node(name="a.east"), Node(name="a.west")])
    assert names.row("a") == AMBIGUOUS
    assert names.row("a.east") == 0
    assert names.row("a.north") == UNMATCHED


def test_an_address_of_two_nodes_is_ambiguous() -> None:
    shared = (("InternalIP", "10.0.0.1"),)
    names = NodeNames([Node(name="old", addresses=shared), Node(name="new", addresses=shared)])
    assert names.row("10.0.0.1:9100") == AMBIGUOUS


def test_where_other_nodes_exist_names_are_exact_and_what_fits_none_is_no_stranger() -> None:
    names = NodeNames([*NODES, Node(name="b.east")], selecting=True, identity="rack")
    for value, row in (("worker:9100", 1), ("10.0.0.1:9100", 0), ("r2", 1), ("b.east", 3)):
        assert names.row(value) == row
    for value in ("worker.example.com", "ip-10-0-0-1:9100", "b", "10.0.0.9:9100", "elsewhere"):
        assert names.row(value) == NOT_SELECTED
    assert names.row("") == UNMATCHED
    following = names.following(tuple(replace(node, ready=False) for node in names.nodes))
    assert following is not None
    assert following.row("nobody") == NOT_SELECTED


def test_an_address_of_two_selected_nodes_is_ambiguous_too() -> None:
    shared = (("InternalIP", "10.0.0.1"),)
    nodes = [Node(name="old", addresses=shared), Node(name="new", addresses=shared)]
    assert NodeNames(nodes, selecting=True).row("10.0.0.1") == AMBIGUOUS


def test_a_node_label_can_be_the_identity() -> None:
    names = NodeNames(NODES, identity="rack")
    assert names.row("r2") == 1
    assert names.row("10.0.0.1") == 0


def test_a_rewrite_comes_first() -> None:
    names = NodeNames(NODES, rewrite={r"metal-(\w+)-\d+": "$1", r"(.*)/node": r"\1"})
    assert names.row("metal-worker-17") == 1
    assert names.row("worker/node") == 1
    assert names.row("metal-nobody-1") == UNMATCHED


CATASTROPHIC = r"(.*)*-(.*)*-(.*)*:9100"


@pytest.mark.parametrize("selecting", [False, True])
def test_no_pattern_sees_a_value_that_is_longer_than_any_name(selecting: bool) -> None:
    names = NodeNames(NODES, rewrite={CATASTROPHIC: "$1"}, selecting=selecting)
    lengths = []

    class Recording:
        def fullmatch(self, value: str) -> None:
            lengths.append(len(value))

    names._rewrite = [(cast("re.Pattern[str]", Recording()), "")]
    longest = "x" * 253 + ":" + "p" * 15
    nobody = NOT_SELECTED if selecting else UNMATCHED
    for value in (longest, longest + "x", "-" * 2_000, "worker" + SEPARATOR + "-" * 4_000):
        assert names.row(value) == (1 if "worker" in value else nobody)
    assert lengths == [269, len("worker")]


def test_a_long_value_ends_at_once_whatever_the_pattern() -> None:
    names = NodeNames(NODES, rewrite={CATASTROPHIC: "$1"})
    assert names.row("-" * 4_000) == UNMATCHED


def test_many_unknown_values_do_not_pile_up() -> None:
    names = NodeNames(NODES)
    for index in range(25_000):
        names.row(f"10.1.0.1:{index}")
    assert len(names._known) <= 10_013


host = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=5)
node_names = st.lists(st.builds(".".join, st.lists(host, min_size=1, max_size=3)), unique=True, max_size=8)


@given(node_names, st.integers(1, 65535))
def test_every_node_answers_to_its_own_name_and_address(found: list[str], port: int) -> None:
    fleet = [Node(name=name, addresses=(("InternalIP", f"10.0.0.{row}"),)) for row, name in enumerate(found)]
    names = NodeNames(fleet)
    for row, name in enumerate(found):
        for value in (name, f"{name}:{port}", f"10.0.0.{row}", f"10.0.0.{row}:{port}"):
            assert names.row(value) == row


@given(node_names, st.builds(".".join, st.lists(host, min_size=1, max_size=3)))
def test_a_value_is_never_guessed(found: list[str], value: str) -> None:
    names = NodeNames([Node(name=name) for name in found])
    row = names.row(value)
    if value in found:
        assert row == found.index(value)
        return
    short = value.split(".")[0]
    could_be = [
        index for index, name in enumerate(found) if name.split(".")[0] == short and ("." in name) != ("." in value)
    ]
    assert row == (could_be[0] if len(could_be) == 1 else AMBIGUOUS if could_be else UNMATCHED)


@given(node_names, node_names)
def test_the_order_of_nodes_does_not_matter(found: list[str], values: list[str]) -> None:
    forward = NodeNames([Node(name=name) for name in found])
    backward = NodeNames([Node(name=name) for name in reversed(found)])
    for value in (*values, *(name.split(".")[0] for name in found)):
        one, other = forward.row(value), backward.row(value)
        assert one == (len(found) - 1 - other if other >= 0 else other)


def test_names_are_kept_while_nodes_change_in_other_ways() -> None:
    nodes = (Node(name="a", addresses=(("InternalIP", "10.0.0.1"),)), Node(name="b", labels={"rack": "r"}))
    names = NodeNames(nodes, identity="rack")
    assert names.following(nodes) is names
    touched = (replace(nodes[0], ready=False, labels={"zone": "z"}), nodes[1])
    following = names.following(touched)
    assert following is not None
    assert following.nodes == touched
    assert names.nodes == nodes
    assert following.rows(["10.0.0.1:9100", "r", "c"]).tolist() == [0, 1, UNMATCHED]


@pytest.mark.parametrize(
    "change", [{"name": "c"}, {"addresses": (("InternalIP", "10.0.0.2"),)}, {"labels": {"rack": "other"}}]
)
def test_names_are_read_again_when_a_node_is_called_otherwise(change: dict[str, Any]) -> None:
    nodes = (Node(name="a", addresses=(("InternalIP", "10.0.0.1"),)), Node(name="b", labels={"rack": "r"}))
    names = NodeNames(nodes, identity="rack")
    assert names.following((nodes[0], replace(nodes[1], **change))) is None
    assert names.following(nodes[:1]) is None
