"""Which pods the terms of affinities and spread constraints mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.model.selector import Selector
from ballast.model.template import PodTerm, TopologySpread

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

    def members(self, crowd: SelectedPods) -> list[bool]:
        """Per kind of pod (namespace and labels)."""
        found = self._matching.get(crowd)
        if found is None:
            found = self._matching[crowd] = [all(self._is_meant(kind, each) for each in crowd) for kind in self._kinds]
        return found

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
