"""Nodes on which nothing starts: what was sent there has been trying for minutes, whoever sent it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ballast.base.text import duration, named
from ballast.model.pod import Pod

TRIED = 300.0
"""Seconds after which a pod that is not Ready counts as having failed to start."""

STARTING = 3600.0
"""Seconds for which a pod whose containers run, but which is not Ready, counts as starting; later it may have been."""

WORKLOADS, NAMESPACES = 2, 2
"""How many of each have to fail: one workload may be broken itself, one tenant may mean it."""

HOSTNAME = "kubernetes.io/hostname"


class Barren(NamedTuple):
    """What has been trying on a node: pods, their workloads and namespaces, and for how many seconds at most."""

    pods: int
    workloads: int
    namespaces: int
    seconds: float


def barren_nodes(pods: Iterable[Pod], now: float) -> Mapping[str, Barren]:
    """The nodes on which pods of several workloads of several namespaces try, and none that came since is Ready.

    Pods that ask for this one node say nothing: whoever may create pods could close it with them.
    """
    trying: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.node and not (pod.ready or pod.finished or pod.deleting) and _tries(pod, now) and not _pinned(pod):
            trying.setdefault(pod.node, []).append(pod)
    started: dict[str, float] = {}
    if trying:
        for pod in pods:
            if pod.ready and pod.node in trying:
                started[pod.node] = max(started.get(pod.node, 0.0), _came(pod))
    found = {}
    for node, there in trying.items():
        since = [pod for pod in there if _came(pod) > started.get(node, 0.0)]
        workloads = {(pod.namespace, pod.owner.kind, pod.owner.name) if pod.owner else pod.uid for pod in since}
        namespaces = {pod.namespace for pod in since}
        if len(workloads) >= WORKLOADS and len(namespaces) >= NAMESPACES:
            longest = now - min(map(_came, since))
            found[node] = Barren(len(since), len(workloads), len(namespaces), longest)
    return found


def in_words(barren: Mapping[str, Barren], most: int = 5) -> str | None:
    """ "nothing starts on n3: 4 pods of 3 workloads in 3 namespaces have been trying for up to 40 min"."""
    if not barren:
        return None
    parts = [
        f"{node}: {each.pods} pods of {each.workloads} workloads in {each.namespaces} namespaces have been trying for "
        f"up to {duration(each.seconds)}, and none that came since is Ready"
        for node, each in sorted(barren.items())
    ]
    return f"nothing starts on {named(parts, most)}"


def _came(pod: Pod) -> float:
    return max(pod.created, pod.scheduled_at or 0.0)


def _tries(pod: Pod, now: float) -> bool:
    """Whether it has been starting on its node for minutes."""
    age = now - _came(pod)
    return age >= TRIED and (pod.phase == "Pending" or age < STARTING)


def _pinned(pod: Pod) -> bool:
    template = pod.template
    terms = template.node_affinity or ()
    return any(key == HOSTNAME for key, _ in template.node_selector) or any(
        term.names or any(each.key == HOSTNAME for each in term.labels) for term in terms
    )
