"""A small shop for the gate: a Deployment of three on two nodes, and ways to change one thing about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ballast.eviction.check_input import LOOKED_NOWHERE, Feasibility, GateVerdict
from ballast.eviction.facts import ClusterObjects, Facts, WorkloadKey
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import GateRules
from ballast.eviction.history import NOTHING_YET, History
from ballast.model.attachments import UNKNOWN, Attachments
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.selector import Requirement, Selector
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Quota, Workload

NOW = 1_700_000_000.0
OLD = NOW - 86_400
WEB = ("shop", "Deployment", "web")
CHOSEN = Selector((Requirement("app", "In", ("web",)),))
_SET = Owner("ReplicaSet", "web-1", "u-rs", True)


def a_pod(name: str = "web-1-a", **more: Any) -> Pod:
    given: dict[str, Any] = {
        "node": "n1",
        "uid": f"u-{name}",
        "phase": "Running",
        "labels": {"app": "web"},
        "owner": _SET,
        "created": OLD,
        "ready": True,
    }
    return Pod("shop", name, **(given | more))


def a_node(name: str = "n1", **more: Any) -> Node:
    return Node(name, **({"created": OLD} | more))


def a_budget(name: str = "web", allowed: int = 1, **more: Any) -> DisruptionBudget:
    return DisruptionBudget("shop", name, CHOSEN, allowed, **more)


DEPLOYMENT = Workload("Deployment", "shop", "web", "u-d", replicas=3)
SET = Workload("ReplicaSet", "shop", "web-1", "u-rs", replicas=3, owner=Owner("Deployment", "web", "u-d", True))


@dataclass(frozen=True)
class Shop:
    pod: Pod = field(default_factory=a_pod)
    others: tuple[Pod, ...] = (a_pod("web-1-b", node="n2"), a_pod("web-1-c", node="n2"))
    nodes: tuple[Node, ...] = (a_node("n1"), a_node("n2"))
    workloads: tuple[Workload, ...] = (DEPLOYMENT, SET)
    budgets: tuple[DisruptionBudget, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    namespaces: tuple[Namespace, ...] = (Namespace("shop"),)
    quotas: tuple[Quota, ...] = ()
    scales: dict[WorkloadKey, int] = field(default_factory=dict)
    attachments: Attachments = UNKNOWN
    unknown: tuple[str, ...] = ()
    silent: int | None = None
    protected: Mapping[WorkloadKey, str] = field(default_factory=dict)
    rules: GateRules = field(default_factory=GateRules)
    history: History = NOTHING_YET
    outlook: Feasibility = LOOKED_NOWHERE
    evicted: tuple[Pod, ...] = ()

    def gate(self) -> Gate:
        objects = ClusterObjects(
            nodes=self.nodes,
            pods=(self.pod, *self.others),
            workloads=self.workloads,
            budgets=self.budgets,
            autoscalers=self.autoscalers,
            namespaces=self.namespaces,
            quotas=self.quotas,
            scales=self.scales,
            attachments=self.attachments,
            protected=self.protected,
        )
        facts = Facts(objects, now=NOW, unknown=self.unknown, silent=self.silent)
        gate = Gate(facts, self.rules, self.history)
        for pod in self.evicted:
            gate.tally.add(facts, pod)
        return gate

    def verdict(self, check: str) -> GateVerdict:
        return next(v for v in self.gate().explain(self.pod, self.outlook) if v.check == check)

    def with_pod(self, **changes: Any) -> Shop:
        return replace(self, pod=msgspec.structs.replace(self.pod, **changes))
