"""Reads a cluster from the files that kubectl prints."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
import yaml

from ballast.base import yaml_loader
from ballast.base.errors import BadFile, UsageError
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared, to_node, to_pod
from ballast.model.load_limits import quantity
from ballast.model.node import Node
from ballast.model.pod import Pod

Json: TypeAlias = Mapping[str, Any]
T = TypeVar("T")
W = TypeVar("W", wire.Node, wire.Pod)

_TIME_KEY = re.compile(r"([Tt]ime|Timestamp)$")
_LISTED = re.compile(r"List$")
_DEEPEST = 10
"""Lists in one another; kubectl prints one, a script that joins its answers two."""
_TOO_DEEP = "is nested too deeply to be read. Print it with `kubectl get … -o json`."


@dataclass(frozen=True)
class ClusterFile:
    """The nodes and pods of a cluster; `objects` has all items of the file by kind, unchanged."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    objects: Mapping[str, Sequence[Json]]

    @cached_property
    def newest(self) -> float:
        """The latest time in any of the objects, in Unix seconds; 0 without any."""
        return max((time for items in self.objects.values() for item in items for time in _times(item)), default=0.0)


def read_document(path: Path, option: str) -> object:
    """Reads a JSON or YAML file. Raises UsageError when it cannot be opened, BadFile when it is neither."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}.") from None
    try:
        return msgspec.json.decode(content)
    except UnicodeDecodeError as error:
        raise BadFile(f"{option} {path} is not UTF-8 ({error}). Save it as UTF-8.") from None
    except RecursionError:
        raise BadFile(f"{option} {path} {_TOO_DEEP}") from None
    except msgspec.DecodeError as error:
        if content.lstrip()[:1] in (b"{", b"["):
            raise BadFile(f"{option} {path}: {error}.") from None
    try:
        return yaml_loader.load(content)
    except UnicodeDecodeError as error:
        raise BadFile(f"{option} {path} is not UTF-8 ({error}). Save it as UTF-8.") from None
    except RecursionError:
        raise BadFile(f"{option} {path} {_TOO_DEEP}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadFile(f"{option} {path} is neither JSON nor YAML: {error}.") from None


def cluster(document: object, source: str = "cluster") -> ClusterFile:
    """Reads the list that `kubectl get nodes,pods,… -A -o json` prints.

    Raises BadFile, beginning with `source`, for a list without nodes, a duplicate node or pod, or an invalid object.
    """
    objects: dict[str, list[Json]] = {}
    for item in _items(document, source):
        objects.setdefault(str(item.get("kind", "")), []).append(item)
    if not objects.get("Node"):
        raise BadFile(f"{source}: there are no nodes. Print it with `kubectl get nodes,pods -A -o json`.")
    shared = Shared()
    nodes = tuple(
        _read(_store(node_as_stored, stored, wire.Node, source), wire.Node, source, lambda n: to_node(n, shared, _keep))
        for stored in objects["Node"]
    )
    pods = tuple(pod(stored, source, shared) for stored in objects.get("Pod", ()))
    _refuse_duplicates(source, "node", (node.name for node in nodes))
    _refuse_duplicates(source, "pod", (f"{placed.namespace}/{placed.name}" for placed in pods))
    return ClusterFile(nodes, pods, objects)


def pod(document: object, source: str = "pod", shared: Shared | None = None) -> Pod:
    """Reads one pod, with the defaults of the API server. Raises BadFile, beginning with `source`."""
    if not isinstance(document, Mapping) or document.get("kind", "Pod") != "Pod" or "spec" not in document:
        raise BadFile(f"{source}: give one object of kind Pod, as `kubectl get pod NAME -o json` prints it.")
    known = shared or Shared()
    whole = _complete(document)
    if whole is not None:
        return to_pod(whole, known, _keep)
    stored = _store(pod_as_stored, document, wire.Pod, source)
    return _read(stored, wire.Pod, source, lambda each: to_pod(each, known, _keep))


def name_of(document: object) -> str:
    """The name of an object for messages, or "?"; `document` may be anything."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    return str(metadata.get("name", "?")) if isinstance(metadata, Mapping) else "?"


def node_as_stored(node: Json) -> Json:
    """A missing allocatable defaults to capacity (pkg/apis/core/v1/defaults.go, SetDefaults_NodeStatus)."""
    status = node.get("status") or {}
    _check_quantities(node, status.get("capacity"), status.get("allocatable"))
    if status.get("allocatable") is not None or status.get("capacity") is None:
        return node
    return {**node, "status": {**status, "allocatable": status["capacity"]}}


def pod_as_stored(pod: Json) -> Json:
    """A missing request defaults to the limit (defaults.go, SetDefaults_Pod), also at the level of the pod."""
    spec = dict(pod.get("spec") or {})
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_fill_container(pod, container) for container in spec[part]]
    if spec.get("overhead"):
        _check_quantities(pod, spec["overhead"])
    whole = spec.get("resources")
    if whole:
        _check_quantities(pod, whole.get("requests"), whole.get("limits"))
        if whole.get("limits"):
            spec["resources"] = {**whole, "requests": _whole_requests(pod, spec, whole)}
    metadata = pod.get("metadata") or {}
    if not metadata.get("namespace"):
        metadata = {**metadata, "namespace": "default"}
    return {**pod, "metadata": metadata, "spec": spec}


def _complete(document: Json) -> wire.Pod | None:
    """The pod where the API server would have nothing to fill in or to refuse, as in all that kubectl prints.

    None where that is not certain: `pod_as_stored` and its messages are for those.
    """
    try:
        pod = msgspec.convert(document, wire.Pod)
    except (ValueError, OverflowError):
        return None
    spec = pod.spec
    if not pod.metadata.namespace or spec.overhead or spec.resources:
        return None
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        resources = container.resources
        if resources is None:
            continue
        requests, limits = resources.requests or {}, resources.limits or {}
        if not limits.keys() <= requests.keys() or not all(map(_is_amount, (*requests.values(), *limits.values()))):
            return None
    return pod


@lru_cache(maxsize=4096)
def _is_amount(text: str | float) -> bool:
    try:
        return quantity(text) >= 0
    except ValueError:
        return False


def _fill_container(pod: Json, container: Json) -> Json:
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if not requests and not limits:
        return container
    _check_quantities(pod, requests, limits)
    if limits.keys() <= requests.keys():
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def _whole_requests(pod: Json, spec: Json, whole: Json) -> Json:
    """Pod-level requests (defaults.go, defaultPodRequests): container requests win over the limits of the pod.

    Hugepages come from the limits only.
    """
    containers = {**pod, "metadata": {"name": "-"}, "spec": {**spec, "resources": None, "overhead": None}}
    quantities = _read(containers, wire.Pod, "pod", lambda each: to_pod(each, Shared(), _keep)).shape.requests
    requests: dict[str, Any] = {
        **whole["limits"],
        **{name: amount for name, amount in quantities.items() if name in ("cpu", "memory")},
        **(whole.get("requests") or {}),
    }
    return requests


def _check_quantities(owner: Json, *quantities: Json | None) -> None:
    for each in quantities:
        for name, amount in (each or {}).items():
            try:
                if quantity(amount) < 0:
                    raise ValueError(f"{amount!r} is below 0; the API server refuses that")
            except (ValueError, TypeError) as error:
                raise BadFile(f"{owner.get('kind', 'Pod')} {name_of(owner)}: {name}: {error}.") from None


def _items(document: object, source: str, depth: int = 1) -> Iterator[Json]:
    """The items of a list and of the lists in it."""
    if not isinstance(document, Mapping) or not isinstance(document.get("items"), list | None):
        raise BadFile(f"{source}: give the list that `kubectl get nodes,pods -A -o json` prints.")
    kind = str(document.get("kind", ""))
    inner = _LISTED.sub("", kind) if kind != "List" else ""
    for item in document.get("items") or ():
        if not isinstance(item, Mapping):
            raise BadFile(f"{source}: an item is not an object.")
        if "items" not in item:
            yield {**item, "kind": item.get("kind") or inner}
        elif depth == _DEEPEST:
            raise BadFile(f"{source}: lists are nested too deeply to be read. Print one with `kubectl get … -o json`.")
        else:
            yield from _items(item, source, depth + 1)


def _read(document: object, kind: type[W], source: str, build: Callable[[W], T]) -> T:
    try:
        return build(msgspec.convert(document, kind))
    except (ValueError, OverflowError) as error:
        raise BadFile(f"{source}: {kind.__name__} {name_of(document)}: {error}.") from None


def _store(store: Callable[[Json], Json], document: Json, kind: type[W], source: str) -> Json:
    """`store(document)`; raises BadFile with the message of the decoder where a value has the wrong type."""
    try:
        return store(document)
    except (AttributeError, TypeError, ValueError):
        _read(document, kind, source, lambda each: None)
        raise BadFile(f"{source}: {kind.__name__} {name_of(document)} is not as kubectl prints it.") from None


def _refuse_duplicates(source: str, kind: str, names: Iterable[str]) -> None:
    known: set[str] = set()
    for name in names:
        if name in known:
            raise BadFile(f"{source}: the {kind} {name} is listed twice.")
        known.add(name)


def _times(value: object) -> Iterator[float]:
    """Unix seconds of every time in an object."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, list):
            waiting += current
        elif isinstance(current, Mapping):
            for key, item in current.items():
                if not (isinstance(item, str) and _TIME_KEY.search(key)):
                    waiting.append(item)
                    continue
                try:
                    yield datetime.fromisoformat(item).timestamp()
                except (ValueError, OverflowError):
                    continue


def _keep(annotation: str) -> bool:
    return True
