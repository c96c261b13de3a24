"""peaks: prefers the node where a pod raises the power drawn least.

The formula is that of Trimaran's Peaks (kubernetes-sigs/scheduler-plugins, pkg/trimaran/peaks/peaks.go): with x the
percent of cpu in use, p the percent with the pod, and a node's power k0 + k1 e^(k2 x), the raw score is
k1 (e^(k2 p) - e^(k2 x)) 10^15 without its fraction; the least among the nodes becomes 100, the largest 0. As upstream,
a pod that would fill a node beyond 100 percent costs nothing there, and when nothing costs anything all nodes score 0.

Upstream also lets a node of which nothing is known cost nothing, which makes it the best. Here it scores 0 and stays
out of the comparison, as does one without a power model, unless `unknown` is `upstream`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats
from ballast.scoring import in_flight
from ballast.scoring.demand import units
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import Keys, to_number
from ballast.scoring.scores import Scores

NAME = "peaks"
LARGEST = 2.0**63
LARGEST_EXPONENT = 709.0


@dataclass(frozen=True)
class Peaks:
    """`models` are (k0, k1, k2) in watts by node name."""

    models: Mapping[str, tuple[float, float, float]]
    upstream: bool = False
    in_flight: str = "off"

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        load, whole = fleet.power_cpu, fleet.cpu_base.astype(float)
        exists = whole > 0
        divisor = np.where(exists, whole, 1.0)
        used = (load.mean / 100) * whole
        now = load.mean
        _, k1, k2, modelled = self._models(fleet)
        if self.in_flight == "full":
            used = used + in_flight.since_window(fleet, self.in_flight, "cpu")
            now = np.where(exists, 100 * used / divisor, 0.0)
            before = exponential(k2 * now)
        else:
            before = fleet.once((NAME, "before", id(self.models)), lambda: exponential(k2 * now))
        then = np.where(exists, 100 * (used + self._asked(pod)) / divisor, 0.0)

        known = load.known & modelled
        costly = known & (then <= 100)
        raw = np.where(costly, power_jump(k1, before, exponential(k2 * then)), 0.0)
        counted = np.abs(raw) < LARGEST
        known &= counted
        raw = np.where(counted, raw, 0.0)
        compared = np.ones(len(raw), bool) if self.upstream else known
        scores = normalised(raw, compared)
        return Scores(
            scores=scores.astype(np.int64),
            exact=scores,
            raw=np.where(compared, raw, np.nan),
            unknown=~known,
            terms={"now": np.where(load.known, now, np.nan), "with_pod": np.where(load.known, then, np.nan)},
        )

    def _asked(self, pod: Pod | None) -> float:
        """Milli-cores; overhead only counts beside a request, as kubernetes pkg/api/v1/resource/helpers.go has it."""
        if pod is None:
            return 0.0
        asked = units("cpu", pod.shape.total_requests(overhead=False).get("cpu", 0.0))
        return float(asked + units("cpu", pod.shape.overhead.get("cpu", 0.0))) if asked else 0.0

    def _models(self, fleet: Fleet) -> tuple[object, Floats, Floats, Bools]:
        """(models, k1, k2, whether there is one); holding the models keeps their id theirs."""

        def compute() -> tuple[object, Floats, Floats, Bools]:
            rows = np.array([self.models.get(node.name, (0.0, 0.0, 0.0)) for node in fleet.nodes]).reshape(-1, 3)
            modelled = np.array([node.name in self.models for node in fleet.nodes], bool)
            return self.models, rows[:, 1], rows[:, 2], modelled

        return fleet.once((NAME, id(self.models)), compute)


def power_jump(k1: Floats, before: Floats, after: Floats) -> Floats:
    """What upstream compares, of e^(k2 x) before and after, without a fraction; not finite beyond all numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.trunc(k1 * (after - before) * 1e15))


def exponential(values: Floats) -> Floats:
    """The C library's e^x: the last bit of numpy's depends on the processor, and differences magnify it."""
    found = np.fromiter(map(math.exp, np.minimum(values, LARGEST_EXPONENT).tolist()), float, len(values))
    return np.where(values > LARGEST_EXPONENT, np.inf, found)


def normalised(raw: Floats, compared: Bools) -> Floats:
    """100 for the least and 0 for the largest of the compared; 0 for the others, and for all when all are 0."""
    if not compared.any():
        return np.zeros(len(raw))
    least, most = raw[compared].min(), raw[compared].max()
    if least == 0 and most == 0:
        return np.zeros(len(raw))
    if least == most:
        return np.where(compared, 100.0, 0.0)
    return np.where(compared, 100 - np.trunc(100 * (raw - least) / (most - least)), 0.0)


def parse(given: Mapping[str, object]) -> Peaks:
    keys = Keys(NAME, given)
    value = keys.take("node_power_model")
    allowed = 'give {"node": {"k0": …, "k1": …, "k2": …}, …} with numbers'
    if not isinstance(value, Mapping) or not value:
        raise keys.error("node_power_model", value, allowed)
    models = {}
    for node, model in value.items():
        if not isinstance(model, Mapping) or not set(model) <= {"k0", "k1", "k2"}:
            raise keys.error("node_power_model", value, allowed)
        k0, k1, k2 = (to_number(model.get(name, 0)) for name in ("k0", "k1", "k2"))
        if k0 is None or k1 is None or k2 is None:
            raise keys.error("node_power_model", value, allowed)
        models[str(node)] = (k0, k1, k2)
    unknown = keys.choice("unknown", "worst", ("worst", "upstream"))
    mode = in_flight.mode(keys)
    keys.finish()
    return Peaks(models, unknown == "upstream", mode)
