from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.eviction.check_input import Feasibility
from ballast.eviction.gate import NAMES, PASSED, Gate, Scope, refusals
from ballast.eviction.gate_rules import EvictionLimit, GateRules
from ballast.eviction.history import History
from ballast.model.pod import Owner, Pod
from ballast.model.template import Template
from ballast.model.workload import DisruptionBudget
from tests.worlds.shop import CHOSEN, DEPLOYMENT, NOW, SET, Shop, a_budget, a_node, a_pod

changes = st.fixed_dictionaries(
    {},
    optional={
        "deleting": st.booleans(),
        "phase": st.sampled_from(["Running", "Failed"]),
        "priority": st.sampled_from([0, 50, 2_000_000_000]),
        "owner": st.sampled_from([None, Owner("DaemonSet", "a", "u", True), Owner("CloneSet", "c", "u", True)]),
        "template": st.sampled_from([Template(), Template(local_volumes=("x",)), Template(volume_claims=True)]),
        "created": st.sampled_from([NOW - 30, NOW - 3600]),
        "node": st.sampled_from(["n1", "n2", "n3"]),
        "labels": st.sampled_from([{"app": "web"}, {"app": "db"}]),
        "ready": st.booleans(),
        "namespace": st.sampled_from(["shop", "kube-system"]),
        "uid": st.sampled_from(["", "u"]),
        "scheduler_name": st.sampled_from(["default-scheduler", "other"]),
        "annotations": st.sampled_from(
            [{}, {"ballast.dev/evict": "true"}, {"ballast.dev/exclude": "true"}, {"kubernetes.io/config.mirror": "x"}]
        ),
    },
)


@given(st.lists(changes, max_size=8), st.booleans(), st.integers(0, 2))
def test_judging_many_is_judging_each(several: list[dict[str, Any]], acting: bool, allowed: int) -> None:
    pods = [msgspec.structs.replace(a_pod(f"p{i}"), **each) for i, each in enumerate(several)]
    shop = Shop(
        others=tuple(pods),
        nodes=(a_node("n1"), a_node("n2", unschedulable=True), *(a_node(f"m{i}") for i in range(9))),
        budgets=(a_budget(allowed=allowed),),
        rules=GateRules(
            priority_below=10, refuse_volume_claims=True, steered=frozenset({"default-scheduler"}), needs_landing=False
        ),
        history=History(acting=acting, overloaded=frozenset({"n1"})),
    )
    gate = shop.gate()
    for pod, number in zip(pods, gate.screen(pods).tolist(), strict=True):
        refusal = gate.judge(pod)
        assert (NAMES[number] if number < PASSED else None) == (refusal.check if refusal else None)


def test_explaining_names_every_check_and_judging_the_first_refusal() -> None:
    shop = Shop().with_pod(deleting=True, owner=None)
    verdicts = shop.gate().explain(shop.pod)
    assert tuple(verdict.check for verdict in verdicts) == NAMES
    assert [verdict.check for verdict in verdicts if not verdict.allowed] == ["terminating", "bare", "single-replica"]
    refusal = shop.gate().judge(shop.pod)
    assert refusal is not None
    assert refusal.check == "terminating"


def test_what_an_opt_in_lifts_is_told() -> None:
    shop = Shop().with_pod(owner=None, annotations={"ballast.dev/evict": "true"})
    [verdict] = [verdict for verdict in shop.gate().explain(shop.pod) if verdict.check == "bare"]
    assert verdict.allowed
    assert "lifts" in verdict.reason


@given(
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 4),
    st.permutations(range(9)),
    st.sets(st.integers(0, 8)),
)
def test_no_order_of_asking_breaks_a_budget_or_limit(
    allowed: int, total: int, node: int, workload: int, order: list[int], failed: set[int]
) -> None:
    """Also when some of the admitted evictions then fail: a failure gives nothing back."""
    pods = [a_pod(f"p{i}", node=f"n{i % 3}", owner=Owner("CloneSet", f"c{i % 2}", "u", True)) for i in range(9)]
    shop = Shop(
        pod=pods[0],
        others=tuple(pods[1:]),
        nodes=tuple(a_node(f"n{i}") for i in range(3)),
        budgets=(DisruptionBudget("shop", "all", CHOSEN, allowed),),
        rules=GateRules(
            limit_total=EvictionLimit(total),
            limit_node=EvictionLimit(node),
            limit_namespace=EvictionLimit(0),
            limit_workload=EvictionLimit(workload),
            max_unavailable=EvictionLimit(3),
            rates=(),
        ),
    )
    gate = shop.gate()
    admitted = [pods[i] for i in order if gate.admit(pods[i], Feasibility(fits=True)) is None]
    done = [pod for pod in admitted if pods.index(pod) not in failed]
    for some in (admitted, done):
        assert len(some) <= allowed
        assert not total or len(some) <= total
        assert all(not node or count <= node for count in Counter(pod.node for pod in some).values())
        for count in Counter(pod.owner for pod in some).values():
            assert count <= min(3, workload or 3)


def test_time_goes_on_between_the_plan_and_the_act() -> None:
    shop = Shop(workloads=(DEPLOYMENT, SET))
    gate = shop.gate()
    assert gate.admit(shop.pod) is None
    later = Gate(gate.facts, gate.rules, History(acting=True, paused="paused by key paused"))
    later.tally = gate.tally
    refusal = later.judge(shop.others[0])
    assert refusal is not None
    assert refusal.check == "min-ready"


def test_refusals_are_counted_by_name_in_order() -> None:
    numbers = np.array([NAMES.index("bare"), NAMES.index("static"), PASSED, NAMES.index("bare")])
    assert list(refusals(numbers)) == [("static", 1), ("bare", 2)]
    assert list(refusals(Shop().gate().screen([]))) == []


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("critical", {"namespace": "kube-system"}),
        ("bare", {"owner": None}),
        ("local-storage", {"template": Template(local_volumes=("x",))}),
        ("pod-selector", {"labels": {"app": "db"}}),
        ("priority", {"priority": 50}),
        ("opt-out", {"annotations": {"ballast.dev/exclude": "true"}}),
        ("limit-node", {"node": "n3"}),
        ("terminating", {"deleting": True}),
        ("finished", {"phase": "Failed"}),
        ("min-age", {"created": NOW - 30}),
        ("identity", {"uid": ""}),
    ],
)
def test_a_pod_that_differs_in_one_thing_is_judged_by_itself(check: str, change: dict[str, Any]) -> None:
    pod = a_pod()
    other = msgspec.structs.replace(pod, **change)
    shop = Shop(
        pod=pod,
        others=(other, *(a_pod(f"o{i}", node="n2") for i in range(9))),
        nodes=(a_node("n1"), a_node("n2"), a_node("n3")),
        evicted=(a_pod("gone", node="n3", owner=None),),
        rules=GateRules(
            pod_selector=CHOSEN,
            priority_below=10,
            limit_workload=EvictionLimit(0),
            needs_landing=False,
            needs_confirmation=False,
        ),
        history=History(acting=True),
    )
    gate = shop.gate()
    numbers = gate.screen([pod, other]).tolist()
    assert [NAMES[number] if number < PASSED else None for number in numbers] == [None, check]


def test_pods_of_one_template_workload_and_node_are_judged_once() -> None:
    class CountingGate(Gate):
        scopes: ClassVar[list[Scope]] = []

        def first(self, pod: Pod, scope: Scope) -> int:
            self.scopes.append(scope)
            return super().first(pod, scope)

    pod, shop = a_pod(), Shop()
    alike = [msgspec.structs.replace(pod, name=name, uid=name) for name in ("a", "b", "c")]
    gate = CountingGate(shop.gate().facts, shop.rules)
    gate.screen(alike)
    assert gate.scopes == [Scope.TEMPLATE, Scope.WORKLOAD, Scope.NODE]


@pytest.mark.parametrize("annotation", [{"evict": "true"}, {"evict-lifts": "bare"}])
def test_an_annotation_for_operators_lifts_nothing_on_a_pod(annotation: dict[str, str]) -> None:
    notes = {f"ballast.dev/{key}": value for key, value in annotation.items()}
    shop = Shop().with_pod(owner=None, annotations=notes)
    lifted = replace(shop, rules=GateRules(min_replicas=0))
    assert lifted.verdict("bare").allowed
    kept = replace(shop, rules=GateRules(min_replicas=0, operator_only=frozenset(notes)))
    assert not kept.verdict("bare").allowed


def test_pods_are_admitted_together_or_not_at_all() -> None:
    shop = Shop(
        others=tuple(a_pod(f"o{i}", node=f"n{i}") for i in range(2, 5)),
        nodes=tuple(a_node(f"n{i}") for i in range(1, 5)),
        budgets=(a_budget(allowed=2),),
        rules=GateRules(
            limit_workload=EvictionLimit(0), limit_namespace=EvictionLimit(0), max_unavailable=EvictionLimit(5)
        ),
    )
    gate, three = shop.gate(), (shop.pod, *shop.others[:2])
    for outlook, check in ((Feasibility(fits=True), "pdb"), (Feasibility(fits=False), "node-fit")):
        refusal = gate.admit_together(three, outlook)
        assert refusal is not None
        assert refusal.check == check
    refusal = gate.admit(shop.pod, Feasibility(fits=False))
    assert refusal is not None
    assert refusal.check == "node-fit"
    # What was refused has taken nothing of the budget; what is admitted now has.
    assert gate.admit_together(three[:2], Feasibility(fits=True)) is None
    refusal = gate.judge(three[2], Feasibility(fits=True))
    assert refusal is not None
    assert refusal.check == "pdb"


def test_a_rehearsal_judges_by_the_same_history() -> None:
    gate = Shop(history=History(acting=True, paused="paused by key paused")).gate()
    refusal = gate.rehearsal().judge(a_pod())
    assert refusal is not None
    assert refusal.check == "paused"


def test_a_share_is_rounded_down_but_never_below_one() -> None:
    rules = GateRules()
    assert [rules.max_unavailable.of(count) for count in (1, 9, 10, 19, 20)] == [1, 1, 1, 1, 2]
    assert replace(rules, limit_total=EvictionLimit(0)).limit_total.of(10) is None
