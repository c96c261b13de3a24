"""The judge of faults on made-up histories: nothing is broken in a good one, and each planted fault is found."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_lab.faults.events import AGENT, Event, parse
from ballast_lab.faults.judge import PROMISES, Final, Rules, judged, returned

PREFIX = "l0.ballast.dev"
HOME = "fault-l0"
HPA = f"horizontalpodautoscalers:{HOME}/api"
RULES = Rules(
    PREFIX,
    frozenset({"n0", "n1"}),
    frozenset({HOME}),
    rate=(3, 30.0),
    per_workload=(2, 30.0),
    watts=((0.0, 200.0),),
    each={f"{HOME}/web": 10.0},
    start={f"{HOME}/web": 2},
    originals={HPA: 20},
)
STATE = f"configmaps:{HOME}/ballast-state"
FINAL = Final(
    [{"metadata": {"name": "n0"}, "spec": {}}],
    [{"metadata": {"name": "p"}, "spec": {}}],
    [{"subject": HPA, "spec": {"maxReplicas": 20}}],
    {"schema": "1"},
)


class History:
    """What leaders that keep every promise write, one after the other."""

    def __init__(self) -> None:
        self.time, self.version = 100.0, 0
        self.events: list[Event] = []
        self.leader = ""
        self.evicted = 0
        self.plans: dict[str, str] = {}

    def add(self, kind: str, subject: str, body: Any = None, **more: Any) -> Event:
        self.time += 0.1
        self.version += 1
        answer = {"spec": {"holderIdentity": f"{self.leader}_1"}} if kind == "lease" else {}
        made = Event(
            **{
                "who": self.leader,
                "kind": kind,
                "subject": subject,
                "received": self.time,
                "at": self.time + 0.05,
                "code": 201 if kind == "eviction" else 200,
                "version": 0 if kind == "eviction" else self.version,
                "body": body or {},
                "answer": answer,
                **more,
            }
        )
        self.events.append(made)
        return made

    def lead(self, who: str, after: float = 16.0) -> None:
        self.time += after
        self.leader = who
        self.renew()

    def renew(self) -> Event:
        return self.add("lease", f"leases:{HOME}/ballast")

    def save(self, **plans: Any) -> Event:
        data = {key.replace("_", "."): json.dumps(value) for key, value in plans.items()}
        return self.add("plan" if plans else "state", STATE, {"data": data})

    def label(self, node: str, score: int) -> Event:
        return self.add("labels", f"nodes:/{node}", {"metadata": {"labels": {f"{PREFIX}/score": str(score)}}})

    def scale(self, replicas: int) -> Event:
        self.save(power_plan_sun={"replicas": {f"{HOME}/web": replicas}})
        body = {"metadata": {"resourceVersion": str(self.version)}, "spec": {"replicas": replicas}}
        event = self.add("scale", f"deployments:{HOME}/web", body)
        self.save()
        return event

    def cap(self, most: int) -> Event:
        self.save(power_plan_sun={"replicas": {}, "entitled": {f"{HOME}/api": most}})
        notes = {f"{PREFIX}/original-max-replicas": "20", f"{PREFIX}/power-cap": str(most)}
        event = self.add("cap", HPA, {"metadata": {"annotations": notes}, "spec": {"maxReplicas": most}})
        self.save()
        return event

    def evict(self) -> Event:
        self.time += 16.0
        self.evicted += 1
        uid = f"u{self.evicted}"
        self.save(eviction_plan=[{"steps": [{"uid": uid}]}])
        event = self.add("eviction", f"pods:{HOME}/web-abc-{uid}", uid=uid)
        self.save()
        return event


_STEPS: tuple[Callable[[History, int], object], ...] = (
    lambda history, number: history.lead(f"l0.{len(history.events)}"),
    lambda history, number: history.renew(),
    lambda history, number: history.label("n0", len(history.events)),
    lambda history, number: history.scale(1 + sum(each.kind == "scale" for each in history.events) % 20),
    lambda history, number: history.cap(number),
    lambda history, number: history.evict(),
)


@given(st.lists(st.tuples(st.sampled_from(range(len(_STEPS))), st.integers(1, 20)), max_size=30))
def test_leaders_that_keep_their_promises_are_found_so(steps: list[tuple[int, int]]) -> None:
    history, capped = History(), 0
    history.lead("l0.0")
    for index, number in steps:
        if index == 4 and number == capped:
            continue
        capped = number if index == 4 else capped
        _STEPS[index](history, number)
    assert judged(history.events, RULES) == []


def _lease_too_early(history: History) -> None:
    history.lead("l0.9", after=9.0)


def _late_scale(history: History) -> None:
    """A write of the former leader that succeeds after its successor's."""
    history.scale(5)
    old, former = history.scale(6), history.leader
    history.lead("l0.9")
    history.scale(7)
    history.save(power_plan_sun={"replicas": {f"{HOME}/web": 6}})
    history.add("scale", old.subject, old.body, who=former)


def _late_label_for_good(history: History) -> None:
    former = history.leader
    history.label("n0", 1)
    history.lead("l0.9")
    history.label("n0", 2)
    history.add("labels", "nodes:/n0", {"metadata": {"labels": {f"{PREFIX}/score": "3"}}}, who=former)


def _evicted_twice(history: History) -> None:
    first = history.evict()
    history.time += 40
    history.save(eviction_plan=[{"steps": [{"uid": first.uid}]}])
    history.add("eviction", first.subject, uid=first.uid)


def _repeated(history: History) -> None:
    history.label("n1", 4)
    history.lead("l0.9")
    history.label("n1", 4)


def _unplanned_eviction(history: History) -> None:
    history.save()
    history.add("eviction", f"pods:{HOME}/web-abc-x", uid="x")


def _unplanned_scale(history: History) -> None:
    history.save(power_plan_sun={"replicas": {f"{HOME}/web": 3}})
    history.add("scale", f"deployments:{HOME}/web", {"spec": {"replicas": 4}})


def _planned_afterwards(history: History) -> None:
    history.add("scale", f"deployments:{HOME}/web", {"spec": {"replicas": 4}})
    history.save(power_plan_sun={"replicas": {f"{HOME}/web": 4}})


def _too_many(history: History) -> None:
    for number in range(4):
        history.save(eviction_plan=[{"steps": [{"uid": f"m{number}"}]}])
        history.add("eviction", f"pods:{HOME}/a{number}-abc-x", uid=f"m{number}")


def _too_many_of_one(history: History) -> None:
    for number in range(3):
        history.save(eviction_plan=[{"steps": [{"uid": f"m{number}"}]}])
        history.add("eviction", f"pods:{HOME}/a-abc-{number}", uid=f"m{number}")


def _beyond_the_watts(history: History) -> None:
    history.scale(21)


def _original_forgotten(history: History) -> None:
    history.cap(5)
    notes = {f"{PREFIX}/original-max-replicas": "5"}
    history.save(power_plan_sun={"entitled": {f"{HOME}/api": 4}})
    history.add("cap", HPA, {"metadata": {"annotations": notes}, "spec": {"maxReplicas": 4}})


def _left_capped(history: History) -> None:
    notes = {f"{PREFIX}/original-max-replicas": None}
    history.save(power_plan_sun={"entitled": {f"{HOME}/api": 4}})
    history.add("cap", HPA, {"metadata": {"annotations": notes}, "spec": {"maxReplicas": 4}})


def _above_the_original(history: History) -> None:
    history.cap(21)


def _foreign_node(history: History) -> None:
    history.label("n7", 1)


def _foreign_key(history: History) -> None:
    history.add("labels", "nodes:/n0", {"metadata": {"labels": {"kubernetes.io/os": "plan9"}}})


def _foreign_namespace(history: History) -> None:
    history.save(eviction_plan=[{"steps": [{"uid": "z"}]}])
    history.add("eviction", "pods:kube-system/dns-abc-x", uid="z")


PLANTED = {
    _lease_too_early: "one-leader",
    _late_scale: "superseded",
    _late_label_for_good: "superseded",
    _evicted_twice: "twice",
    _repeated: "twice",
    _unplanned_eviction: "written-first",
    _unplanned_scale: "written-first",
    _planned_afterwards: "written-first",
    _too_many: "limits",
    _too_many_of_one: "limits",
    _beyond_the_watts: "budget",
    _original_forgotten: "originals",
    _left_capped: "originals",
    _above_the_original: "originals",
    _foreign_node: "within",
    _foreign_key: "within",
    _foreign_namespace: "within",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_fault_is_found_and_nothing_else(plant: Callable[[History], None]) -> None:
    history = History()
    history.lead("l0.0")
    history.label("n0", 9)
    plant(history)
    assert {each.promise for each in judged(history.events, RULES)} == {PLANTED[plant]}


def test_a_lease_that_the_driver_removed_is_free_and_one_given_back_too() -> None:
    history = History()
    history.lead("l0.0")
    time = history.time
    history.lead("l0.1", after=1.0)
    assert judged(history.events, replace(RULES, lease_removed=[time + 0.5])) == []
    history.add("lease", f"leases:{HOME}/ballast", answer={"spec": {"holderIdentity": ""}})
    history.lead("l0.2", after=1.0)
    assert judged(history.events, replace(RULES, lease_removed=[time + 0.5])) == []


def test_a_late_label_that_the_leader_puts_right_is_no_broken_promise() -> None:
    history = History()
    history.lead("l0.0")
    _late_label_for_good(history)
    history.label("n0", 2)
    assert judged(history.events, RULES) == []


def test_a_late_eviction_that_counts_among_the_past_ones_is_no_broken_promise() -> None:
    history = History()
    history.lead("l0.0")
    history.lead("l0.1")
    history.add("state", STATE, {"data": {"eviction.history": '{"evictions":[[100,"x",0,0,1]]}'}})
    history.add("eviction", f"pods:{HOME}/web-abc-x", uid="x", who="l0.0")
    assert judged(history.events, RULES) == []
    history.add("eviction", f"pods:{HOME}/web-abc-y", uid="y", who="l0.0")
    assert [each.promise for each in judged(history.events, RULES)] == ["written-first"]


def test_what_no_longer_stands_there_is_not_repeated() -> None:
    history = History()
    history.lead("l0.0")
    first = history.add("taint", "nodes:/n0", {"spec": {"taints": []}})
    history.lead("l0.1")
    history.add("taint", "nodes:/n0", {"spec": {"taints": []}})
    assert [each.promise for each in judged(history.events, RULES)] == ["twice"]
    assert judged(history.events, replace(RULES, touched={"nodes:/n0": [first.at + 0.01]})) == []


def test_a_gate_may_be_removed_again_by_a_former_leader() -> None:
    history = History()
    history.lead("l0.0")
    history.lead("l0.1")
    removal = {"metadata": {"uid": "x"}, "spec": {"schedulingGates": [{"$patch": "delete", "name": f"{PREFIX}/batch"}]}}
    history.add("gate", f"pods:{HOME}/p", removal)
    history.add("gate", f"pods:{HOME}/p", removal, who="l0.0")
    assert judged(history.events, RULES) == []


def test_what_the_server_refused_did_not_happen() -> None:
    history = History()
    history.lead("l0.0")
    history.add("eviction", f"pods:{HOME}/web-abc-x", uid="x", code=429)
    assert judged(history.events, RULES) == []


_KEPT: dict[str, Final] = {
    "taint": replace(FINAL, nodes=[{"metadata": {"name": "n0"}, "spec": {"taints": [{"key": f"{PREFIX}/leaving"}]}}]),
    "gate": replace(
        FINAL, pods=[{"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": f"{PREFIX}/batch"}]}}]
    ),
    "cap": replace(FINAL, autoscalers=[{"subject": HPA, "spec": {"maxReplicas": 7}}]),
    "plan": replace(FINAL, state={"power.plan.sun": "{}"}),
    "reservation": replace(FINAL, state={"reservations": '[{"name":"r"}]'}),
}


@pytest.mark.parametrize("kept", _KEPT)
def test_what_is_not_given_back_is_found(kept: str) -> None:
    assert returned(FINAL, RULES) == []
    assert [each.promise for each in returned(_KEPT[kept], RULES)] == ["returned"]


def test_every_promise_has_a_planted_fault() -> None:
    assert {*PLANTED.values(), "returned"} == set(PROMISES)


def test_what_the_api_server_only_tried_is_no_write() -> None:
    log = {
        "verb": "create",
        "userAgent": f"{AGENT}/l0.1",
        "objectRef": {"resource": "pods", "namespace": "x", "name": "web-trial"},
        "requestReceivedTimestamp": "2026-01-01T00:00:00Z",
        "stageTimestamp": "2026-01-01T00:00:00Z",
    }
    lines = [
        json.dumps({**log, "requestURI": f"/api/v1/namespaces/x/pods{query}"}).encode() + b"\n"
        for query in ("?dryRun=All", "", "?dryRun=All&fieldManager=ballast")
    ]
    assert [event.subject for event in parse(lines)] == ["pods:x/web-trial"]
