"""Random devices of nodes, and templates of claims for them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from ballast_lab.harness.api import Api

Json = dict[str, Any]

DEVICES = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def make_devices(api: Api, dice: random.Random, prefix: str, hosts: Iterable[str]) -> list[str]:
    """Gives devices to these nodes; the names of templates: for one device, for two, and for one of a model."""
    chosen = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    api.post(f"{DEVICES}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"selectors": [chosen]}})
    of_a = {"cel": {"expression": f"device.attributes['{DRIVER}'].model == 'a'"}}
    names = []
    for name, more in (("one", {}), ("two", {"count": 2}), ("a", {"selectors": [of_a]})):
        asked = {"requests": [{"name": "gpus", "exactly": {"deviceClassName": DRIVER, **more}}]}
        body = {"metadata": {"name": f"{prefix}-{name}"}, "spec": {"spec": {"devices": asked}}}
        made = api.post(f"{DEVICES}/namespaces/default/resourceclaimtemplates", body)
        names.append(str(made["metadata"]["name"]))
    for host in hosts:
        _pool(api, dice, host)
    return names


def _pool(api: Api, dice: random.Random, host: str) -> None:
    """It may be incomplete, out of date in part, or have a device that is tainted."""
    pool = {"name": host, "generation": 2, "resourceSliceCount": 2 if dice.random() < 0.1 else 1}
    devices = [_device(dice, n) for n in range(dice.choice((1, 1, 2, 3)))]
    slices = {"new": (pool, devices)}
    if dice.random() < 0.2:
        slices["old"] = ({**pool, "generation": 1}, [_device(dice, 9)])
    for name, (its, listed) in slices.items():
        spec = {"driver": DRIVER, "nodeName": host, "pool": its, "devices": listed}
        api.post(f"{DEVICES}/resourceslices", {"metadata": {"name": f"{host}-{name}"}, "spec": spec})


def _device(dice: random.Random, number: int) -> Json:
    model = "b" if dice.random() < 0.15 else "a"
    found: Json = {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}}
    if dice.random() < 0.1:
        found["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    return found
