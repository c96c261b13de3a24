import re
import string
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ballast.model.node import Node, Taint
from ballast.telemetry import node_claims
from ballast.telemetry.node_names import AMBIGUOUS, NOT_SELECTED, SEPARATOR, UNMATCHED, NodeNames

VIRTUAL = Taint("virtual-kubelet.io/provider", "NoSchedule", "azure")
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
    assert following._index is names._index
    assert following.nodes == touched
    assert names.nodes == nodes
    assert following.rows(["10.0.0.1:9100", "r", "c"]).tolist() == [0, 1, UNMATCHED]


@pytest.mark.parametrize(
    "change", [{"name": "c"}, {"addresses": (("InternalIP", "10.0.0.2"),)}, {"labels": {"rack": "other"}}]
)
def test_names_are_read_again_when_a_node_is_called_otherwise(change: dict[str, Any]) -> None:
    nodes = (Node(name="a", addresses=(("InternalIP", "10.0.0.1"),)), Node(name="b", labels={"rack": "r"}))
    names = NodeNames(nodes, identity="rack")
    changed = names.following((nodes[0], replace(nodes[1], **change)))
    assert changed._index is not names._index
    assert [changed.row(called) for called in ("c", "10.0.0.2", "other")].count(1) == 1
    assert len(names.following(nodes[:1])) == 1


KINDS = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")
CALLED = ("192.168.7.{0}:9100", "203.0.113.{0}:9100", "w{0}:9100", "w{0}.pool.example", "[fd00:0:0::{0}]:9100")


def honest(row: int, created: float = 0.0) -> Node:
    return Node(
        f"w{row}.pool.example",
        addresses=(
            ("InternalIP", f"192.168.7.{row}"),
            ("InternalIP", f"fd00::{row}"),
            ("Hostname", f"w{row}.pool.example"),
            ("ExternalIP", f"203.0.113.{row}"),
        ),
        created=created,
    )


def claiming(node: Node, kind: str, count: int = 10, *, first: bool = False) -> Node:
    texts = ("192.168.7.{0}", "203.0.113.{0}", "w{0}", "w{0}.pool.example", "FD00:0000::0:{0}")
    more = tuple((kind, text.format(row)) for text in texts for row in range(count))
    return replace(node, addresses=more + node.addresses if first else node.addresses + more)


def rows_of(names: NodeNames, count: int = 10) -> list[list[int]]:
    return [[names.row(text.format(row)) for row in range(count)] for text in CALLED]


@pytest.mark.parametrize("created", [0.0, 1.0])
@pytest.mark.parametrize("liar", [0, 5, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_who_lists_the_addresses_of_others_gets_none_and_is_named(kind: str, liar: int, created: float) -> None:
    """Whether it lists them before the first cycle, where it may be the oldest, or later at the head of its list."""
    nodes = tuple(honest(row, created=2.0 - (row == liar) if created else 0.0) for row in range(10))
    names = NodeNames(nodes)
    assert rows_of(names) == [list(range(10))] * 5
    assert names.contests() == ()
    before = NodeNames([*nodes[:liar], claiming(nodes[liar], kind), *nodes[liar + 1 :]])
    after = names.following((*nodes[:liar], claiming(nodes[liar], kind, first=True), *nodes[liar + 1 :]))
    for lied in (before, after):
        assert rows_of(lied) == [list(range(10))] * 5
        assert {name for one in lied.contests() for name in one.others} == {nodes[liar].name}
        assert {name for one in lied.contests() for name in one.liars} == {nodes[liar].name}


def test_a_claim_that_was_refused_gains_nothing_by_waiting() -> None:
    """The owner goes away and another node gets its address: still it is not the liar's."""
    liar = replace(honest(1), addresses=(("InternalIP", "192.168.7.0"), *honest(1).addresses), created=1.0)
    names = NodeNames((honest(0, 2.0), honest(1, 1.0)))
    assert rows_of(names, 2)[0] == [0, 1]
    names = names.following((honest(0, 2.0), liar))
    assert rows_of(names, 2)[0] == [0, 1]
    names = names.following((replace(honest(0, 2.0), ready=False), liar))
    rows_of(names, 2)
    names = names.following((honest(0, 2.0), liar))
    assert rows_of(names, 2)[0] == [0, 1]


def test_addresses_of_nodes_to_come_cannot_be_held() -> None:
    liar = claiming(honest(0, 1.0), "InternalIP", 10_000)
    names = NodeNames((liar,))
    names = names.following((liar, honest(1, 9.0)))
    assert rows_of(names, 2) == [[0, 1]] * 5
    assert names.contests()[0].liars == (liar.name,)


@pytest.mark.parametrize("held", [False, True])
def test_a_node_that_is_gone_leaves_its_address_to_the_living_one_and_is_no_liar(held: bool) -> None:
    shared = (("InternalIP", "10.0.0.1"),)
    old, new = Node("old", addresses=shared, created=1.0), Node("new", addresses=shared, created=2.0)
    names = NodeNames((old,))
    if held:
        assert names.row("10.0.0.1") == 0
    for gone in (replace(old, ready=False), replace(old, deleting=True)):
        both = names.following((new, gone))
        assert both.row("10.0.0.1:9100") == 0
        assert both.contests() == ()


@pytest.mark.parametrize("trace", [{"labels": {"type": "virtual-kubelet"}}, {"taints": (VIRTUAL,)}])
def test_a_machine_comes_before_a_node_that_is_none(trace: dict[str, Any]) -> None:
    shared = (("InternalIP", "10.0.0.1"),)
    virtual, machine = Node("a", addresses=shared, created=1.0, **trace), Node("b", addresses=shared, created=2.0)
    names = NodeNames((virtual, machine))
    assert names.row("10.0.0.1") == 1
    assert names.contests() == ()


def test_at_a_start_the_older_node_has_the_address_and_where_nothing_tells_both_are_named() -> None:
    shared = (("InternalIP", "10.0.0.1"),)
    older, younger = (Node(name, addresses=shared, created=at) for name, at in (("b", 1.0), ("a", 2.0)))
    assert NodeNames((younger, older)).row("10.0.0.1") == 1
    equal = NodeNames((replace(younger, created=1.0), older))
    assert equal.contests() == ()
    assert equal.row("10.0.0.1") == AMBIGUOUS
    assert [(one.owner, one.others, one.liars) for one in equal.contests()] == [("", ("a", "b"), ())]


def test_an_external_address_of_many_is_nobodys_and_their_own_stay_right() -> None:
    nodes = [
        Node(f"n{row}", addresses=(("InternalIP", f"10.0.0.{row}"), ("ExternalIP", "1.2.3.4")), created=row)
        for row in range(5)
    ]
    names = NodeNames(nodes)
    assert names.row("1.2.3.4:9100") == AMBIGUOUS
    assert [names.row(f"10.0.0.{row}") for row in range(5)] == list(range(5))
    assert not any(one.liars for one in names.contests())


def test_a_floating_address_disputes_nobody_while_it_moves() -> None:
    def fleet(*holders: int) -> tuple[Node, ...]:
        own = [(("InternalIP", f"10.0.0.{row}"),) for row in range(3)]
        floating = (("InternalIP", "10.0.0.100"),)
        return tuple(Node(f"n{row}", addresses=own[row] + floating * (row in holders)) for row in range(3))

    names = NodeNames(fleet(0))
    for holders, row in (((0,), 0), ((0, 1), 0), ((1,), 1), ((1, 2), 1), ((2,), 2), ((0, 2), 2), ((0,), 0)):
        names = names.following(fleet(*holders))
        assert [names.row(f"10.0.0.{each}") for each in range(3)] == [0, 1, 2]
        assert names.row("10.0.0.100:9100") == row
        assert not any(one.liars for one in names.contests())


def test_two_nodes_that_swap_addresses_have_their_own_at_the_end() -> None:
    one, two = (Node(name, addresses=(("InternalIP", address),)) for name, address in (("a", "1.1.1.1"), ("b", "::1")))
    names = NodeNames((one, two))
    assert (names.row("1.1.1.1"), names.row("[::1]:9100")) == (0, 1)
    names = names.following((replace(one, addresses=two.addresses), two))
    assert names.row("[::1]:9100") == 1
    names = names.following((replace(one, addresses=two.addresses), replace(two, addresses=one.addresses)))
    assert (names.row("1.1.1.1"), names.row("[0:0::1]:9100")) == (1, 0)
    assert names.contests() == ()


def test_a_name_that_is_an_address_is_never_taken_by_a_list() -> None:
    nodes = (Node("10.0.0.7", created=9.0), Node("b", addresses=(("InternalIP", "10.0.0.7"),), created=1.0))
    names = NodeNames(nodes)
    assert names.row("10.0.0.7:9100") == 0
    assert [one.liars for one in names.contests()] == [("b",)]


def test_ten_thousand_addresses_in_each_of_some_nodes_are_looked_at_once() -> None:
    nodes = [claiming(honest(row), "InternalIP", 2_000) for row in range(3)]
    looks = []
    real = node_claims.claims_of

    def counting(node: Node, *arguments: Any, **more: Any) -> Any:
        looks.append(node.name)
        return real(node, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_claims, "claims_of", counting)
        names = NodeNames(nodes)
    assert len(looks) == 3
    assert rows_of(names, 3) == [[0, 1, 2]] * 5
