"""Pods whose owner would create something else now stay, whatever the owner's kind; others move as before."""

from typing import Any

import pytest

from tests.unit.cli.planning.conftest import Plan
from tests.worlds.owned import HOT, ON, cluster, deployment, direct, made, ref, replica, replica_sets, stateful
from tests.worlds.printed import Json

KRUISE, ROLLOUTS, SETS = "apps.kruise.io/v1beta1", "argoproj.io/v1alpha1", "leaderworkerset.x-k8s.io/v1"
ON_DELETE, FROM_1 = {"type": "OnDelete"}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
REVISED: dict[str, Any] = {"currentRevision": "x-old", "updateRevision": "x-new"}
SETTLED: dict[str, Any] = {"currentRevision": "x-new", "updateRevision": "x-new"}
ROLLOUT, LEADERS = ref("Rollout", "x", ROLLOUTS), "leaderworkerset.sh/template-revision-hash"


def all_of(value: str) -> dict[str, str]:
    return dict.fromkeys(ON, value)


def first(value: str, others: str) -> dict[str, str]:
    return {"n1": value, "n2": others, "n3": others}


def percent(text: str) -> Any:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": text}}


MOVES: dict[str, list[Json]] = {
    "a StatefulSet at rest": stateful(all_of("x-new"), **SETTLED),
    "OnDelete, all updated, never promoted": stateful(all_of("x-new"), strategy=ON_DELETE, **REVISED),
    "OnDelete, the pod is updated": stateful(first("x-new", "x-old"), strategy=ON_DELETE, updatedReplicas=1, **REVISED),
    "RollingUpdate, all updated, never promoted": stateful(all_of("x-new"), **REVISED),
    "below the partition": stateful(first("x-old", "x-new"), strategy=FROM_1, updatedReplicas=2, **REVISED),
    "no revision is told": stateful(all_of("")),
    "a Deployment at rest": deployment({"x-new": ON}),
    "a paused Deployment at rest": deployment({"x-new": ON}, paused=True),
    "an empty ReplicaSet of before": deployment({"x-new": ON, "x-old": ()}),
    "ReplicaSets of a Rollout at rest": replica_sets(ROLLOUT, {"x-new": ON, "x-old": ()}),
    "a ReplicaSet with no Deployment": replica_sets(None, {"x-new": ON}),
    "a CloneSet at rest": direct("CloneSet", all_of("x-new"), group=KRUISE),
    "an owner without hashes": direct("Ring", all_of(""), group="example.org/v1"),
    "another owner's hash": [
        *direct("CloneSet", all_of("x-new"), group=KRUISE),
        replica("y", "n2", ref("CloneSet", "y", KRUISE), {"controller-revision-hash": "x-old"}),
    ],
}
STAYS: dict[str, tuple[list[Json], str]] = {
    "OnDelete, not updated": (
        stateful(all_of("x-old"), strategy=ON_DELETE, updatedReplicas=0, **REVISED),
        "it is of revision x-old and would come back as revision x-new of StatefulSet x",
    ),
    "OnDelete, others are updated": (
        stateful(first("x-old", "x-new"), strategy=ON_DELETE, updatedReplicas=2, **REVISED),
        "would come back as revision x-new",
    ),
    "above the partition": (
        stateful(first("x-old", "x-new"), strategy={"type": "RollingUpdate"}, currentReplicas=0, **REVISED),
        "would come back as revision x-new",
    ),
    "below the partition, newer": (
        stateful(first("x-new", "x-new"), strategy=FROM_1, updatedReplicas=3, **REVISED),
        "it is of revision x-new and would come back as revision x-old",
    ),
    "a label is missing": (stateful(all_of(""), **SETTLED), "it has no label that says its revision"),
    "a partition in percent": (
        stateful(all_of("x-old"), strategy=percent("50%"), group=KRUISE, updatedReplicas=0, **REVISED),
        "would come back as revision x-new or x-old",
    ),
    "a Rollout in its canary": (
        replica_sets(ROLLOUT, {"x-old": ("n1", "n2"), "x-new": ("n3",)}),
        "Rollout x has pods of two revisions, new and old",
    ),
    "two ReplicaSets though its status is settled": (
        deployment({"x-old": ("n1", "n2"), "x-new": ("n3",)}),
        "Deployment x has pods of two revisions",
    ),
    "a CloneSet": (direct("CloneSet", first("x-old", "x-new"), group=KRUISE), "CloneSet x has pods of two revisions"),
    "a hash that some have": (
        direct("CloneSet", first("x-new", ""), group=KRUISE),
        "CloneSet x has pods of two revisions",
    ),
    "a CloneSet that says what it creates": (
        [
            made("CloneSet", "x", group=KRUISE, spec={"replicas": 3}, status={"updateRevision": "x-new"}),
            *direct("CloneSet", all_of("old"), group=KRUISE)[1:],
        ],
        "it is of revision old and would come back as revision x-new of CloneSet x",
    ),
    "groups of leaders and workers": (
        [
            *stateful({}, **SETTLED)[:1],
            *(
                replica(
                    f"x-{number}", on, ref("StatefulSet", "x"), {"controller-revision-hash": "x-new", LEADERS: value}
                )
                for number, (on, value) in enumerate(first("a", "b").items())
            ),
        ],
        "StatefulSet x has pods of two revisions, a and b",
    ),
}


@pytest.mark.parametrize("form", MOVES)
def test_what_comes_back_as_it_was_moves(form: str, plan: Plan) -> None:
    answer = plan("relieve", cluster(MOVES[form]), HOT)
    assert [step["from"] for step in answer["steps"]] == ["n1"], answer["refused"]


@pytest.mark.parametrize("form", STAYS)
def test_what_would_come_back_as_something_else_stays(form: str, plan: Plan, explained: Any) -> None:
    items, why = STAYS[form]
    answer = plan("relieve", cluster(items), HOT)
    assert (answer["steps"], answer["refused"]) == ([], {"returnable": 1})
    pod = next(each for each in items if each["kind"] == "Pod")
    reasons = {each["check"]: each["reason"] for each in explained(cluster(items), HOT, pod)["checks"]}
    assert why in reasons["returnable"]


@pytest.mark.parametrize(
    ("items", "check"),
    [
        (deployment({"x-old": ON}, updated=0, paused=True), "replacement"),
        (deployment({"x-old": ("n1", "n2"), "x-new": ("n3",)}, updated=1), "returnable"),
        (stateful(first("x-new", "x-old"), updatedReplicas=1, **REVISED), "replacement"),
        (replica_sets(ref("ReplicaSet", "x-new"), {"x-new": ON}), "returnable"),
        (
            [
                *replica_sets(ref("ReplicaSet", "x-b"), {"x-a": ON}),
                *replica_sets(ref("ReplicaSet", "x-a"), {"x-b": ()}),
            ],
            "returnable",
        ),
    ],
)
def test_rollouts_and_owners_in_a_circle_stay(items: list[Json], check: str, plan: Plan) -> None:
    answer = plan("relieve", cluster(items), HOT)
    assert (answer["steps"], answer["refused"]) == ([], {check: 1})


def test_an_owner_of_ten_thousand_replica_sets_is_at_rest(plan: Plan) -> None:
    many = [made("ReplicaSet", f"x-{n}", owner=ROLLOUT, spec={"replicas": 0}) for n in range(10_000)]
    assert plan("relieve", cluster(many, replica_sets(ROLLOUT, {"x-new": ON})), HOT)["steps"]
