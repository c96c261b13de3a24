"""Which nodes a pod may run on by what other pods run there: host ports, (anti-)affinity, topology spread.

Source: kubernetes pkg/scheduler/framework/plugins nodeports, interpodaffinity, podtopologyspread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.model.selector import Selector
from ballast.model.template import PLAIN, HostPort, PodTerm, Template, TopologySpread
from ballast.placement.attachment_constraints import AttachmentConstraints
from ballast.placement.node_constraints import NodeConstraints

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
        attachments: AttachmentConstraints | None = None,
    ) -> None:
        """Without `attachments` volumes and devices are not looked at."""
        self._nodes, self._pods, self._on, self._sites = nodes, pods, on, sites
        self._attachments = attachments
        self._domains: dict[str, Ints] = {}
        self._who = PodMatcher(pods, namespaces)
        self._crowds: dict[SelectedPods, Ints] = {}
        self._members: list[tuple[Ints, list[bool]]] = []
        """The counts of crowds, and which kinds of pods they count."""
        self._counting: dict[int, list[Ints]] = {}
        self._repelled: dict[int, list[PodTerm]] = {}
        self._carried: dict[PodTerm, Ints] = {}
        self._repellers: list[tuple[PodTerm, list[bool]]] = []
        """The carried terms, and which kinds of pods they keep off."""
        self._ports: dict[tuple[str, int], dict[tuple[int, str], int]] = {}
        self._present = present.copy()
        self._relations: dict[tuple[int, int], Ints] = {}
        self._crowded = any(self._looks(pod.template) for pod in pods if pod.template is not PLAIN)
        # Pods that are promised to a node, and may not come: what they make possible is not there yet.
        self._nominated = [row for row, pod in enumerate(pods) if present[row] and not pod.node]
        for row, pod in enumerate(pods):
            if pod.template is not PLAIN and self._looks(pod.template) and present[row]:
                self._carry(row, int(on[row]), 1)

    def matters(self, pod: int) -> bool:
        """Whether other pods, volumes or devices can forbid a node to this one."""
        return self._looks(self._pods[pod].template) or bool(self._terms_against(pod))

    def allowed(self, pod: int) -> Bools | None:
        """[node], or None where every node is allowed; the pod's own presence does not count."""
        if not self.matters(pod):
            return None
        home = int(self._on[pod])
        promised = [(row, int(self._on[row])) for row in self._nominated if row != pod and self._present[row]]
        away = [(pod, home)] if self._present[pod] else []
        for row, _ in away:
            self.move(row, -1)
        spread = bool(self._pods[pod].template.spread)
        mask = _beside(promised, spread, lambda: self._alone(pod, home), self.move)
        for row, there in (*away, *promised):
            self.move(row, there)
        return mask

    def preference(self, pod: int, among: Bools) -> Floats:
        """[node]: how much it would like to be there, as kube-scheduler scores it with its default weights.

        Each of node affinity, pod (anti-)affinity and ScheduleAnyway spread gives 0..100 over the nodes `among`; all
        three weigh the same (apis/config/v1/default_plugins.go). The pod's own presence does not count.
        """
        template = self._pods[pod].template
        total = np.zeros(len(self._nodes))
        if template.preferred:
            weights = self._sites.preference(template)
            total += 100 * weights / max(1, int(weights[among].max(initial=0)))
        if template.preferred_pods:
            total += self._liked(pod, among)
        if template.preferred_spread:
            total += self._evenness(pod, among)
        return np.asarray(total)

    def _liked(self, pod: int, among: Bools) -> Floats:
        """[node]: 0..100 by preferred (anti-)affinity to pods (interpodaffinity/scoring.go)."""
        raw = np.zeros(len(self._nodes))
        for weight, term in self._pods[pod].template.preferred_pods:
            raw += weight * self._others(pod, term.topology_key, selected_by(term))
        least, most = float(raw[among].min()), float(raw[among].max())
        return np.asarray(100 * (raw - least) / (most - least) if most > least else np.zeros(len(raw)))

    def _evenness(self, pod: int, among: Bools) -> Floats:
        """[node]: 0..100 by ScheduleAnyway spread, 0 without a domain (podtopologyspread/scoring.go)."""
        crowded, keyed = np.zeros(len(self._nodes)), among.copy()
        for spread in self._pods[pod].template.preferred_spread:
            domain = self._domain(spread.topology_key)
            keyed &= domain >= 0
            others = self._others(pod, spread.topology_key, spread_over(self._pods[pod], spread))
            crowded += others * np.log(np.count_nonzero(np.bincount(domain[keyed])) + 2) + spread.max_skew - 1
        if not keyed.any():
            return np.zeros(len(crowded))
        least, most = float(crowded[keyed].min()), float(crowded[keyed].max())
        return np.where(keyed, 100 * (most + least - crowded) / most if most > 0 else 100.0, 0.0)

    def _others(self, pod: int, key: str, crowd: SelectedPods) -> Floats:
        """[node]: pods of the crowd in its domain, without this one; 0 where it has no such domain."""
        domain, counts = self._domain(key), self._crowd(crowd)
        home = int(self._on[pod])
        if home >= 0 and self._present[pod] and self._who.members(crowd)[int(self._who.kind[pod])]:
            counts = counts.copy()
            counts[home] -= 1
        near = np.bincount(domain[domain >= 0], weights=counts[domain >= 0], minlength=1)
        return np.where(domain >= 0, near[domain], 0.0)

    def alike(self, pod: int) -> Hashable | None:
        """What pods on nodes share that `surely` is the same for; None where each has to be asked on its own."""
        template, home = self._pods[pod].template, int(self._on[pod])
        if self._nominated or home < 0 or (self._attachments is not None and template.attaches):
            return None
        keys = [term.topology_key for term in template.affinity] + [
            constraint.topology_key for constraint in template.spread
        ]
        there = bool(self._present[pod])
        return int(self._who.kind[pod]), id(template), there, tuple(int(self._domain(key)[home]) for key in keys)

    def surely(self, pod: int) -> Bools:
        """[node]: allowed to all pods that are `alike`: where one leaves, only what it keeps others off falls away."""
        there = self.allowed(pod)
        return self._mask(pod) if there is None else there & self._mask(pod)

    def _alone(self, pod: int, home: int) -> Bools:
        """[node]: `allowed` for a pod that was taken away from `home`."""
        mask = self._mask(pod)
        if self._attachments is not None and self._pods[pod].template.attaches:
            mask &= self._attachments.allowed(pod, home)
        return mask

    def _looks(self, template: Template) -> bool:
        return template.looks_at_pods or (self._attachments is not None and template.attaches)

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
        kind, template = int(self._who.kind[pod]), self._pods[pod].template
        key = (kind, id(template))
        relation = self._relations.get(key)
        if relation is None:
            watchful = [self._groups[number] for number in sorted(self._watchful(kind, template))]
            relation = self._relations[key] = np.sort(np.concatenate([_NOBODY, *watchful]))
        return relation

    @cached_property
    def _groups(self) -> list[Ints]:
        """Pods by kind and template."""
        groups: dict[tuple[int, int], list[int]] = {}
        for row, (kind, pod) in enumerate(zip(self._who.kind.tolist(), self._pods, strict=True)):
            groups.setdefault((kind, id(pod.template)), []).append(row)
        return [np.array(rows, np.int64) for rows in groups.values()]

    @cached_property
    def _watchers(self) -> dict[SelectedPods, list[int]]:
        """Groups by the pods that they look at."""
        watchers: dict[SelectedPods, list[int]] = defaultdict(list)
        for number, rows in enumerate(self._groups):
            other = self._pods[int(rows[0])]
            for term in (*other.template.affinity, *other.template.anti_affinity):
                watchers[selected_by(term)].append(number)
            for spread in other.template.spread:
                watchers[spread_over(other, spread)].append(number)
        return watchers

    @cached_property
    def _port_users(self) -> dict[tuple[str, int], list[int]]:
        """Groups by the ports of the host that they take."""
        users: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, rows in enumerate(self._groups):
            for port in self._pods[int(rows[0])].template.host_ports:
                users[port.protocol, port.port].append(number)
        return users

    def _watchful(self, kind: int, template: Template) -> set[int]:
        """Groups of pods that look at one of this kind and template, or are looked at by it."""
        watchful = {
            number for seen, numbers in self._watchers.items() if self._who.members(seen)[kind] for number in numbers
        }
        for port in template.host_ports:
            watchful.update(self._port_users[port.protocol, port.port])
        kept_off = [self._who.members(selected_by(term)) for term in template.anti_affinity]
        attaches = self._attachments is not None and template.attaches
        if kept_off or attaches:
            for number, rows in enumerate(self._groups):
                row = int(rows[0])
                if any(members[int(self._who.kind[row])] for members in kept_off) or (
                    attaches and self._pods[row].template.attaches
                ):
                    watchful.add(number)
        return watchful

    def broken(self, pod: int) -> tuple[str, ...]:
        """What the pod asks of other pods, or they of it, that does not hold where it is."""
        here = int(self._on[pod])
        self.move(pod, -1)
        broken = tuple(name for name, mask in self._masks(pod) if not mask[here])
        self.move(pod, here)
        return broken

    def uneven(self, pod: int) -> bool:
        """Whether a ScheduleAnyway spread of the pod is above its skew where it is."""
        here, soft = int(self._on[pod]), self._pods[pod].template.preferred_spread
        self.move(pod, -1)
        uneven = any(
            self._domain(spread.topology_key)[here] >= 0 and not self._spread(pod, spread, soft)[here]
            for spread in soft
        )
        self.move(pod, here)
        return uneven

    def _mask(self, pod: int) -> Bools:
        every = np.ones(len(self._nodes), bool)
        return np.asarray(np.logical_and.reduce([every, *(mask for _, mask in self._masks(pod))]))

    def _masks(self, pod: int) -> Iterator[tuple[str, Bools]]:
        """[node] by each kind of constraint."""
        template = self._pods[pod].template
        if template.host_ports:
            mask = np.ones(len(self._nodes), bool)
            for port in template.host_ports:
                for row, address in self._ports.get((port.protocol, port.port), ()):
                    if address == port.address or _ANY in (address, port.address):
                        mask[row] = False
            yield "host ports", mask
        for term in template.anti_affinity:
            yield "anti-affinity", ~self._near(term.topology_key, self._crowd(selected_by(term)))
        for term in self._terms_against(pod):
            yield "anti-affinity", ~self._near(term.topology_key, self._carried[term])
        if template.affinity:
            yield "affinity", self._attracted(pod, template.affinity)
        for spread in template.spread:
            yield "spread", self._spread(pod, spread, template.spread)

    def _attracted(self, pod: int, terms: Sequence[PodTerm]) -> Bools:
        """Pods that all terms mean are near by each; the first of a group that seeks itself goes where the keys are."""
        keyed: Bools = np.logical_and.reduce([self._domain(term.topology_key) >= 0 for term in terms])
        crowd: SelectedPods = tuple(selection_of(term) for term in terms)
        near: Bools = np.logical_and.reduce([self._near(t.topology_key, self._crowd(crowd)) for t in terms])
        somewhere = any((self._crowd(crowd)[self._domain(t.topology_key) >= 0] > 0).any() for t in terms)
        return keyed if not somewhere and self._who.belongs(pod, crowd) else near

    def _spread(self, pod: int, spread: TopologySpread, together: Sequence[TopologySpread]) -> Bools:
        """[node]: where it holds; nodes count that have the keys of all constraints that are judged `together`."""
        domain = self._domain(spread.topology_key)
        crowd = spread_over(self._pods[pod], spread)
        template = self._pods[pod].template
        eligible: Bools = np.logical_and.reduce([self._domain(constraint.topology_key) >= 0 for constraint in together])
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
        itself = 1 if self._who.belongs(pod, crowd) else 0
        return np.asarray((domain >= 0) & (counts[domain] + itself - least <= spread.max_skew))

    def _near(self, key: str, crowd: Ints) -> Bools:
        """Nodes in a domain where somebody of the crowd is."""
        domain = self._domain(key)
        busy = np.bincount(domain[domain >= 0], weights=crowd[domain >= 0], minlength=1) > 0
        return np.asarray((domain >= 0) & busy[domain])

    def _domain(self, key: str) -> Ints:
        domains = self._domains.get(key)
        if domains is None:
            values = sorted({node.labels[key] for node in self._nodes if key in node.labels})
            numbers = {value: number for number, value in enumerate(values)}
            domains = np.array([numbers.get(node.labels.get(key, ""), -1) for node in self._nodes], np.int64)
            self._domains[key] = domains
        return domains

    def _crowd(self, crowd: SelectedPods) -> Ints:
        """[node]: how many pods of the crowd are there."""
        counts = self._crowds.get(crowd)
        if counts is None:
            members = self._who.members(crowd)
            rows = self._on[self._present & np.array(members, bool)[self._who.kind]]
            counts = self._crowds[crowd] = np.bincount(rows, minlength=len(self._nodes)).astype(np.int64)
            self._members.append((counts, members))
            for kind, counting in self._counting.items():
                if members[kind]:
                    counting.append(counts)
        return counts

    def _counts_of(self, kind: int) -> list[Ints]:
        """Of the crowds it belongs to."""
        counting = self._counting.get(kind)
        if counting is None:
            counting = [numbers for numbers, members in self._members if members[kind]]
            self._counting[kind] = counting
        return counting

    def _terms_against(self, pod: int) -> list[PodTerm]:
        """Anti-affinities that pods on nodes have against this one."""
        kind = int(self._who.kind[pod])
        repelled = self._repelled.get(kind)
        if repelled is None:
            repelled = [term for term, members in self._repellers if members[kind]]
            self._repelled[kind] = repelled
        return repelled

    def _shift(self, pod: int, row: int, count: int) -> None:
        for numbers in self._counts_of(int(self._who.kind[pod])):
            numbers[row] += count
        if self._looks(self._pods[pod].template):
            self._carry(pod, row, count)

    def _carry(self, number: int, row: int, count: int) -> None:
        pod = self._pods[number]
        if self._attachments is not None and pod.template.attaches:
            self._attachments.shift(number, row, count)
        for term in pod.template.anti_affinity:
            numbers = self._carried.get(term)
            if numbers is None:
                numbers = self._carried[term] = np.zeros(len(self._nodes), np.int64)
                self._repellers.append((term, self._who.members(selected_by(term))))
                self._repelled.clear()
            numbers[row] += count
        for port in pod.template.host_ports:
            used = self._ports.setdefault((port.protocol, port.port), {})
            left = used.get((row, port.address), 0) + count
            if left:
                used[row, port.address] = left
            else:
                del used[row, port.address]


def _beside(
    promised: Sequence[tuple[int, int]], spread: bool, ask: Callable[[], Bools], move: Callable[[int, int], None]
) -> Bools:
    """[node]: allowed without the promised pods (pod, node), and with those alone that are promised to the node.

    It takes them away. Those of other nodes open a node only to a `spread`, of which they raise the least.
    Source: kubernetes pkg/scheduler/framework/runtime RunFilterPluginsWithNominatedPods.
    """
    with_all = ask()
    if not promised:
        return with_all
    for row, _ in promised:
        move(row, -1)
    mask = ask()
    for node in {there for _, there in promised if mask[there] and (spread or not with_all[there])}:
        own = [row for row, there in promised if there == node]
        for row in own:
            move(row, node)
        mask[node] = ask()[node]
        for row in own:
            move(row, -1)
    return mask


Kind: TypeAlias = tuple[str, Mapping[str, str], bool]
"""Namespace and labels of pods, and whether they are terminating."""


class PodSelection(NamedTuple):
    """Which pods are meant; `staying` leaves out those that are terminating."""

    namespaces: tuple[str, ...]
    chooser: Selector | None
    selector: Selector | None
    staying: bool = False


SelectedPods: TypeAlias = tuple[PodSelection, ...]
"""Pods that are meant by all of these."""


class PodMatcher:
    """The kinds of pods, and which of them belong to a crowd."""

    def __init__(self, pods: Sequence[Pod], namespaces: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._namespaces = namespaces or {}
        self._kinds, self.kind = _kinds(pods)
        self._matching: dict[SelectedPods, list[bool]] = {}
        self._of_namespace: dict[str, list[int]] = defaultdict(list)
        for number, (namespace, _, _) in enumerate(self._kinds):
            self._of_namespace[namespace].append(number)

    def members(self, crowd: SelectedPods) -> list[bool]:
        """Per kind of pod (namespace and labels)."""
        matching = self._matching.get(crowd)
        if matching is None:
            matching = self._matching[crowd] = [False] * len(self._kinds)
            for number in self._candidates(crowd[0]):
                matching[number] = all(self._is_meant(self._kinds[number], term) for term in crowd)
        return matching

    def _candidates(self, meant: PodSelection) -> Iterable[int]:
        """The kinds of its namespaces, all where it chooses them by their labels."""
        if meant.chooser is not None:
            return range(len(self._kinds))
        return chain.from_iterable(self._of_namespace.get(name, ()) for name in set(meant.namespaces))

    def _is_meant(self, kind: Kind, meant: PodSelection) -> bool:
        namespace, labels, deleting = kind
        if meant.selector is None or (deleting and meant.staying):
            return False
        chooser = meant.chooser
        there = namespace in meant.namespaces or (
            chooser is not None and chooser.matches(self._namespaces.get(namespace, {}))
        )
        return there and meant.selector.matches(labels)

    def belongs(self, pod: int, crowd: SelectedPods) -> bool:
        return self.members(crowd)[int(self.kind[pod])]


def selected_by(term: PodTerm) -> SelectedPods:
    return (selection_of(term),)


def selection_of(term: PodTerm) -> PodSelection:
    return PodSelection(term.namespaces, term.namespace_selector, term.selector)


def spread_over(pod: Pod, spread: TopologySpread) -> SelectedPods:
    return (PodSelection((pod.namespace,), None, spread.selector, staying=True),)


def _kinds(pods: Sequence[Pod]) -> tuple[list[Kind], Ints]:
    """Label sets are shared between pods, so each is matched once."""
    numbers: dict[tuple[str, int, bool], int] = {}
    kinds: list[Kind] = []
    kind = np.empty(len(pods), np.int64)
    for row, pod in enumerate(pods):
        key = (pod.namespace, id(pod.labels), pod.deleting)
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(kinds)
            kinds.append((pod.namespace, pod.labels, pod.deleting))
        kind[row] = number
    return kinds, kind
