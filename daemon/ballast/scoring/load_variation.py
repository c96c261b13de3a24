"""load-variation: a node is a good place when its load is low and steady.

The formula is that of Trimaran's LoadVariationRiskBalancing (kubernetes-sigs/scheduler-plugins,
pkg/trimaran/loadvariationriskbalancing/analysis.go and pkg/trimaran/resourcestats.go).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ballast.model.load_limits import EQUAL
from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.node_weights import LEAST, MOST, NO_NODE_WEIGHTS, NodeWeights, is_selector, node_factors
from ballast.model.pod import Pod
from ballast.model.sample import Floats
from ballast.model.selector import parse as parse_selector
from ballast.model.snapshot import Snapshot
from ballast.scoring.demand import NOTHING, demand
from ballast.scoring.fleet import Fleet, NodeLoads
from ballast.scoring.keys import StrategyKeys
from ballast.scoring.scores import Scores, half_away

NAME = "load-variation"


def scores(
    snapshot: Snapshot, request: Mapping[str, float] | None = None, *, margin: float = 1.0, sensitivity: float = 1.0
) -> Floats:
    """One score per node of the snapshot, 0..100 without a fraction, NaN where the node is unknown.

    The score is the smaller of cpu's and memory's over the primary window; where only one is known, that one.
    `request` are a pod's amounts (cores, bytes), added to the mean.
    """
    return half_away(raw_scores(snapshot, request or {}, margin, sensitivity))


def raw_scores(snapshot: Snapshot, request: Mapping[str, float], margin: float, sensitivity: float) -> Floats:
    """`scores` before they are rounded."""
    window = snapshot.primary
    worst = np.full(len(snapshot.nodes), np.nan)
    for name in ALWAYS_NEEDED:
        index = snapshot.resource(name)
        if index is not None:
            amount = request.get(name, 0.0)
            capacity = np.ones(len(snapshot.nodes))
            requested: ArrayLike = 0.0
            if amount:
                allocatable = np.array([node.allocatable.get(name, 0.0) for node in snapshot.nodes])
                capacity = (allocatable > 0).astype(float)
                requested = amount / np.where(allocatable > 0, allocatable, 1.0)
            score = resource_score(capacity, requested, window.mean[index], window.std[index], margin, sensitivity)
            worst = np.fmin(worst, np.where(window.known[index], score, np.nan))
    return worst


def resource_score(
    capacity: ArrayLike,
    request: ArrayLike,
    mean: ArrayLike,
    deviation: ArrayLike,
    margin: float = 1.0,
    sensitivity: float = 1.0,
) -> Floats:
    """The score of one resource, 0..100, not rounded; all amounts in one unit. Without capacity it is 0.

    As upstream: a sensitivity of 0 takes the exponent 1/sensitivity as infinite, a negative one skips it.
    """
    whole = np.asarray(capacity, float)
    roof = np.maximum(whole, 0.0)
    mu, sigma = mu_sigma(whole, np.maximum(request, 0.0), np.clip(mean, 0.0, roof), np.clip(deviation, 0.0, roof))
    return np.where(whole > 0, (1 - (mu + risk(sigma, margin, sensitivity)) / 2) * 100, 0.0)


def label_score(load: ArrayLike) -> Floats:
    """What a label is made from, 0..100, of a load 0..1: 100 (1 - sqrt(load)).

    Steps of it are small where nodes are idle. Recorded loads are told apart as well by 24 steps of it as by the load
    itself (measurements/experiments.md, "windows"); by a tenth of the parity score a third of the order was lost.
    """
    return np.asarray(100 * (1 - np.sqrt(np.clip(load, 0.0, 1.0))))


def risk(sigma: Floats, margin: float, sensitivity: float) -> Floats:
    """What a deviation counts as, 0..1."""
    if sensitivity >= 0:
        exponent = 1 / sensitivity if sensitivity else np.inf
        if exponent != 1:
            sigma = np.sqrt(sigma) if exponent == 0.5 else np.power(sigma, exponent)
    return np.clip(sigma * margin, 0.0, 1.0)


def mu_sigma(capacity: ArrayLike, request: ArrayLike, mean: ArrayLike, deviation: ArrayLike) -> tuple[Floats, Floats]:
    """The share of capacity used or requested and the share by which use deviates, both in 0..1; 0 without capacity."""
    whole = np.asarray(capacity, float)
    exists = whole > 0
    divisor = np.where(exists, whole, 1.0)
    mu = np.clip(np.add(mean, request) / divisor, 0.0, 1.0)
    sigma = np.clip(np.divide(deviation, divisor), 0.0, 1.0)
    return np.where(exists, mu, 0.0), np.where(exists, sigma, 0.0)


@dataclass(frozen=True)
class LoadVariation:
    """A node of which no resource is known scores 0; a resource of which a node is not known is not there.

    `weights` {resource: 0..1}: a weight w makes 100 - w (100 - s) of a resource's score s. Requests count for cpu and
    memory alone. `node_weights` do the same for single nodes; a score that would fall below 0 is 0.
    """

    needs_load: ClassVar[bool] = True
    needs_pods: ClassVar[bool] = False
    needs_pod: ClassVar[bool] = False
    warms: ClassVar[bool] = True

    margin: float = 1.0
    sensitivity: float = 1.0
    in_flight: str = "off"
    weights: tuple[tuple[str, float], ...] = tuple(EQUAL.items())
    node_weights: NodeWeights = field(default_factory=lambda: NO_NODE_WEIGHTS, hash=False)
    deviation_of_pods: bool = False
    """Whether the deviation of cpu is that of the pods' uses, instead of the window's."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The resources with a weight above 0."""
        return tuple(name for name, weight in self.weights if weight > 0)

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The smallest score of the resources; `terms` are all of them with their weights, NaN where unknown."""
        adds = self._adds(fleet, pod)
        terms = {name: self._weighted(fleet, name, weight, adds.get(name, 0)) for name, weight in self.weights}
        return _scores(reduce(np.fmin, terms.values()), terms)

    def finer(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """As `score`, without terms; what a fleet keeps of such requests is not computed again."""
        adds = self._adds(fleet, pod)
        return _scores(fleet.per_request(self, tuple(adds.get(name, 0) for name in ALWAYS_NEEDED), self._raw), {})

    def _raw(self, fleet: Fleet, requests: Floats) -> Floats:
        """[request, node] of requests [request, 1, resource]."""
        adds = dict(zip(ALWAYS_NEEDED, requests.transpose(2, 0, 1), strict=True))
        terms = [self._weighted(fleet, name, weight, adds.get(name, 0)) for name, weight in self.weights]
        return np.asarray(reduce(np.fmin, terms))

    def _adds(self, fleet: Fleet, pod: Pod | None) -> Mapping[str, float]:
        """What the pod adds: its request as upstream, what it is expected to use where pods in flight count."""
        if pod is None or self.in_flight != "full":
            return (demand(pod.shape) if pod else NOTHING).requested
        owner = pod.owner.uid if pod.owner else ""
        return {name: fleet.expected_use.of(pod.shape, owner, name) for name in ALWAYS_NEEDED}

    def _weighted(self, fleet: Fleet, name: str, weight: float, asked: float | Floats) -> Floats:
        score = self._resource(fleet, name, asked) if name in ALWAYS_NEEDED else self._further(fleet, name)
        score = score if weight == 1 else 100 - weight * (100 - score)
        if not self.node_weights:
            return score
        key = (NAME, "node weights", name)
        factor = fleet.per_node(key, lambda every: node_factors(self.node_weights, every.nodes, [name])[:, 0])
        return np.maximum(100 - factor * (100 - score), 0.0)

    def _further(self, fleet: Fleet, name: str) -> Floats:
        """Of a resource that is measured as a ratio, and of which pods request nothing."""
        load = fleet.further.get(name)
        if load is None:
            return np.full(len(fleet.nodes), np.nan)
        mu, deviation = np.clip(load.mean / 100, 0.0, 1.0), np.clip(load.std / 100, 0.0, 1.0)
        score = (1 - (mu + risk(deviation, self.margin, self.sensitivity)) / 2) * 100
        return np.where(load.known, score, np.nan)

    def _resource(self, fleet: Fleet, name: str, asked: float | Floats) -> Floats:
        key = (NAME, name, self.margin, self.sensitivity, self.deviation_of_pods)
        whole, used, deviation = fleet.per_node(key, lambda every: self._without_pod(every, name))
        if self.deviation_of_pods and name == "cpu":
            deviation = self._risk_of_pods(fleet, whole, asked, deviation)
        if self.in_flight == "full":
            # More than the whole is told apart too: a burst of pods is to go where the overload is smallest.
            mu = np.maximum(used + fleet.expected_use.unseen(name) * _unit(name), 0.0) + asked * _unit(name)
            mu /= whole
            mu += deviation
            np.minimum(mu, 2.0, out=mu)
        else:
            mu = used + asked * _unit(name)
            mu /= whole
            np.minimum(mu, 1.0, out=mu)
            mu += deviation
        mu /= 2
        return np.asarray((1 - mu) * 100)

    def _risk_of_pods(self, fleet: Fleet, whole: Floats, own: float | Floats, least: Floats) -> Floats:
        """[node]: what the deviation of its pods' uses counts as, `least`..1, with a further pod that uses `own`.

        The uses are taken as independent, and each deviates by its mean: its request times what the cluster uses of
        its requests. The window's deviation tells what has varied, this one what may: a few large pods are a greater
        risk than many small ones.
        """
        share = fleet.placed.squares() * fleet.expected_use.ratios["cpu"] ** 2 + own**2
        np.sqrt(share, out=share)
        share /= whole
        np.minimum(share, 1.0, out=share)
        return np.maximum(risk(share, self.margin, self.sensitivity), least)

    def _without_pod(self, fleet: Fleet, name: str) -> Floats:
        """What does not depend on the pod: the amount, the mean in use and the risk of the window's deviation.

        The mean is NaN where it is unknown; a node without the resource counts as a full one. There is no risk of the
        window's cpu where that of the pods counts.
        """
        load: NodeLoads = getattr(fleet, name)
        capacity = fleet.allocatable(name) * _unit(name)
        used = np.clip(load.mean * capacity / 100, 0.0, capacity)
        deviation = np.clip(load.std * capacity / 100, 0.0, capacity)
        exists = capacity > 0
        whole = np.where(exists, capacity, 1.0)
        counts = not (self.deviation_of_pods and name == "cpu")
        danger = np.where(exists, risk(deviation / whole, self.margin, self.sensitivity) if counts else 0.0, 1.0)
        return np.array([whole, np.where(load.known, np.where(exists, used, 1.0), np.nan), danger])


def _scores(raw: Floats, terms: Mapping[str, Floats]) -> Scores:
    unknown = np.isnan(raw)
    return Scores(exact=np.where(unknown, 0.0, raw), raw=raw, unknown=unknown, terms=terms)


def _unit(name: str) -> float:
    """Trimaran counts memory in MiB; with the same order of operations the last bits are the same."""
    return 1.0 if name == "cpu" else 2.0**-20


def parse(given: Mapping[str, object]) -> LoadVariation:
    """As upstream, a negative margin counts as 0 deviation and a negative sensitivity leaves the deviation as it is."""
    keys = StrategyKeys(NAME, given)
    margin = keys.number("safe_variance_margin", 1.0)
    sensitivity = keys.number("safe_variance_sensitivity", 1.0)
    mode = keys.in_flight()
    resources = keys.mapping("resources") or EQUAL
    weights = {name: keys.as_number(f"the weight of {name}", value, 0.0, 1.0) for name, value in resources.items()}
    node_weights = _node_weights(keys)
    keys.finish()
    return LoadVariation(margin, sensitivity, mode, tuple(weights.items()), node_weights)


def _node_weights(keys: StrategyKeys) -> NodeWeights:
    weights: dict[str, dict[str, float]] = {}
    for key, item in (keys.mapping("node_weights") or {}).items():
        if not isinstance(item, Mapping):
            raise keys.error(f"the weights of {key}", item, 'give an object such as {"disk": 0.5}')
        try:
            parse_selector(key if is_selector(key) else "")
        except ValueError:
            raise keys.error("node_weights", key, "give names of nodes, or label selectors such as disk=ssd") from None
        weights[key] = {
            str(name): keys.as_number(f"the weight of {name} of {key}", value, LEAST, MOST)
            for name, value in item.items()
        }
    return weights
