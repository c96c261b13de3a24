"""Which nodes a pod may run on by what other pods run there: host ports, (anti-)affinity, topology spread.

Source: kubernetes pkg/scheduler/framework/plugins nodeports, interpodaffinity, podtopologyspread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Ints
from ballast.model.selector import Selector
from ballast.model.template import PLAIN, HostPort, PodTerm, Spread, Template
from ballast.placement.planners.node_constraints import NodeConstraints

# Namespaces, their selector, the selector of pods: which pods are meant.
Crowd: TypeAlias = tuple[tuple[str, ...], Selector | None, Selector | None]
_ANY = HostPort(0).address
_NOBODY = np.zeros(0, np.int64)


class PodConstraints:
    """Follows moves. `on` is shared with the caller, who changes it through `move` alone."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        on: Ints,
        present: Bools,
        sites: NodeConstraints,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._nodes, self._pods, self._on, self._sites = nodes, pods, on, sites
        self._namespaces = namespaces or {}
        self._domains: dict[str, Ints] = {}
        self._kinds, self._kind = _kinds(pods)
        self._matching: dict[Crowd, list[bool]] = {}
        self._crowds: dict[Crowd, Ints] = {}
        self._counting: dict[int, list[Ints]] = {}
        self._repelled: dict[int, list[PodTerm]] = {}
        self._carried: dict[PodTerm, Ints] = {}
        self._ports: dict[tuple[str, int], dict[tuple[int, str], int]] = {}
        self._present = present.copy()
        self._relations: dict[tuple[int, int], Ints] = {}
        self._crowded = any(pod.template.looks_at_pods for pod in pods if pod.template is not PLAIN)
        for row, pod in enumerate(pods):
            if pod.template is not PLAIN and pod.template.looks_at_pods and present[row]:
                self._carry(pod, int(on[row]), 1)

    def matters(self, pod: int) -> bool:
        """Whether other pods can forbid a node to this one."""
        return self._pods[pod].template.looks_at_pods or bool(self._terms_against(pod))

    def allowed(self, pod: int) -> Bools | None:
        """[node], or None where every node is allowed; the pod's own presence does not count."""
        if not self.matters(pod):
            return None
        if not self._present[pod]:
            return self._mask(pod)
        here = int(self._on[pod])
        self.move(pod, -1)
        mask = self._mask(pod)
        self.move(pod, here)
        return mask

    def move(self, pod: int, target: int) -> None:
        """Puts a pod on a node; -1 takes it away."""
        if self._present[pod]:
            self._shift(pod, int(self._on[pod]), -1)
        self._on[pod] = target
        self._present[pod] = target >= 0
        if target >= 0:
            self._shift(pod, target, 1)

    def related(self, pod: int) -> Ints:
        """Pods to which it may open or close nodes by moving."""
        if not self._crowded:
            return _NOBODY
        kind, template = int(self._kind[pod]), self._pods[pod].template
        key = (kind, id(template))
        found = self._relations.get(key)
        if found is None:
            watchful = [rows for rows in self._groups if self._watchful(int(rows[0]), kind, template)]
            found = self._relations[key] = np.sort(np.concatenate([_NOBODY, *watchful]))
        return found

    @cached_property
    def _groups(self) -> list[Ints]:
        """Pods by kind and template."""
        groups: dict[tuple[int, int], list[int]] = {}
        for row, (kind, pod) in enumerate(zip(self._kind.tolist(), self._pods, strict=True)):
            groups.setdefault((kind, id(pod.template)), []).append(row)
        return [np.array(rows, np.int64) for rows in groups.values()]

    def _watchful(self, row: int, kind: int, template: Template) -> bool:
        """Whether pods like the one at `row` look at one of this kind and template, or are looked at by it."""
        if any(self._members(_crowd(term))[int(self._kind[row])] for term in template.anti_affinity):
            return True
        other = self._pods[row]
        ports = {(port.protocol, port.port) for port in template.host_ports}
        return other.template.looks_at_pods and self._watches(other, kind, ports)

    def _watches(self, other: Pod, kind: int, ports: set[tuple[str, int]]) -> bool:
        template = other.template
        crowds = [_crowd(term) for term in (*template.affinity, *template.anti_affinity)]
        crowds += [((other.namespace,), None, spread.selector) for spread in template.spread]
        return any(self._members(crowd)[kind] for crowd in crowds) or any(
            (port.protocol, port.port) in ports for port in template.host_ports
        )

    def _mask(self, pod: int) -> Bools:
        template = self._pods[pod].template
        mask = np.ones(len(self._nodes), bool)
        for port in template.host_ports:
            for row, address in self._ports.get((port.protocol, port.port), ()):
                if address == port.address or _ANY in (address, port.address):
                    mask[row] = False
        for term in template.anti_affinity:
            mask &= ~self._near(term.topology_key, self._crowd(_crowd(term)))
        for term in self._terms_against(pod):
            mask &= ~self._near(term.topology_key, self._carried[term])
        if template.affinity:
            mask &= self._attracted(pod, template.affinity)
        for spread in template.spread:
            mask &= self._spread(pod, spread)
        return mask

    def _attracted(self, pod: int, terms: Sequence[PodTerm]) -> Bools:
        """All terms hold; the first pod of a group that only seeks itself may go anywhere the keys exist."""
        keyed: Bools = np.logical_and.reduce([self._domain(term.topology_key) >= 0 for term in terms])
        near: Bools = np.logical_and.reduce([self._near(t.topology_key, self._crowd(_crowd(t))) for t in terms])
        alone = all(not self._crowd(_crowd(t)).any() and self._belongs(pod, _crowd(t)) for t in terms)
        return keyed if alone else near

    def _spread(self, pod: int, spread: Spread) -> Bools:
        domain = self._domain(spread.topology_key)
        crowd: Crowd = ((self._pods[pod].namespace,), None, spread.selector)
        template = self._pods[pod].template
        eligible = domain >= 0
        if spread.honour_affinity:
            eligible = eligible & self._sites.chosen(template)
        if spread.honour_taints:
            eligible = eligible & self._sites.tolerated(template.tolerations)
        if not eligible.any():
            return np.zeros(len(domain), bool)
        size = int(domain.max()) + 1
        counts = np.bincount(domain[eligible], weights=self._crowd(crowd)[eligible], minlength=size)
        there = np.bincount(domain[eligible], minlength=size) > 0
        least = 0.0 if there.sum() < spread.min_domains else counts[there].min()
        itself = 1 if self._belongs(pod, crowd) else 0
        return np.asarray((domain >= 0) & (counts[domain] + itself - least <= spread.max_skew))

    def _near(self, key: str, crowd: Ints) -> Bools:
        """Nodes in a domain where somebody of the crowd is."""
        domain = self._domain(key)
        busy = np.bincount(domain[domain >= 0], weights=crowd[domain >= 0], minlength=1) > 0
        return np.asarray((domain >= 0) & busy[domain])

    def _domain(self, key: str) -> Ints:
        found = self._domains.get(key)
        if found is None:
            values = sorted({node.labels[key] for node in self._nodes if key in node.labels})
            numbers = {value: number for number, value in enumerate(values)}
            found = np.array([numbers.get(node.labels.get(key, ""), -1) for node in self._nodes], np.int64)
            self._domains[key] = found
        return found

    def _crowd(self, crowd: Crowd) -> Ints:
        """[node]: how many pods of the crowd are there."""
        found = self._crowds.get(crowd)
        if found is None:
            members = np.array(self._members(crowd), bool)
            rows = self._on[self._present & members[self._kind]]
            found = self._crowds[crowd] = np.bincount(rows, minlength=len(self._nodes)).astype(np.int64)
            for kind, counting in self._counting.items():
                if members[kind]:
                    counting.append(found)
        return found

    def _counts_of(self, kind: int) -> list[Ints]:
        """Of the crowds it belongs to."""
        found = self._counting.get(kind)
        if found is None:
            found = [numbers for crowd, numbers in self._crowds.items() if self._members(crowd)[kind]]
            self._counting[kind] = found
        return found

    def _members(self, crowd: Crowd) -> list[bool]:
        """Per kind of pod (namespace and labels)."""
        found = self._matching.get(crowd)
        if found is None:
            names, chooser, selector = crowd
            found = self._matching[crowd] = [
                selector is not None
                and (
                    namespace in names or (chooser is not None and chooser.matches(self._namespaces.get(namespace, {})))
                )
                and selector.matches(labels)
                for namespace, labels in self._kinds
            ]
        return found

    def _belongs(self, pod: int, crowd: Crowd) -> bool:
        return self._members(crowd)[int(self._kind[pod])]

    def _terms_against(self, pod: int) -> list[PodTerm]:
        """Anti-affinities that pods on nodes have against this one."""
        kind = int(self._kind[pod])
        found = self._repelled.get(kind)
        if found is None:
            found = [term for term in self._carried if self._members(_crowd(term))[kind]]
            self._repelled[kind] = found
        return found

    def _shift(self, pod: int, row: int, count: int) -> None:
        for numbers in self._counts_of(int(self._kind[pod])):
            numbers[row] += count
        if self._pods[pod].template.looks_at_pods:
            self._carry(self._pods[pod], row, count)

    def _carry(self, pod: Pod, row: int, count: int) -> None:
        for term in pod.template.anti_affinity:
            numbers = self._carried.get(term)
            if numbers is None:
                numbers = self._carried[term] = np.zeros(len(self._nodes), np.int64)
                self._repelled.clear()
            numbers[row] += count
        for port in pod.template.host_ports:
            used = self._ports.setdefault((port.protocol, port.port), {})
            left = used.get((row, port.address), 0) + count
            if left:
                used[row, port.address] = left
            else:
                del used[row, port.address]


def _crowd(term: PodTerm) -> Crowd:
    return (term.namespaces, term.namespace_selector, term.selector)


def _kinds(pods: Sequence[Pod]) -> tuple[list[tuple[str, Mapping[str, str]]], Ints]:
    """Label sets are shared between pods, so each is matched once."""
    numbers: dict[tuple[str, int], int] = {}
    kinds: list[tuple[str, Mapping[str, str]]] = []
    kind = np.empty(len(pods), np.int64)
    for row, pod in enumerate(pods):
        key = (pod.namespace, id(pod.labels))
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(kinds)
            kinds.append((pod.namespace, pod.labels))
        kind[row] = number
    return kinds, kind
