"""Reads a placement problem from a file that describes it by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ballast.base.errors import BadFile, UsageError
from ballast.base.text import named
from ballast.model.load_limits import quantity
from ballast.model.sample import Floats, Ints
from ballast.solving import Problem, Rule, RuleKind, arrange
from ballast.solving.device_shares import Devices, DeviceShare, DeviceShares

Json: TypeAlias = Mapping[str, Any]

_KEYS = ("resources", "weights", "nodes", "pods", "rules")
_NODE_KEYS = ("name", "capacity", "weight", "devices")
_POD_KEYS = ("name", "request", "use", "node", "devices")
_DEVICE_KEYS = ("resource", "capacity", "count")
_SHARE_KEYS = ("resource", "amount", "count")
MOST_DEVICES = 1024
"""Devices of one node, or shares of one pod."""
RULES = ("affine", "forbid", "together", "apart")


def problem_of(document: object, source: str, weights: Mapping[str, float] | None = None) -> Problem:
    """The problem in a document; `weights` replace those of the file.

    A pod that does not say what it uses counts with its request; a node without a capacity for a resource is left out
    of that resource's objective, and takes no pod that requests it. Raises BadFile, beginning with `source`.
    """
    reader = _FileReader(source)
    whole = reader.mapping(document, "the file", _KEYS)
    resources = reader.names(whole.get("resources"), "resources")
    if not resources:
        raise BadFile(f"{source}: resources is empty. Name at least one, such as [cpu, memory].")
    nodes = reader.items(whole.get("nodes"), "nodes", _NODE_KEYS)
    pods = reader.items(whole.get("pods"), "pods", _POD_KEYS)
    if not nodes:
        raise BadFile(f"{source}: There are no nodes, so no pod can be placed. Give at least one node.")
    check_weights(weights or {}, resources)
    rows = {name: row for row, name in enumerate(nodes)}
    capacity = reader.table("node", nodes, "capacity", resources)
    request = np.nan_to_num(reader.table("pod", pods, "request", resources))
    use = reader.table("pod", pods, "use", resources)
    home = [reader.home(name, pod.get("node"), rows) for name, pod in pods.items()]
    factor = np.array([reader.factor(name, each.get("weight", 1), resources) for name, each in nodes.items()])
    found = reader.weights(whole.get("weights"), resources) if weights is None else weights
    rules = list(reader.rules(whole.get("rules"), rows, {name: row for row, name in enumerate(pods)}))
    return arrange(
        list(nodes),
        list(pods),
        resources,
        capacity=capacity,
        use=np.where(np.isfinite(use), use, request),
        weights=np.array([found.get(name, 0.0) for name in resources]),
        kinds=resources,
        room=np.nan_to_num(capacity),
        request=request,
        factor=factor,
        home=home,
        rules=rules,
        devices=reader.devices(nodes, pods),
        notes=list(_unknown(list(nodes), resources, capacity)),
    )


def check_weights(weights: Mapping[str, float], resources: Sequence[str]) -> None:
    """Raises UsageError for `--weights` of a resource that is not there."""
    for name in weights:
        if name not in resources:
            raise UsageError(f"--weights: there is no {name}. Resources are {', '.join(resources)}.")


def _unknown(nodes: Sequence[str], resources: Sequence[str], capacity: Floats) -> Iterator[str]:
    for column, resource in enumerate(resources):
        without = [nodes[row] for row in np.flatnonzero(~(capacity[:, column] > 0)).tolist()]
        if without:
            yield f"{resource} does not count for {named(without)}: the capacity is unknown or 0."


class _FileReader:
    def __init__(self, source: str) -> None:
        self._source = source

    def bad(self, message: str) -> BadFile:
        return BadFile(f"{self._source}: {message}")

    def mapping(self, value: object, what: str, keys: Sequence[str] | None = None) -> Json:
        if not isinstance(value, Mapping):
            raise self.bad(
                f"{what} is {_shown(value)}; give a mapping" + (f" with {', '.join(keys)}." if keys else ".")
            )
        for key in value:
            if keys is not None and key not in keys:
                raise self.bad(f"{what} has {key!r}, which is none of {', '.join(keys)}.")
        return value

    def names(self, value: object, what: str) -> list[str]:
        if not isinstance(value, list):
            raise self.bad(f"{what} is {_shown(value)}; give a list of names.")
        found = [self.name(each, what) for each in value]
        for name in found:
            if found.count(name) > 1:
                raise self.bad(f"{what}: {name} is listed twice.")
        return found

    def name(self, value: object, what: str) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise self.bad(f"{what}: {_shown(value)} is not a name.")
        return str(value)

    def items(self, value: object, what: str, keys: Sequence[str]) -> dict[str, Json]:
        if value is None:
            return {}
        if not isinstance(value, list):
            raise self.bad(f"{what} is {_shown(value)}; give a list.")
        found: dict[str, Json] = {}
        for number, each in enumerate(value):
            item = self.mapping(each, f"{what}[{number}]", keys)
            name = self.name(item.get("name"), f"{what}[{number}].name")
            if name in found:
                raise self.bad(f"{what}: {name} is listed twice.")
            found[name] = item
        return found

    def table(self, kind: str, items: Mapping[str, Json], key: str, resources: Sequence[str]) -> Floats:
        """[item, resource], NaN where nothing is said."""
        found = np.full((len(items), len(resources)), np.nan)
        for row, (name, item) in enumerate(items.items()):
            amounts = self.mapping(item.get(key) or {}, f"{kind} {name}: {key}")
            for resource, amount in amounts.items():
                if resource not in resources:
                    raise self.bad(f"{kind} {name}: {key} has {resource!r}, which is none of {', '.join(resources)}.")
                if amount is not None:
                    column = resources.index(resource)
                    found[row, column] = self.number(amount, f"{kind} {name}: {key}: {resource}")
        return found

    def number(self, value: object, what: str) -> float:
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError
            found = float(quantity(value)) if isinstance(value, str) else float(value)
        except (ValueError, OverflowError):
            raise self.bad(f"{what} is {_shown(value)}; give a number that is at least 0.") from None
        if not math.isfinite(found) or found < 0:
            raise self.bad(f"{what} is {_shown(value)}; give a number that is at least 0.")
        return found

    def factor(self, node: str, value: object, resources: Sequence[str]) -> list[float]:
        """[resource]: one number for all of them, or a map by resource, 1 for those without a name."""
        if not isinstance(value, Mapping):
            return [self.number(value, f"node {node}: weight")] * len(resources)
        for name in value:
            if name not in resources:
                raise self.bad(f"node {node}: weight has {name!r}, which is none of {', '.join(resources)}.")
        return [self.number(value.get(name, 1), f"node {node}: weight: {name}") for name in resources]

    def devices(self, nodes: Mapping[str, Json], pods: Mapping[str, Json]) -> Devices | None:
        """Single devices of nodes and what pods need of them; None where no pod needs any."""
        there = [self.amounts(f"node {name}", each, "capacity", _DEVICE_KEYS) for name, each in nodes.items()]
        asked = [self.amounts(f"pod {name}", each, "amount", _SHARE_KEYS) for name, each in pods.items()]
        if not any(asked):
            return None
        dimensions: dict[str, list[str]] = {}
        for kind, amounts in (entry for entries in (*there, *asked) for entry in entries):
            dimensions[kind] = sorted({*dimensions.get(kind, ()), *amounts})
            if "" in dimensions[kind] and len(dimensions[kind]) > 1:
                raise self.bad(f"devices of {kind} have a number here and a mapping there; give the same everywhere.")

        def shares(entries: Sequence[tuple[str, Mapping[str, float]]]) -> DeviceShares:
            return tuple(
                DeviceShare(kind, tuple(of.get(name, 0.0) for name in dimensions[kind])) for kind, of in entries
            )

        return Devices(tuple(map(shares, there)), tuple(map(shares, asked)))

    def amounts(self, what: str, item: Json, key: str, keys: Sequence[str]) -> list[tuple[str, Mapping[str, float]]]:
        """Each device, or share of one: its resource, and its amount by dimension, "" where there is only one."""
        entries: list[tuple[str, Mapping[str, float]]] = []
        given = item.get("devices")
        if given is not None and not isinstance(given, list):
            raise self.bad(f"{what}: devices is {_shown(given)}; give a list.")
        for number, value in enumerate(given or ()):
            where = f"{what}: devices[{number}]"
            entry = self.mapping(value, where, keys)
            kind, amount = self.name(entry.get("resource"), f"{where}.resource"), entry.get(key, 1)
            parts = amount if isinstance(amount, Mapping) else {"": amount}
            sizes = {str(name): self.number(size, f"{where}.{key}") for name, size in parts.items()}
            count = self.number(entry.get("count", 1), f"{where}.count")
            if count != int(count) or len(entries) + count > MOST_DEVICES:
                raise self.bad(
                    f"{where}.count is {count:g}; give a whole number, at most {MOST_DEVICES} devices in all."
                )
            if key == "capacity" or any(sizes.values()):
                entries += [(kind, sizes)] * int(count)
        return entries

    def home(self, pod: str, node: object, rows: Mapping[str, int]) -> int:
        if node is None or node == "":
            return -1
        name = self.name(node, f"pod {pod}: node")
        if name not in rows:
            raise self.bad(f"pod {pod}: there is no node {name}.")
        return rows[name]

    def weights(self, value: object, resources: Sequence[str]) -> dict[str, float]:
        if value is None:
            return dict.fromkeys(resources, 1.0)
        found = {name: self.number(each, f"weights: {name}") for name, each in self.mapping(value, "weights").items()}
        for name in found:
            if name not in resources:
                raise self.bad(f"weights has {name!r}, which is none of {', '.join(resources)}.")
        if not any(found.values()):
            raise self.bad("all weights are 0. Give at least one resource a weight above 0.")
        return found

    def rules(self, value: object, nodes: Mapping[str, int], pods: Mapping[str, int]) -> Iterator[Rule]:
        if value is None:
            return
        for kind, lists in self.mapping(value, "rules", RULES).items():
            if lists is None:
                continue
            if not isinstance(lists, list):
                raise self.bad(f"rules: {kind} is {_shown(lists)}; give a list of lists of names.")
            for each in lists:
                if not isinstance(each, list) or not each:
                    raise self.bad(f"rules: {kind} has {_shown(each)}; give a list of names.")
                yield self.rule(RuleKind(kind), [self.name(name, f"rules: {kind}") for name in each], nodes, pods)

    def rule(self, kind: RuleKind, names: list[str], nodes: Mapping[str, int], pods: Mapping[str, int]) -> Rule:
        by_node = kind in (RuleKind.AFFINE, RuleKind.FORBID)
        names = [*names[:1], *sorted(set(names[1:]))] if by_node else sorted(set(names))
        text = f"{kind} [{named(names, 8)}]"
        if by_node:
            if len(names) < 2:
                raise self.bad(f"rules: {text} names no node. Give a pod and at least one node.")
            mask = np.zeros(len(nodes), bool)
            mask[[self.row(name, nodes, "node", text) for name in names[1:]]] = True
            return Rule(kind, np.array([self.row(names[0], pods, "pod", text)]), nodes=mask, name=text)
        rows: Ints = np.unique([self.row(name, pods, "pod", text) for name in names])
        return Rule(kind, rows, name=text)

    def row(self, name: str, rows: Mapping[str, int], what: str, rule: str) -> int:
        if name not in rows:
            raise self.bad(f"rules: {rule}: there is no {what} {name}.")
        return rows[name]


def _shown(value: object) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
