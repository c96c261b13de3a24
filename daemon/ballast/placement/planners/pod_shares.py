"""What a pod uses of a resource that only its node measures: its share of what all pods there do with it.

disk and network: its share of all bytes there. Any other resource: its share of the devices that pods there request,
or, where they request none, of the cpu in use there. Where bytes are not measured, the cpu stands in for them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints

BYTES = ("disk", "network")
DEVICE_DOMAINS_EXCLUDED = ("kubernetes.io", "k8s.io")


def is_device(kind: str) -> bool:
    """Whether a request is for devices: an extended resource such as nvidia.com/gpu."""
    domain, slash, _ = kind.partition("/")
    return bool(slash) and not domain.endswith(DEVICE_DOMAINS_EXCLUDED)


def pod_shares(
    resource: str,
    pods: Sequence[Pod],
    on: Ints,
    present: Bools,
    usage: Mapping[str, Mapping[str, float]],
    devices: Floats,
    cpu: Floats,
    cpu_there: Floats,
) -> Floats:
    """[pod]: the share of its node's ratio that is the pod's, 0..1; 0 for a pod that is on no node.

    `devices` [pod] are requested; `cpu` [pod] is used, NaN where unknown, and `cpu_there` [node] is what its node uses,
    NaN where unknown: at least what its pods use together.
    """
    nodes = len(cpu_there)
    of_cpu = _share(cpu, on, present, np.nan_to_num(cpu_there))
    if resource in BYTES:
        said = [usage.get(f"{pod.namespace}/{pod.name}", {}).get(resource) for pod in pods]
        moved = np.array([np.nan if each is None else each for each in said], float)
        measured = np.isfinite(moved)
        by_bytes = _share(np.nan_to_num(moved), on, present, np.zeros(nodes))
        return np.where(measured, by_bytes, of_cpu)
    requested = np.bincount(on[present], devices[present], nodes) > 0
    of_devices = _share(devices, on, present, np.zeros(nodes))
    return np.where(np.append(requested, False)[on], of_devices, of_cpu)


def _share(used: Floats, on: Ints, present: Bools, at_least: Floats) -> Floats:
    """[pod]: `used` of all that pods on its node use, or of what the node is known to use if that is more."""
    known = np.nan_to_num(used)
    total = np.maximum(np.bincount(on[present], known[present], len(at_least)), at_least)
    there = np.append(total, 0.0)[on]
    share = np.divide(used, there, out=np.zeros(len(used)), where=there > 0)
    return np.where(present, share, 0.0)
