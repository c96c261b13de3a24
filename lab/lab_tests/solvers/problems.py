"""Placement problems as documents, and a checker of its own that knows nothing of the solvers."""

import math
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

Json = dict[str, Any]
RESOURCES = ("cpu", "memory", "disk", "network")


def broken(document: Json, placement: dict[str, str]) -> list[str]:
    """Every hard rule that a placement breaks."""
    found = [f"{pod['name']} is nowhere" for pod in document["pods"] if pod["name"] not in placement]
    for node in document["nodes"]:
        here = [pod for pod in document["pods"] if placement[pod["name"]] == node["name"]]
        for resource in document["resources"]:
            asked = math.fsum(pod.get("request", {}).get(resource, 0) for pod in here)
            if asked > node["capacity"].get(resource, 0) * (1 + 1e-6):
                found.append(f"{node['name']} is overfull: {resource}")
        if not devices_hold(node.get("devices", []), [pod.get("devices", []) for pod in here]):
            found.append(f"{node['name']} has too few devices")
    rules = document.get("rules", {})
    found += [f"affine {rule}" for rule in rules.get("affine", ()) if placement[rule[0]] not in rule[1:]]
    found += [f"forbid {rule}" for rule in rules.get("forbid", ()) if placement[rule[0]] in rule[1:]]
    found += [f"together {rule}" for rule in rules.get("together", ()) if len({placement[p] for p in rule}) > 1]
    for rule in rules.get("apart", ()):
        names = set(rule)
        if len({placement[pod] for pod in names}) < len(names):
            found.append(f"apart {rule}")
    return found


def devices_hold(devices: list[Json], pods: list[list[Json]]) -> bool:
    """Whether some choice of devices holds all shares, those of a pod on different devices; all choices are tried."""
    shares = [(number, share) for number, pod in enumerate(pods) for share in pod]
    for choice in product(range(len(devices)), repeat=len(shares)):
        left = [dict(amounts_of(device.get("capacity", 1))) for device in devices]
        users: set[tuple[int, int]] = set()
        for device, (pod, share) in zip(choice, shares, strict=True):
            for name, amount in amounts_of(share["amount"]).items():
                left[device][name] = left[device].get(name, 0) - amount
            if devices[device]["resource"] != share["resource"] or (device, pod) in users:
                break
            users.add((device, pod))
        else:
            if all(amount >= -1e-9 for amounts in left for amount in amounts.values()):
                return True
    return False


def amounts_of(amount: float | Json) -> Json:
    """By dimension; a plain number has one without a name."""
    return amount if isinstance(amount, dict) else {"": amount}


def value(document: Json, placement: dict[str, str]) -> float:
    """The sum of w_k Var_k with weights that sum to 1."""
    weights = document.get("weights") or dict.fromkeys(document["resources"], 1.0)
    total = math.fsum(weights.values())
    found = 0.0
    for resource, weight in weights.items():
        loads = []
        for node in document["nodes"]:
            here = [pod for pod in document["pods"] if placement[pod["name"]] == node["name"]]
            used = math.fsum(pod.get("use", pod.get("request", {})).get(resource, 0) for pod in here)
            loads.append(used / node["capacity"][resource] * weight_of(node, resource))
        found += weight / total * float(np.var(loads))
    return found


def weight_of(node: Json, resource: str) -> float:
    """What a node's load is multiplied by."""
    weight = node.get("weight", 1)
    return float(weight.get(resource, 1) if isinstance(weight, dict) else weight)


def all_placements(document: Json) -> list[dict[str, str]]:
    """Every placement that breaks nothing."""
    pods, nodes = ([each["name"] for each in document[kind]] for kind in ("pods", "nodes"))
    every = (dict(zip(pods, choice, strict=True)) for choice in product(nodes, repeat=len(pods)))
    return [each for each in every if not broken(document, each)]


@st.composite
def documents(draw: st.DrawFn, nodes: int = 3, pods: int = 6) -> Json:
    """Problems of a few nodes and pods with rules of all kinds; not all of them can be solved."""
    resources = list(RESOURCES[: draw(st.integers(1, 3))])
    node_names = [f"n{row}" for row in range(draw(st.integers(1, nodes)))]
    pod_names = [f"p{row}" for row in range(draw(st.integers(1, pods)))]
    size = st.sampled_from([4.0, 8.0, 8.0, 16.0])
    part = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.5, 4.0])

    def amounts(each: st.SearchStrategy[float]) -> Json:
        return {resource: draw(each) for resource in resources}

    pod, node = st.sampled_from(pod_names), st.sampled_from(node_names)
    on_nodes = st.tuples(pod, st.lists(node, min_size=1, max_size=3, unique=True)).map(lambda both: [both[0], *both[1]])
    several = st.lists(pod, min_size=2, max_size=4)
    document: Json = {
        "resources": resources,
        "nodes": [{"name": name, "capacity": amounts(size)} for name in node_names],
        "pods": [{"name": name, "request": amounts(part), "use": amounts(part)} for name in pod_names],
        "rules": {
            "affine": draw(st.lists(on_nodes, max_size=2)),
            "forbid": draw(st.lists(on_nodes, max_size=3)),
            "together": draw(st.lists(several, max_size=1)),
            "apart": draw(st.lists(several, max_size=2)),
        },
    }
    if draw(st.booleans()):
        add_devices(draw, document)
    if draw(st.booleans()):
        for each in document["nodes"]:
            each["weight"] = draw(st.sampled_from([0.5, {resources[0]: 0.5}, {}]))
    if draw(st.booleans()):
        for each in document["pods"]:
            each["node"] = draw(node)
    return document


def add_devices(draw: st.DrawFn, document: Json) -> None:
    """Nodes get up to three devices, pods up to two shares of some."""
    kinds = st.sampled_from(["gpu", "gpu", "fpga"])
    device = st.fixed_dictionaries({"resource": kinds, "capacity": st.sampled_from([500, 1000, 1000])})
    share = st.fixed_dictionaries({"resource": kinds, "amount": st.sampled_from([250, 300, 400, 500, 600, 1000])})
    for node in document["nodes"]:
        node["devices"] = draw(st.lists(device, max_size=3))
    for pod in document["pods"]:
        pod["devices"] = draw(st.lists(share, max_size=2)) if draw(st.booleans()) else []
