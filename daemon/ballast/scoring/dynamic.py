"""dynamic: scores by the annotations and the policy of crane-scheduler.

Equals the score of the Dynamic plugin of gocrane/crane-scheduler (pkg/plugins/dynamic/{plugins,stats}.go): the mean of
100(1 - usage) by the weights of the policy, cut, less ten times the hot value, cut, within 0..100. A metric that is
missing or expired adds nothing while its weight still counts. A node without any fresh metric is unknown and scores 0.
Where bindings are counted (in the daemon), the hot value comes from them, with pods that were just placed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Floats
from ballast.scoring import crane
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import StrategyKeys
from ballast.scoring.scores import Scores

NAME = "dynamic"


@dataclass(frozen=True)
class Dynamic:
    """The time zone is that of the clock which stamps the annotations."""

    needs_load: ClassVar[bool] = True
    needs_pods: ClassVar[bool] = False
    needs_pod: ClassVar[bool] = False
    warms: ClassVar[bool] = True

    policy: crane.CranePolicy
    timezone: str = crane.DEFAULT_TIMEZONE

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The pod plays no part."""
        weights = self.policy.weights
        usage = {name: self._read(fleet, name, self.policy.periods[name]) for name in weights}
        hot_value = self._hot_value(fleet)
        hot = np.nan_to_num(hot_value)
        total, divisor = np.zeros(len(fleet.nodes)), 0.0
        for name, weight in weights.items():
            total += np.nan_to_num((1.0 - usage[name]) * weight * 100.0)
            divisor += weight
        raw = np.trunc(total / divisor) - np.trunc(hot * 10)
        known = ~np.all([np.isnan(values) for values in usage.values()], axis=0)
        exact = np.where(known, np.clip(raw, 0.0, 100.0), 0.0)
        return Scores(
            exact=exact, raw=np.where(known, raw, np.nan), unknown=~known, terms=usage | {crane.HOT_VALUE: hot_value}
        )

    def _hot_value(self, fleet: Fleet) -> Floats:
        """From the bindings where they are counted, else from the annotation."""
        if not self.policy.hot or any(seconds not in fleet.bindings for seconds, _ in self.policy.hot):
            return self._read(fleet, crane.HOT_VALUE, 0.0)
        return crane.hot_values(self.policy, fleet.bindings).astype(float)

    def _read(self, fleet: Fleet, key: str, period: float) -> Floats:
        zone = crane.time_zone(self.timezone)

        def of(node: Node, now: float) -> float:
            value = crane.read(node.annotations.get(key), period, now, zone)
            return np.nan if value is None else value

        return fleet.per_node(
            (NAME, key, period, self.timezone),
            lambda whole: np.array([of(node, whole.time) for node in whole.nodes], float),
        )


def parse(given: Mapping[str, object]) -> Dynamic:
    """`policy` is the content of a DynamicSchedulerPolicy file."""
    keys = StrategyKeys(NAME, given)
    value = keys.take("policy")
    if not isinstance(value, Mapping):
        raise keys.error("policy", value, "give a DynamicSchedulerPolicy as an object or the name of a file with one")
    policy = crane.parse_policy(value)
    zone = keys.take("timezone")
    if zone is not None and not isinstance(zone, str):
        raise keys.error("timezone", zone, "give an IANA name such as UTC")
    name = str(zone or crane.DEFAULT_TIMEZONE)
    crane.time_zone(name)
    keys.finish()
    return Dynamic(policy, name)
