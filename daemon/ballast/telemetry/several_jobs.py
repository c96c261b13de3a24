"""Several tellers of one node: which of them the presets leave out.

Whoever may define a scrape job could give any node any load. So a series is believed by where its target runs: the
exporter's own pod stands on the node that it measures. How many nodes a job tells of, and how new its samples are,
decide nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from ballast.telemetry.mixing import Labels, exactly

REMEMBERED = 3600.0
"""Seconds for which a job stays left out after another was believed rather than it."""
LEFTOVER = 90.0
"""Seconds for which a pod that is gone may be told of beside the one that came in its place."""
MOST = 20
"""Jobs and pods that are left out by name. Where there are more, the nodes they tell of are disputed."""


class Job(NamedTuple):
    """A scrape job; "" where a series does not say."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name or "none"


class Proof(IntEnum):
    """What says that a series may speak of its node, the strongest last."""

    REFUTED = 0
    """Its pod runs on another node."""
    AGENT = 1
    """Its pod runs on none of the several nodes that it tells of: it scrapes for others, or lies."""
    SHARED = 2
    """Its pod runs on this node, and it tells of others too."""
    NONE = 3
    """No label tells, or the watch does not show its pod."""
    PLACE = 4
    """Its pod runs on this node, and tells of no other."""


class Teller(NamedTuple):
    """Who tells of a node: a pod, whatever jobs scrape it; a job where no pod is told."""

    job: Job
    pod: str


Proofs: TypeAlias = Mapping[str, dict[Teller, Proof]]


@dataclass(frozen=True)
class SeveralJobs:
    """Of one preset. `shared` are the nodes that several tell of, `jobs` these jobs with the number of their nodes.

    `left_out` are who does not count, a job or one pod of it, with the matcher that leaves it out. `doubtful` are nodes
    of which nothing tells whom to believe.
    """

    jobs: Mapping[Job, int]
    shared: frozenset[str]
    left_out: Mapping[Job | Teller, str]
    doubtful: frozenset[str]

    @property
    def matchers(self) -> tuple[str, ...]:
        """What to set so that one job is left: one matcher, or a choice of several."""
        if self.left_out and not self.doubtful:
            return (",".join(dict.fromkeys(self.left_out.values())),)
        return tuple(dict.fromkeys(_without(job, self.jobs) for job in reversed(tuple(self.jobs))))

    def leaves_out(self, labels: Labels, *, namespaces: bool = True) -> bool:
        """Whether a series does not count."""
        teller = teller_of(labels, namespaces=namespaces)
        return teller.job in self.left_out or teller in self.left_out


class JobsOfNodes:
    """Remembers which jobs were left out, and since when pods that are gone are told of."""

    def __init__(self) -> None:
        self._weaker_at: dict[Job | Teller, float] = {}
        """By who is left out: when another was believed rather than it, Unix seconds."""
        self._unseen_at: dict[str, float] = {}
        self._honest: dict[str, tuple[Job, float]] = {}
        """By node: the job whose pod was there and told of no other node, and when last."""
        self._had: dict[str, tuple[frozenset[tuple[Job, bool]], float]] = {}
        """By node: the job that told of it alone when nobody contradicted it, or, where there was none, all that told
        of it, and when last."""
        self.several: SeveralJobs | None = None

    def judge(
        self,
        at: float,
        series: Mapping[str, Sequence[Labels]],
        runs_on: Callable[[str], str | None] = lambda pod: None,
        *,
        fading: Mapping[str, Sequence[Labels]] = MappingProxyType({}),
        namespaces: bool = True,
        agreed: frozenset[str] = frozenset(),
    ) -> SeveralJobs | None:
        """Who is left out at this Unix time; `series` are the label sets of each node.

        `fading` are those that have no new samples: for some minutes queries count them still.
        `runs_on` gives the node of a pod, namespace/name, as the watch has it. Without `namespaces` that label is the
        exporter's own: it tells no jobs apart, and of no pod. Of the nodes in `agreed` all series tell one number, so
        several tellers are no matter there.
        """
        tellers = _tellers(series, fading, runs_on, namespaces=namespaces)
        nodes_of, proofs = self._proofs(at, tellers, runs_on)
        believed = {teller for told in proofs.values() for teller, proof in told.items() if proof is Proof.PLACE}
        contested = {node: told for node, told in proofs.items() if len(told) == 1 or node not in agreed}
        weaker = self._weaker(at, contested, believed)
        self._weaker_at |= dict.fromkeys(weaker, at)
        # A pod of theirs that tells of its node and of others is one whose name another took.
        jobs = {teller.job for teller in believed}
        shared = {each for told in proofs.values() for each in told if told[each] is Proof.SHARED and each.job in jobs}
        kept = believed | jobs | shared
        self._weaker_at = {
            who: seen for who, seen in self._weaker_at.items() if at - seen < REMEMBERED and who not in kept
        }
        left_out = _matchers(self._weaker_at, nodes_of)
        counted = {
            node: {
                teller: proof
                for teller, proof in told.items()
                if node not in weaker.get(teller, ()) and node not in weaker.get(teller.job, ())
            }
            for node, told in contested.items()
        }
        doubtful = self._doubtful(at, {node: told for node, told in counted.items() if told}, believed)
        doubtful.update(node for who, nodes in weaker.items() if who not in left_out for node in nodes)
        contested_nodes = doubtful.union(*weaker.values())
        self.several = None
        if contested_nodes or left_out:
            told_of: dict[Job, set[str]] = defaultdict(set)
            for teller, nodes in nodes_of.items():
                told_of[teller.job] |= nodes
            among = {teller.job for node in contested_nodes for teller in proofs[node]}.union(map(_job, left_out))
            counts = {job: len(told_of[job]) for job in among}
            ordered = dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
            self.several = SeveralJobs(ordered, frozenset(contested_nodes), left_out, frozenset(doubtful))
        return self.several

    def _proofs(
        self, at: float, tellers: Mapping[str, Sequence[Teller]], runs_on: Callable[[str], str | None]
    ) -> tuple[Mapping[Teller, set[str]], Proofs]:
        """The nodes of each teller; by node what says that each teller may speak of it."""
        nodes_of: dict[Teller, set[str]] = defaultdict(set)
        for node, each in tellers.items():
            for teller in each:
                nodes_of[teller].add(node)
        proofs = {
            node: {teller: _proof(teller, node, nodes_of[teller], runs_on) for teller in each}
            for node, each in tellers.items()
            if each
        }
        refuted = {teller.job for told in proofs.values() for teller in told if told[teller] is Proof.REFUTED}
        for node, told in proofs.items():
            here = {teller.job for teller, proof in told.items() if proof is Proof.PLACE} - refuted
            if here:
                self._honest[node] = min(here), at
        self._honest = {node: (job, seen) for node, (job, seen) in self._honest.items() if at - seen < REMEMBERED}
        for liar in _liars(proofs, refuted, {node: job for node, (job, _) in self._honest.items()}):
            for node in proofs:
                # Where another took the name of a job without labels of pods, that one's series stay as they are.
                proofs[node] |= {teller: Proof.REFUTED for teller in proofs[node] if _kind(teller) == (liar, True)}
        return nodes_of, proofs

    def _weaker(self, at: float, proofs: Proofs, believed: set[Teller]) -> dict[Job | Teller, set[str]]:
        """Whose word does not count, with the nodes of which another's does or it may not speak."""
        # Of a job that nothing proves a lie as a whole, single pods are left out: its name may have been taken.
        jobs = {teller.job for teller in believed}
        named = jobs.union(teller.job for told in proofs.values() for teller in told if not teller.pod)
        weaker: dict[Job | Teller, set[str]] = defaultdict(set)
        unseen_at: dict[str, float] = {}
        for node, told in proofs.items():
            equal = _equal(told)
            for teller, proof in told.items():
                unseen = proof is Proof.NONE and bool(teller.pod)
                # Where no job of the store is proved by its place, its labels of pods say nothing.
                if teller in equal and (not believed or (proof > Proof.AGENT and not unseen)):
                    continue
                # A pod of the exporter that has just come is not shown yet, one that is gone is told of for a while.
                if unseen and teller.job in jobs:
                    unseen_at[node] = min(at, self._unseen_at.get(node, at))
                    if at - unseen_at[node] < LEFTOVER:
                        continue
                weaker[teller if teller.pod and teller.job in named else teller.job].add(node)
        self._unseen_at = unseen_at
        return weaker

    def _doubtful(self, at: float, proofs: Proofs, believed: set[Teller]) -> set[str]:
        """The nodes of which nothing tells whom to believe."""
        doubtful: set[str] = set()
        suspects: set[Job] = set()
        for node, told in proofs.items():
            equal = _equal(told)
            # A pod that several jobs scrape is one target: its copies are the same thing.
            if len({teller.pod or teller for teller in equal}) > 1:
                doubtful.add(node)
                suspects.update(teller.job for teller in equal if told[teller] is not Proof.PLACE)
        here = {_kind(teller) for told in proofs.values() for teller in told}
        sets: dict[frozenset[tuple[Job, bool]], frozenset[tuple[Job, bool]]] = {}
        for node, told in proofs.items():
            jobs = frozenset(_kind(teller) for teller in told)
            jobs = sets.setdefault(jobs, jobs)  # Most nodes have the same, held once.
            had, last = self._had.get(node, (frozenset[tuple[Job, bool]](), at))
            # Nobody stands in where a job has fallen silent that tells of other nodes, nor who contradicts one there.
            replaced = bool((had - jobs) & here) and at - last < REMEMBERED
            # An agent that stands here, or an exporter whose pod another names too: nothing tells which.
            shared = bool(believed) and max(told.values()) is Proof.SHARED
            contradicted = believed and Proof.PLACE not in told.values() and {job for job, _ in jobs} <= suspects
            if replaced or shared or contradicted:
                doubtful.add(node)
            if node not in doubtful and len(jobs) == 1:
                self._had[node] = jobs, at
            elif len(had) != 1 or had <= jobs:
                self._had[node] = (had if len(had) == 1 else had | jobs), at
        return doubtful


def _tellers(
    series: Mapping[str, Sequence[Labels]],
    fading: Mapping[str, Sequence[Labels]],
    runs_on: Callable[[str], str | None],
    *,
    namespaces: bool,
) -> dict[str, list[Teller]]:
    """Who tells of each node. The pod that an exporter had before says nothing against the one it has now."""
    found = {}
    for node, label_sets in series.items():
        told = dict.fromkeys(teller_of(labels, namespaces=namespaces) for labels in label_sets)
        jobs = {_kind(teller) for teller in told}
        for labels in fading.get(node, ()):
            old = teller_of(labels, namespaces=namespaces)
            if _kind(old) not in jobs or runs_on(old.pod):
                told[old] = None
        found[node] = list(told)
    return found


def _kind(teller: Teller) -> tuple[Job, bool]:
    """Its job, and whether it names a pod."""
    return teller.job, bool(teller.pod)


def _liars(proofs: Proofs, refuted: set[Job], honest: Mapping[str, Job]) -> set[Job]:
    """Jobs that tell of nodes where their pods do not run, and where they do, another job's tell of no others.

    `honest` are such jobs by node. The exporter's own job is no liar, whoever takes its name: nobody else runs where it
    does, or that one lies as well.
    """
    places: dict[Job, set[str]] = defaultdict(set)
    for node, told in proofs.items():
        for teller, proof in told.items():
            if proof in (Proof.PLACE, Proof.SHARED):
                places[teller.job].add(node)
    return {
        job
        for job in refuted
        if places[job] and all(honest.get(node, job) not in (job, *refuted) for node in places[job])
    }


def _equal(told: Mapping[Teller, Proof]) -> set[Teller]:
    """Those of whom nothing says that another has the better right to speak.

    Without a label of a pod nothing tells whether the target runs here: it neither yields nor wins.
    """
    best = max(told.values())
    return {teller for teller, proof in told.items() if proof is best or (proof is Proof.NONE and not teller.pod)}


def pod_of(labels: Labels) -> str:
    """namespace/name of the pod that a series names, or ""."""
    namespace, pod = labels.get("namespace", ""), labels.get("pod", "")
    return f"{namespace}/{pod}" if namespace and pod else ""


def teller_of(labels: Labels, *, namespaces: bool) -> Teller:
    """Who tells a series."""
    job = Job(labels.get("namespace", "") if namespaces else "", labels.get("job", ""))
    return Teller(job, pod_of(labels) if namespaces else "")


def _proof(teller: Teller, node: str, nodes: set[str], runs_on: Callable[[str], str | None]) -> Proof:
    place = runs_on(teller.pod) if teller.pod else None
    if place == node:
        return Proof.PLACE if len(nodes) == 1 else Proof.SHARED
    if place is None:
        return Proof.NONE
    return Proof.AGENT if len(nodes) > 1 and place not in nodes else Proof.REFUTED


def _job(who: Job | Teller) -> Job:
    return who.job if isinstance(who, Teller) else who


def _matchers(weaker: Iterable[Job | Teller], tellers: Iterable[Teller]) -> dict[Job | Teller, str]:
    """The label matcher that leaves each of them out and none of the others."""
    chosen = sorted(weaker, key=lambda who: (_job(who), who.pod if isinstance(who, Teller) else ""))[:MOST]
    kept = [teller for teller in tellers if teller.job not in chosen and teller not in chosen]
    found: dict[Job | Teller, str] = {}
    for who in chosen:
        job, name = _job(who), who.pod.partition("/")[2] if isinstance(who, Teller) else None
        if name is not None:
            if not any(teller.pod.partition("/")[2] == name for teller in kept):
                found[who] = _not("pod", name)
        elif not any(teller.job.name == job.name for teller in kept):
            found[who] = _not("job", job.name)
        elif not any(teller.job.namespace == job.namespace for teller in kept):
            found[who] = _not("namespace", job.namespace)
    return found


def _without(job: Job, jobs: Iterable[Job]) -> str:
    """A matcher that leaves out this job."""
    alone = sum(other.name == job.name for other in jobs) == 1
    return _not("job", job.name) if alone else _not("namespace", job.namespace)


def _not(label: str, value: str) -> str:
    return exactly(label, value).replace("=", "!=", 1)
