"""Reads the usage of pods from the output of `kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from ballast.base.errors import BadFile
from ballast.model.load_limits import quantity


def pod_usage(document: object, source: str = "pod metrics") -> dict[str, dict[str, float]]:
    """Usage in cores and bytes by namespace/name, summed over containers. Raises BadFile, beginning with `source`.

    If a container lacks a resource, the pod lacks it too.
    """
    items = document.get("items") if isinstance(document, Mapping) else None
    if not isinstance(items, list):
        raise BadFile(f"{source}: give the output of `kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods`.")
    usage: dict[str, dict[str, float]] = {}
    with suppress(msgspec.ValidationError, ValueError):
        return _plain_usage(msgspec.convert(items, list[_MeasuredPod]))
    for item in items:
        metadata = item.get("metadata") if isinstance(item, Mapping) else None
        if not isinstance(metadata, Mapping) or "name" not in metadata:
            raise BadFile(f"{source}: an item has no name.")
        name = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
        containers = _containers(source, name, item.get("containers"))
        kinds = set.intersection(*map(set, containers)) if containers else set()
        if len(containers) == 1:
            usage[name] = {kind: _amount(source, name, amount) for kind, amount in sorted(containers[0].items())}
            continue
        usage[name] = {
            kind: sum(_amount(source, name, container[kind]) for container in containers) for kind in sorted(kinds)
        }
    return usage


class _Usage(msgspec.Struct, gc=False):
    usage: dict[str, str]


class _MeasuredName(msgspec.Struct, gc=False):
    name: str
    namespace: str


class _MeasuredPod(msgspec.Struct, gc=False):
    """As metrics-server answers."""

    metadata: _MeasuredName
    containers: list[_Usage]


def _plain_usage(items: Sequence[_MeasuredPod]) -> dict[str, dict[str, float]]:
    """Raises ValueError for what is not exactly as metrics-server answers."""
    usage: dict[str, dict[str, float]] = {}
    for item in items:
        kinds = set.intersection(*(set(container.usage) for container in item.containers)) if item.containers else ()
        amounts = {kind: sum(quantity(c.usage[kind]) for c in item.containers) for kind in sorted(kinds)}
        if min(amounts.values(), default=0.0) < 0 or not item.metadata.namespace:
            raise ValueError
        usage[f"{item.metadata.namespace}/{item.metadata.name}"] = amounts
    return usage


def _containers(source: str, name: str, containers: object) -> list[Mapping[str, object]]:
    """The usage of each container."""
    listed = containers if isinstance(containers, list) else [containers] if containers else []
    used = [(entry.get("usage") or {}) if isinstance(entry, Mapping) else None for entry in listed]
    usages = [entry for entry in used if isinstance(entry, Mapping)]
    if len(usages) < len(used):
        raise BadFile(f"{source}: {name}: the containers are invalid.")
    return usages


def _amount(source: str, name: str, text: object) -> float:
    if isinstance(text, str) or (isinstance(text, int | float) and not isinstance(text, bool)):
        try:
            amount = quantity(text)
        except ValueError as error:
            raise BadFile(f"{source}: {name}: {error}.") from None
        if amount >= 0:
            return amount
    raise BadFile(f"{source}: {name}: {text!r} is not a quantity.")
