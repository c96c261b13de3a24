"""As which revision a pod would come back, by the hashes that owners write on their pods."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ballast.model.pod import Owner, Pod
from ballast.model.workload import Workload

STATEFUL_HASH = "controller-revision-hash"
_HASHES = ("revision-hash", "template-hash")
"""How the labels end in which owners of any kind write what their pods were made of."""

Key: TypeAlias = tuple[str, str, str]


class Variant(NamedTuple):
    """What pods of one owner may differ in: the owner below it, if any, and the hashes."""

    nearest: str
    hashes: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The name that a sentence has for it."""
        return " ".join(value for _, value in self.hashes) or self.nearest

    @property
    def beside_stateful_hash(self) -> "Variant":
        """Without the hash that a StatefulSet's own status explains."""
        return Variant(self.nearest, tuple(each for each in self.hashes if each[0] != STATEFUL_HASH))


class Revisions:
    """The variants of the pods of each owner that rolls out: of a Deployment or Rollout rather than its ReplicaSets.

    `created` are the revisions that owners of other kinds say they create now.
    """

    def __init__(self, workloads: Mapping[Key, Workload], created: Mapping[Key, str]) -> None:
        self._workloads, self._created = workloads, created
        self._variants: dict[Key, set[Variant]] = {}
        self._known: dict[tuple[str, int, int], tuple[Owner, Mapping[str, str], Key, Variant]] = {}

    def count(self, pods: Iterable[Pod]) -> None:
        """Pods that end or have ended say nothing about what comes."""
        for pod in pods:
            if pod.owner is not None and not pod.finished and not pod.deleting:
                key, variant = self._of(pod, pod.owner)
                self._variants.setdefault(key, set()).add(variant)

    def refusal(self, pod: Pod) -> str | None:
        """Why the pod would come back as another revision, or may; None where it comes back as what it is."""
        if pod.owner is None:
            return None
        key, own = self._of(pod, pod.owner)
        nearest = self._workloads.get((pod.namespace, pod.owner.kind, pod.owner.name))
        variants = self._variants.get(key, set())
        if nearest is not None and nearest.update_revision:
            if (told := _of_stateful_set(pod, nearest)) is not None:
                return told
            variants = {each.beside_stateful_hash for each in variants}
        elif (created := self._created.get(key)) and _last(own.name) != _last(created):
            return _differs(f"{key[1]} {key[2]}", own.name if own.hashes else "", created)
        if len(variants) < 2:
            return None
        one, other = sorted(each.name for each in variants)[:2]
        return f"{key[1]} {key[2]} has pods of two revisions, {one} and {other}: it may come back as either"

    def _of(self, pod: Pod, owner: Owner) -> tuple[Key, Variant]:
        known = self._known.get((pod.namespace, id(owner), id(pod.labels)))
        if known is None:
            above = None
            if owner.kind == "ReplicaSet":
                nearest = self._workloads.get((pod.namespace, owner.kind, owner.name))
                above = nearest.owner if nearest is not None else None
            top = owner if above is None else above
            variant = Variant("" if above is None else owner.name, hashes(pod.labels))
            known = (owner, pod.labels, (pod.namespace, top.kind, top.name), variant)
            self._known[pod.namespace, id(owner), id(pod.labels)] = known
        return known[2], known[3]


def hashes(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The labels in which owners write what a pod was made of."""
    return tuple(sorted((key, value) for key, value in labels.items() if key.endswith(_HASHES)))


def _of_stateful_set(pod: Pod, owner: Workload) -> str | None:
    """By the status of a StatefulSet. Below `updates_from` it creates pods of its current revision."""
    said, ordinal = owner.update_revision, pod.name.rpartition("-")[2]
    own = pod.labels.get(STATEFUL_HASH, "")
    if owner.updates_from is None:
        either = {own, owner.current_revision, said} - {""}
        return (
            None
            if own and len(either) == 1
            else _differs(f"{owner.kind} {owner.name}", own, " or ".join(sorted(either)))
        )
    if owner.updates_from and ordinal.isdigit() and int(ordinal) < owner.updates_from:
        said = owner.current_revision or own
    return None if own and own == said else _differs(f"{owner.kind} {owner.name}", own, said)


def _differs(owner: str, own: str, created: str) -> str:
    if not own:
        return f"it has no label that says its revision, and {owner} would create revision {created}"
    return f"it is of revision {own} and would come back as revision {created} of {owner}"


def _last(revision: str) -> str:
    """Some owners put their name before the hash."""
    return revision.rpartition("-")[2]
