"""The rules of pod specs in the form that solvers take: which nodes, and which pods keep apart, near or spread.

Source: kubernetes pkg/scheduler/framework/plugins nodeaffinity, tainttoleration, nodeports, interpodaffinity,
podtopologyspread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Ints
from ballast.model.selector import Selector
from ballast.model.template import HostPort, PodTerm, Template, TopologySpread
from ballast.placement.node_constraints import NodeConstraints
from ballast.solving import Rule, RuleKind

_ANY = HostPort(0).address


class PodRules:
    """Rules of the pods in `rows`; a pod in `fixed` [pod] stays on `on`, and what it already breaks is not asked."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        on: Ints,
        fixed: Bools,
        targets: Bools,
        namespaces: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._nodes, self._pods, self._on, self._fixed = nodes, pods, on, fixed
        self._targets, self._namespaces = targets, namespaces
        self._sites = NodeConstraints(nodes)
        self._templates: dict[tuple[int, str], list[int]] = {}
        self._kinds: dict[tuple[str, int], list[int]] = {}
        for row, pod in enumerate(pods):
            self._templates.setdefault((id(pod.template), pod.namespace), []).append(row)
            self._kinds.setdefault((pod.namespace, id(pod.labels)), []).append(row)

    def rules(self) -> Iterator[Rule]:
        """All of them; a pod may always stay where it is, whatever its node has become."""
        yield from self._places()
        yield from self._ports()
        for rows in self._templates.values():
            template = self._pods[rows[0]].template
            name = self._name(rows)
            for term in template.anti_affinity:
                yield from self._apart(
                    rows, self._crowd(term), self._domain(term.topology_key), f"podAntiAffinity of {name}"
                )
            moving = self._moving(rows)
            if not len(moving):
                continue
            for term in template.affinity:
                yield Rule(
                    RuleKind.NEAR,
                    moving,
                    domain=self._domain(term.topology_key),
                    others=self._crowd(term),
                    name=f"podAffinity by {term.topology_key} of {name}",
                )
            for spread in template.spread:
                yield self._spread(moving, template, spread, name)

    def _places(self) -> Iterator[Rule]:
        masks: dict[bytes, tuple[Bools, list[int]]] = {}
        for rows in self._templates.values():
            general = self._sites.allowed(self._pods[rows[0]].template) & self._targets
            for row in rows:
                home = int(self._on[row])
                mask = general
                if self._fixed[row] or (home >= 0 and not general[home]):
                    mask = np.zeros(len(self._nodes), bool) if self._fixed[row] else general.copy()
                    mask[home] = True
                elif general.all():
                    continue
                masks.setdefault(mask.tobytes(), (mask, []))[1].append(row)
        for mask, listed in masks.values():
            fixed = bool(self._fixed[listed].all())
            what = "fixed to its node" if fixed else "node selector, affinity or taints"
            yield Rule(RuleKind.SITE, np.array(listed), nodes=mask, name=f"{what}: {self._name(listed)}")

    def _ports(self) -> Iterator[Rule]:
        users: dict[tuple[str, int], dict[str, list[int]]] = {}
        for row, pod in enumerate(self._pods):
            for used in pod.template.host_ports:
                users.setdefault((used.protocol, used.port), {}).setdefault(used.address, []).append(row)
        nodes = np.arange(len(self._nodes))
        for (protocol, port), addresses in sorted(users.items()):
            everywhere = addresses.get(_ANY, [])
            for address, rows in sorted(addresses.items()):
                others = np.array(sorted({*rows, *everywhere}))
                yield from self._apart(rows, others, nodes, f"host port {port}/{protocol} at {address}")

    def _apart(self, rows: Sequence[int], others: Ints, domain: Ints, name: str) -> Iterator[Rule]:
        """Two rules, so that pods which both stay where they are never collide."""
        moving, staying = self._moving(rows), np.array([row for row in rows if self._fixed[row]], np.int64)
        if len(moving) and len(others):
            yield Rule(RuleKind.APART, moving, domain=domain, others=others, name=name)
        victims = others[~self._fixed[others]]
        if len(staying) and len(victims):
            yield Rule(RuleKind.APART, victims, domain=domain, others=staying, name=name)

    def _spread(self, moving: Ints, template: Template, spread: TopologySpread, name: str) -> Rule:
        domain = self._domain(spread.topology_key)
        eligible = domain >= 0
        if spread.honour_affinity:
            eligible = eligible & self._sites.chosen(template)
        if spread.honour_taints:
            eligible = eligible & self._sites.tolerated(template.tolerations)
        return Rule(
            RuleKind.SPREAD,
            moving,
            nodes=eligible,
            domain=domain,
            others=self._matching((self._pods[int(moving[0])].namespace,), None, spread.selector),
            skew=spread.max_skew,
            min_domains=spread.min_domains,
            name=f"topology spread by {spread.topology_key} of {name}",
        )

    def _crowd(self, term: PodTerm) -> Ints:
        return self._matching(term.namespaces, term.namespace_selector, term.selector)

    def _matching(self, names: Iterable[str], chooser: Selector | None, selector: Selector | None) -> Ints:
        others: list[int] = []
        for (namespace, _), rows in self._kinds.items():
            chosen = namespace in names or (
                chooser is not None and chooser.matches(self._namespaces.get(namespace, {}))
            )
            if selector is not None and chosen and selector.matches(self._pods[rows[0]].labels):
                others += rows
        return np.array(sorted(others), np.int64)

    def _domain(self, key: str) -> Ints:
        values = sorted({node.labels[key] for node in self._nodes if key in node.labels})
        numbers = {value: number for number, value in enumerate(values)}
        return np.array([numbers.get(node.labels.get(key, ""), -1) for node in self._nodes], np.int64)

    def _moving(self, rows: Sequence[int]) -> Ints:
        return np.array([row for row in rows if not self._fixed[row]], np.int64)

    def _name(self, rows: Sequence[int]) -> str:
        first = f"{self._pods[rows[0]].namespace}/{self._pods[rows[0]].name}"
        return first if len(rows) == 1 else f"{first} and {len(rows) - 1} like it"
