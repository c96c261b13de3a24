"""peaks: prefers the node where a pod raises the power drawn least.

The formula is that of Trimaran's Peaks (kubernetes-sigs/scheduler-plugins, pkg/trimaran/peaks/peaks.go): with x the
percent of cpu in use, p the percent with the pod, and a node's power k0 + k1 e^(k2 x), the raw score is
k1 (e^(k2 p) - e^(k2 x)) 10^15 without its fraction; the least among the nodes becomes 100, the largest 0. As upstream,
a pod that would fill a node beyond 100 percent costs nothing there, and when nothing costs anything all nodes score 0.

Upstream also lets a node of which nothing is known cost nothing, which makes it the best. Here it scores 0 and stays
out of the comparison, as does one without a power model, unless `unknown` is `upstream`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats
from ballast.scoring import in_flight
from ballast.scoring.demand import units
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import StrategyKeys, to_number
from ballast.scoring.scores import Scores

NAME = "peaks"
LARGEST = 2.0**63


@dataclass(frozen=True)
class Peaks:
    """`models` are (k0, k1, k2) in watts by node name."""

    needs_load: ClassVar[bool] = True
    needs_pods: ClassVar[bool] = False
    needs_pod: ClassVar[bool] = True
    warms: ClassVar[bool] = True

    models: Mapping[str, tuple[float, float, float]]
    upstream: bool = False
    in_flight: str = "off"

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """`raw` is the rise of power; `terms` are the percent of cpu in use before and after."""
        k1, k2, modelled = self._models(fleet)
        used, now, before = self._without_pod(fleet, k2)
        with_pod = self._percent(fleet, used + self._asked(pod))

        known = fleet.power_cpu.known & modelled
        raw = power_jump(k1, before, exponential(k2 * with_pod))
        costly = known & (with_pod <= 100)
        if not costly.all():
            raw = np.where(costly, raw, 0.0)
        counted = np.abs(raw) < LARGEST
        if not counted.all():
            known &= counted
            raw = np.where(counted, raw, 0.0)
        compared = np.ones(len(raw), bool) if self.upstream else known
        scores = normalised(raw, compared)
        return Scores(
            exact=scores,
            raw=masked(raw, compared),
            unknown=~known,
            terms={"now": masked(now, fleet.power_cpu.known), "with_pod": masked(with_pod, fleet.power_cpu.known)},
        )

    def _without_pod(self, fleet: Fleet, k2: Floats) -> tuple[Floats, Floats, Floats]:
        """(milli-cores in use, the same in percent, e^(k2 x) of it) without the pod."""
        if self.in_flight == "full":
            used = _measured(fleet) + in_flight.since_window(fleet, "cpu")
            now = self._percent(fleet, used)
            return used, now, exponential(k2 * now)

        def compute() -> tuple[object, Floats, Floats, Floats]:
            now = fleet.power_cpu.mean
            return self.models, _measured(fleet), now, exponential(k2 * now)

        return fleet.once((NAME, "without pod", id(self.models)), compute)[1:]

    def _percent(self, fleet: Fleet, used: Floats) -> Floats:
        """Of what the node has; 0 where it has none."""
        whole: Floats = fleet.once((NAME, "whole"), lambda: np.where(fleet.cpu_base > 0, fleet.cpu_base, np.inf))
        return np.asarray(100 * used / whole)

    def _asked(self, pod: Pod | None) -> float:
        """Milli-cores; overhead only counts beside a request, as kubernetes pkg/api/v1/resource/helpers.go has it."""
        if pod is None:
            return 0.0
        requests = units("cpu", pod.shape.total_requests(overhead=False).get("cpu", 0.0))
        return float(requests + units("cpu", pod.shape.overhead.get("cpu", 0.0))) if requests else 0.0

    def _models(self, fleet: Fleet) -> tuple[Floats, Floats, Bools]:
        """(k1, k2, whether there is a model)."""

        def compute() -> tuple[object, Floats, Floats, Bools]:
            rows = np.array([self.models.get(node.name, (0.0, 0.0, 0.0)) for node in fleet.nodes]).reshape(-1, 3)
            modelled = np.array([node.name in self.models for node in fleet.nodes], bool)
            columns = np.ascontiguousarray(rows.T)
            return self.models, columns[1], columns[2], modelled  # holding the models keeps their id theirs

        return fleet.once((NAME, id(self.models)), compute)[1:]


def _measured(fleet: Fleet) -> Floats:
    """[node]: milli-cores in use over the window."""
    return np.asarray((fleet.power_cpu.mean / 100) * fleet.cpu_base)


def power_jump(k1: Floats, before: Floats, after: Floats) -> Floats:
    """What upstream compares, of e^(k2 x) before and after, without a fraction; not finite beyond all numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.trunc(k1 * (after - before) * 1e15))


def exponential(values: Floats) -> Floats:
    """The C library's e^x: the last bit of numpy's depends on the processor, and differences magnify it.

    That is what undoing a Box-Cox transformation with lambda 0 is.
    """
    from scipy.special import inv_boxcox  # the package takes long to import and few strategies need it

    return np.asarray(inv_boxcox(values, 0.0))


def normalised(raw: Floats, compared: Bools) -> Floats:
    """100 for the least and 0 for the largest of the compared; 0 for the others, and for all when all are 0."""
    if not compared.any():
        return np.zeros(len(raw))
    everywhere = bool(compared.all())
    some = raw if everywhere else raw[compared]
    least, most = some.min(), some.max()
    if least == 0 and most == 0:
        return np.zeros(len(raw))
    if least == most:
        return np.where(compared, 100.0, 0.0)
    points = 100 - np.trunc(100 * (raw - least) / (most - least))
    return points if everywhere else np.where(compared, points, 0.0)


def masked(values: Floats, there: Bools) -> Floats:
    """The values, NaN where they are not there."""
    return values if there.all() else np.where(there, values, np.nan)


def parse(given: Mapping[str, object]) -> Peaks:
    """The strategy with its keys. Raises UsageError."""
    import scipy.special  # noqa: F401 - takes long, and better now than when a pod waits

    keys = StrategyKeys(NAME, given)
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
    mode = keys.in_flight()
    keys.finish()
    return Peaks(models, unknown == "upstream", mode)
