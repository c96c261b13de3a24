"""free-bandwidth: prefers nodes with free bandwidth, an extended resource such as `example.com/mbps`."""

import numpy as np

from ballast.scoring.demand import NOTHING, demand
from ballast.scoring.keys import StrategyKeys
from ballast.scoring.scores import Scores


class FreeBandwidth:
    """Scores 100 (allocatable - requested with the pod) / allocatable, 0 where a node has no such resource."""

    needs_load, needs_pods, needs_pod, warms = False, True, False, False

    def __init__(self, resource):
        self.resource = resource

    def score(self, fleet, pod=None):
        whole = fleet.allocatable(self.resource)
        asked = (demand(pod.shape) if pod else NOTHING).reserved.get(self.resource, 0)
        free = whole - fleet.placed.reserved(self.resource) - asked
        exact = 100 * np.clip(free / np.maximum(whole, 1), 0.0, 1.0)
        return Scores(exact=exact, raw=exact, unknown=np.zeros(len(whole), bool), terms={})


def parse(given):
    """The strategy with its key `resource`."""
    keys = StrategyKeys("free-bandwidth", given)
    resource = keys.take("resource") or "example.com/mbps"
    keys.finish()
    return FreeBandwidth(resource)
