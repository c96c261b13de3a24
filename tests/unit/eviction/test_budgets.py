"""Budgets: how many evictions in a time, in the cluster or of a node, workload or namespace, when and by whom."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ballast.base.errors import SettingsError
from ballast.eviction.gate_rules import UNLIMITED, EvictionBudget, EvictionLimit, GateRules, percent
from ballast.eviction.history import History
from ballast.model.duration import DAY
from ballast.planning.from_settings import rules_of
from ballast.settings import load
from tests.worlds.shop import NOW, WEB, Shop, a_pod

FREE = {"limit_total": UNLIMITED, "limit_node": UNLIMITED, "limit_namespace": UNLIMITED, "limit_workload": UNLIMITED}
OTHER = ("shop", "Deployment", "api")
ROWS = {"cluster": "rate", "node": "limit-node", "namespace": "limit-namespace", "workload": "workload-window"}
PAST = (
    (NOW - 7200, "n1", WEB, "relieve"),
    (NOW - 1800, "n1", WEB, "rebalance"),
    (NOW - 900, "n2", OTHER, "relieve"),
    (NOW - 60, "n3", ("else", "Deployment", "db"), "relieve"),
)


def shop(budget: EvictionBudget, **more: Any) -> Shop:
    rules = GateRules(rates=(), cooldown=0.0, budgets=(budget,), planner="rebalance", **FREE)
    return replace(Shop(), rules=rules, history=History(past=PAST), **more)


@pytest.mark.parametrize(
    ("scope", "spent"), [("cluster", 3), ("node", 1), ("namespace", 2), ("workload", 1)], ids=lambda each: f"{each}"
)
def test_what_was_evicted_lately_is_spent(scope: str, spent: int) -> None:
    """The pod is of workload web in namespace shop on n1."""
    row = ROWS[scope]
    used = shop(EvictionBudget(EvictionLimit(spent), 3600.0, scope)).verdict(row)
    assert not used.allowed
    assert "BALLAST_EVICTION__BUDGETS" in used.reason
    assert shop(EvictionBudget(EvictionLimit(spent + 1), 3600.0, scope)).verdict(row).allowed
    before = shop(EvictionBudget(EvictionLimit(spent + 1), 3600.0, scope), evicted=(a_pod("x"),))
    assert not before.verdict(row).allowed, "the plan spends of it too"
    assert shop(EvictionBudget(EvictionLimit(spent + 2), 3600.0, scope)).verdict(row).allowed
    for other in set(ROWS.values()) - {row}:
        assert shop(EvictionBudget(EvictionLimit(1), 3600.0, scope)).verdict(other).allowed


def test_a_share_is_of_the_pods_or_of_the_workload_s_replicas() -> None:
    assert not shop(EvictionBudget(percent(50), 3600.0, "workload")).verdict("workload-window").allowed
    assert shop(EvictionBudget(percent(100), 3600.0, "workload")).verdict("workload-window").allowed


def test_nodes_that_gave_a_pod_are_those_that_it_permits() -> None:
    few = EvictionBudget(EvictionLimit(3), 3600.0, of_nodes=True)
    assert shop(few).verdict("rate").allowed, "n1 is one of the three"
    elsewhere = replace(shop(few), pod=a_pod("web-9", node="n4"))
    assert not elsewhere.verdict("rate").allowed
    assert replace(shop(replace(few, limit=EvictionLimit(4))), pod=a_pod("web-9", node="n4")).verdict("rate").allowed


def test_a_budget_is_of_some_planners() -> None:
    mine = EvictionBudget(EvictionLimit(1), 3600.0, planners=frozenset({"rebalance"}))
    assert not shop(mine).verdict("rate").allowed
    assert shop(replace(mine, limit=EvictionLimit(2))).verdict("rate").allowed, "relieve does not spend of it"
    assert shop(replace(mine, planners=frozenset({"relieve"}))).verdict("rate").allowed


def test_a_history_that_was_set_back_is_spent() -> None:
    back = replace(shop(EvictionBudget(EvictionLimit(9), DAY)), history=History(set_back=NOW - 3600))
    assert not back.verdict("rate").allowed


def written(*budgets: dict[str, Any], **more: str) -> GateRules:
    named = {f"BALLAST_EVICTION__{name}": value for name, value in more.items()}
    return rules_of(load({"BALLAST_EVICTION__BUDGETS": json.dumps(budgets), **named}))


def test_defaults_of_the_older_spellings_give_way_and_what_is_set_holds_too() -> None:
    rules = written({"pods": 20, "per": "1h"}, LIMIT_NODE="3", RATE="5/1h")
    assert rules.budgets == (EvictionBudget(EvictionLimit(20), 3600.0, text='{"pods": 20, "per": "1h"}'),)
    assert (rules.limit_node, rules.limit_total, rules.cooldown) == (EvictionLimit(3), UNLIMITED, 0.0)
    assert rules.rates == ((EvictionLimit(5), 3600.0),)
    plain = rules_of(load({}))
    assert (plain.budgets, plain.limit_total, plain.cooldown) == ((), EvictionLimit(5), 600.0)


def test_a_schedule_bounds_its_time_alone() -> None:
    [budget] = written({"pods": 1, "schedule": "0 8 * * mon-fri", "duration": "10h"}).budgets
    monday = 1_764_576_000.0  # 2025-12-01 08:00 UTC
    assert budget.holds("relieve", monday + 60)
    assert not budget.holds("relieve", monday - 60)
    assert not budget.holds("relieve", monday + 10 * 3600 + 60)
    [always] = written({"share": 0.1, "reasons": ["rebalance"]}).budgets
    assert (always.limit.percent, always.holds("rebalance", monday - 60)) == (10, True)
    assert not always.holds("relieve", monday)


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ({"pods": 1, "nodes": 1}, "give one of pods, nodes and share"),
        ({"per": "1h"}, "give one of pods, nodes and share"),
        ({"pods": "10%"}, "a number of at least 1 for pods and nodes"),
        ({"share": 3}, "for share a percentage"),
        ({"pods": 0}, "a number of at least 1"),
        ({"pods": 1, "per": "0s"}, "longer than 0"),
        ({"pods": 1, "scope": "zone"}, "scope is cluster, node, workload or namespace"),
        ({"nodes": 1, "scope": "workload"}, "nodes are counted in the cluster"),
        ({"pods": 1, "schedule": "0 8 * * *"}, "give schedule and duration together"),
        ({"pods": 1, "schedule": "often", "duration": "1h"}, "five fields"),
        ({"pods": 1, "planners": ["nobody"]}, "expected planners as a list"),
        ({"pods": 1, "limit": 3}, "there is no limit"),
        ([1], "expected budgets such as"),
    ],
)
def test_what_is_no_budget_is_refused_with_what_is_one(budget: Any, told: str) -> None:
    with pytest.raises(SettingsError, match="BALLAST_EVICTION__BUDGETS") as refused:
        load({"BALLAST_EVICTION__BUDGETS": json.dumps([budget])})
    assert told in str(refused.value)
