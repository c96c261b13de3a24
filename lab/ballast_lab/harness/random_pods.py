"""Random pods: what they ask of nodes, of other pods, of volumes and of devices."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ballast_lab.harness.objects import pod

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EAGER = "eager"
"""A priority class above that of other pods, that preempts none."""
TESTED = "fuzz"
"""The scheduler that is asked."""


class RandomPods:
    """Pods of one world. `prefix` begins the names of the storage classes and device claims that they name."""

    def __init__(self, dice: random.Random, prefix: str, hosts: Sequence[str], claims: Sequence[str]) -> None:
        self._dice, self._prefix, self._hosts, self._claims = dice, prefix, hosts, claims
        self.held: set[str] = set()
        """The claims that standing pods use."""

    def standing(self, name: str) -> Json:
        dice = self._dice
        found = pod(name, cpu=f"{dice.randint(1, 9)}00m", nodeName=dice.choice(self._hosts))
        found["metadata"]["labels"] = self._labels()
        spec = found["spec"]
        if dice.random() < 0.1:
            spec["containers"][0]["ports"] = [self._port()]
        if dice.random() < 0.15:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [self._term()]}}
        if dice.random() < 0.2:
            claim = dice.choice(self._claims)
            self.held.add(claim)
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        elif dice.random() < 0.1:
            spec["volumes"] = [self._ephemeral(0)]
        if dice.random() < 0.1:
            beside = {"name": "beside", "image": "none", "restartPolicy": "Always"}
            spec["initContainers"] = [{**beside, "resources": spec["containers"][0]["resources"]}]
        if dice.random() < 0.1:
            spec["resources"] = {"requests": {"cpu": f"{dice.randint(18, 25)}00m", "memory": "1Gi"}}
        if dice.random() < 0.15:
            found["metadata"]["finalizers"] = ["example.com/stays"]
        return found

    def probe(self, name: str) -> Json:
        dice = self._dice
        found = pod(name, cpu=f"{dice.randint(1, 15)}00m", scheduler=TESTED)
        found["metadata"]["labels"] = self._labels()
        spec = found["spec"]
        if dice.random() < 0.2:
            spec["priorityClassName"] = EAGER
        affinity: Json = {}
        if dice.random() < 0.15:
            spec["nodeSelector"] = {"disk": "fast"}
        if dice.random() < 0.2:
            terms = [{"matchExpressions": [self._requirement()]} for _ in range(dice.randint(1, 2))]
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        for kind, chance in (("podAffinity", 0.15), ("podAntiAffinity", 0.25)):
            if dice.random() < chance:
                terms = [self._term() for _ in range(dice.randint(1, 2))]
                affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if affinity:
            spec["affinity"] = affinity
        if dice.random() < 0.3:
            keys = dice.sample((ZONE, "rack", HOST), dice.randint(1, 2))
            spec["topologySpreadConstraints"] = [self._spread(key) for key in keys]
        if dice.random() < 0.3:
            spec["tolerations"] = [self._toleration()]
        if dice.random() < 0.15:
            spec["containers"][0]["ports"] = [self._port()]
        if dice.random() < 0.15:
            spec["volumes"] = [self._ephemeral(n) for n in range(dice.randint(1, 2))]
        elif dice.random() < 0.4:
            free = [claim for claim in self._claims if claim not in self.held or dice.random() < 0.1]
            chosen = dice.sample(free, min(len(free), dice.randint(1, 2)))
            if dice.random() < 0.05:
                chosen = ["missing"]
            spec["volumes"] = [
                {"name": f"v{n}", "persistentVolumeClaim": {"claimName": claim}} for n, claim in enumerate(chosen)
            ]
        return found

    def nominated(self, name: str) -> Json:
        """It can go nowhere, so the scheduler leaves it where it is nominated to."""
        dice = self._dice
        found = pod(name, cpu=f"{dice.randint(1, 4)}", scheduler=TESTED)
        found["metadata"]["labels"] = self._labels()
        spec = found["spec"]
        spec["nodeSelector"] = {"disk": "none"}
        if dice.random() < 0.4:
            spec["priorityClassName"] = EAGER
        if dice.random() < 0.3:
            spec["containers"][0]["ports"] = [self._port()]
        if dice.random() < 0.3:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [self._term()]}}
        return found

    def with_devices(self, name: str, template: str, app: str) -> Json:
        """A pod for which a resource claim is made."""
        found = pod(name, cpu="100m", scheduler=TESTED)
        found["metadata"]["labels"] = {"app": app}
        found["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        return found

    def _labels(self) -> Json:
        return {"app": self._dice.choice("xyz"), "version": self._dice.choice("12")}

    def _ephemeral(self, n: int) -> Json:
        spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        kind = self._dice.choice(("late", "late", "late-a", "now", ""))
        if kind:
            spec["storageClassName"] = f"{self._prefix}-{kind}"
        return {"name": f"e{n}", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}

    def _requirement(self) -> Json:
        dice = self._dice
        operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return {"key": "cores", "operator": operator, "values": [str(dice.randint(1, 9))]}
        key = dice.choice((ZONE, "rack"))
        values = {"values": dice.sample("abcrst", 2)} if operator in ("In", "NotIn") else {}
        return {"key": key, "operator": operator, **values}

    def _term(self) -> Json:
        dice = self._dice
        term: Json = {
            "topologyKey": dice.choice((ZONE, "rack", HOST, HOST)),
            "labelSelector": {"matchLabels": {"app": dice.choice("xyz")}},
        }
        if dice.random() < 0.2:
            term[dice.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
        if dice.random() < 0.2:
            term |= dice.choice(({"namespaceSelector": {}}, {"namespaces": ["elsewhere"]}))
        return term

    def _spread(self, key: str) -> Json:
        dice = self._dice
        found: Json = {
            "maxSkew": dice.randint(1, 4),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": dice.choice("xyz")}},
        }
        if dice.random() < 0.2:
            found["minDomains"] = dice.randint(1, 4)
        if dice.random() < 0.2:
            found["matchLabelKeys"] = ["version"]
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if dice.random() < 0.3:
                found[policy] = dice.choice(("Honor", "Ignore"))
        return found

    def _toleration(self) -> Json:
        dice = self._dice
        if dice.random() < 0.15:
            return {"operator": "Exists"}
        effect = dice.choice(({}, {"effect": "NoSchedule"}))
        operator = dice.choice(({"operator": "Exists"}, {"operator": "Equal", "value": dice.choice("vw")}))
        return {"key": dice.choice("tu"), **operator, **effect}

    def _port(self) -> Json:
        address = self._dice.choice(({}, {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}))
        return {"containerPort": 80, "hostPort": self._dice.choice((80, 81)), **address}
