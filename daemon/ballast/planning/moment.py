"""The cluster at one moment, as plans, batches and explanations are made from it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.history import NOTHING_YET, History
from ballast.eviction.run_evidence import with_evidence
from ballast.model.load_limits import EQUAL, Weights, named
from ballast.model.node_state import ALWAYS_NEEDED, NodeState
from ballast.model.node_weights import NO_NODE_WEIGHTS, NodeWeights
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot
from ballast.planners.aims import Aims
from ballast.telemetry.pod_usage import PodAnswers


@dataclass(frozen=True)
class Moment:
    """What is known at `now`, taken once. Whoever acts on it later looks at the cluster again right before acting.

    `load`, `error` and `peak` are [node, resource] in the order of `objects.nodes`, NaN where unknown. For example, two
    nodes of which the second is not measured:

        Moment(now, ClusterObjects(nodes=[n1, n2]), ("cpu",), np.array([[0.9], [np.nan]]))
    """

    now: float
    """Unix seconds."""
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    resources: tuple[str, ...] = ()
    load: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    error: Floats | None = None
    """Standard errors of the loads; None: all are exact."""
    peak: Floats | None = None
    """Loads at the p95 of the day; None where no planner needs them."""
    history: History = NOTHING_YET
    silent: int | None = None
    """Nodes of unknown load that were measured before; None: all nodes of unknown load."""
    halted: str | None = None
    """Why nothing may be evicted, whatever the plan."""
    blind: bool = False
    """Whether that is because too many nodes are silent."""
    steered: frozenset[str] = frozenset()
    """Schedulers whose placements the extender decides, or that one eviction may test."""
    usage: PodAnswers | None = None
    """What pods use; None: their requests count."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Where pods really run, namespace/name, that a dry run imagines on another node."""
    pool_label: str | None = None
    weights: Weights = field(default_factory=lambda: EQUAL)
    node_weights: NodeWeights = field(default_factory=lambda: NO_NODE_WEIGHTS)


def with_loads(
    moment: Moment,
    snapshot: Snapshot,
    changes: Mapping[str, Mapping[str, float]],
    errors: tuple[Snapshot, Floats] | None,
    peak: Floats | None,
) -> Moment:
    """The moment with the loads of its nodes: of overloaded ones by the shortest window, of others by the first.

    `changes` {node: {resource: change}} are what that window does not show yet; `errors` are those of a snapshot,
    which count if it has all resources; `errors` and `peak` are [resource, node].
    """
    names, resources = [node.name for node in moment.objects.nodes], moment.resources
    load, error = loads(snapshot, resources, names), None
    recent = of_nodes(snapshot.shortest.mean, snapshot, resources, names)
    overloaded = np.array([name in moment.history.overloaded for name in names], bool)
    load = np.where(overloaded[:, None] & np.isfinite(recent), recent, load)
    for row, name in enumerate(names):
        for resource, change in changes.get(name, {}).items():
            if resource in resources:
                load[row, resources.index(resource)] += change
    if errors is not None and set(resources) <= set(errors[0].resources):
        error = of_nodes(errors[1], errors[0], resources, names)
    highest = None if peak is None else of_nodes(peak, snapshot, resources, names)
    return replace(moment, load=load, error=error, peak=highest)


def with_known_places(moment: Moment, prefix: str) -> Moment:
    """The moment with what is known of where its pods can run."""
    pods = with_evidence(moment.objects.nodes, moment.objects.pods, prefix)
    return moment if pods is moment.objects.pods else replace(moment, objects=replace(moment.objects, pods=pods))


def facts_of(objects: ClusterObjects, snapshot: Snapshot, now: float, count: int) -> Facts:
    """Of the nodes as the snapshot knows them. `count` are all pods on nodes; those of `objects` are judged."""
    known = {node.name for node, is_known in zip(snapshot.nodes, snapshot.known.tolist(), strict=True) if is_known}
    unknown = [node.name for node in objects.nodes if node.name not in known]
    return Facts(objects, now=now, unknown=unknown, silent=snapshot.states.counts[NodeState.SILENT], count=count)


def loads(snapshot: Snapshot, watched: Sequence[str], nodes: Iterable[str] | None = None) -> Floats:
    """[node, resource] means of the first window, of the `watched`, NaN where unknown; of `nodes`, or of all."""
    return of_nodes(snapshot.primary.mean, snapshot, watched, nodes)


def of_nodes(values: Floats, snapshot: Snapshot, watched: Sequence[str], nodes: Iterable[str] | None = None) -> Floats:
    """[node, resource] from [resource, node] of the snapshot, of the `watched`; of `nodes`, or of all."""
    columns = [index for name in watched if (index := snapshot.resource(name)) is not None]
    rows = [snapshot.rows.get(name, -1) for name in nodes] if nodes is not None else list(range(len(snapshot.nodes)))
    padded = np.append(values[columns], np.full((len(columns), 1), np.nan), axis=1)
    return np.asarray(padded[:, rows].T)


def watched_of(snapshot: Snapshot, aims: Aims, weights: Weights) -> tuple[str, ...]:
    """The measured resources that decide anything about evictions: cpu, memory, those with a weight or a limit."""
    deciding = {*ALWAYS_NEEDED, *named(weights, aims.high, aims.low, aims.target_high)}
    return tuple(name for name in snapshot.resources if name in deciding)
