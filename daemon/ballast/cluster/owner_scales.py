"""How many replicas owners of pods ask for whose kinds are not watched, by their /scale."""

from collections.abc import Mapping

import msgspec

from ballast.base.clock import Clock
from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.write import object_path
from ballast.model.pod import Pod

KEPT_FOR = 600.0
"""Seconds for which an answer counts; whoever acts asks again before."""

_MOST = 2000
"""Owners that are remembered."""


class OwnerScales:
    """Used by the job of evictions alone."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._plurals: dict[str, Mapping[str, str]] = {}
        self._seen: dict[tuple[str, str, str], tuple[float, int]] = {}

    def known(self) -> Mapping[tuple[str, str, str], int]:
        """{(namespace, kind, name): replicas} of the owners that were asked for lately."""
        oldest = self._clock.monotonic() - KEPT_FOR
        self._seen = {key: seen for key, seen in self._seen.items() if seen[0] >= oldest}
        return {key: replicas for key, (_, replicas) in self._seen.items()}

    def ask(self, pod: Pod) -> None:
        """Reads the /scale of the pod's owner. What cannot be read, or has none, is not known."""
        owner = pod.owner
        if owner is None or not owner.api_version:
            return
        key = (pod.namespace, owner.kind, owner.name)
        self._seen.pop(key, None)
        try:
            plural = self._scaled(owner.api_version).get(owner.kind)
            if plural is None:
                return
            root = f"{_root(owner.api_version)}/namespaces/{pod.namespace}/{plural}"
            scale = msgspec.json.decode(self._api.get(f"{object_path(root, owner.name)}/scale"), type=_OwnerScale)
        except (ClusterError, *NOT_JSON):
            return
        if len(self._seen) < _MOST:
            self._seen[key] = self._clock.monotonic(), scale.spec.replicas

    def _scaled(self, api_version: str) -> Mapping[str, str]:
        """{kind: plural} of the kinds of a group that have a /scale."""
        kinds = self._plurals.get(api_version)
        if kinds is None:
            listed = msgspec.json.decode(self._api.get(_root(api_version)), type=_Resources).resources
            names = {resource.name for resource in listed}
            kinds = {item.kind: item.name for item in listed if f"{item.name}/scale" in names}
            self._plurals[api_version] = kinds
        return kinds


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class _Replicas(wire.WireStruct):
    replicas: int = 0


class _OwnerScale(wire.WireStruct):
    spec: _Replicas


class _Resource(wire.WireStruct):
    name: str
    kind: str


class _Resources(wire.WireStruct):
    resources: list[_Resource]
