"""Kube-scheduler profiles that fill nodes one after the other; they need no daemon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ballast.publishing.scheduler_configuration import configuration

MOST_ALLOCATED, RATIO = "MostAllocated", "RequestedToCapacityRatio"
STRATEGIES = (MOST_ALLOCATED, RATIO)
"""The scoring strategies of NodeResourcesFit that fill nodes."""

_COMMENTS = """\
A stock kube-scheduler that fills nodes by requests, so that an autoscaler can take the empty ones away. It needs no
Ballast: nothing here looks at the load.
{use}

* Weights are whole numbers from 1 to 100. Kubernetes' own page on bin packing shows negative ones; the scheduler
  refuses them.
* Name every resource that can run out first, such as ephemeral-storage or nvidia.com/gpu, with a weight of its own:
  --resources cpu,memory,nvidia.com/gpu=5
* NodeResourcesBalancedAllocation is disabled because it pulls the other way.
* Fill up to a point and not beyond, instead of MostAllocated:
    --strategy RequestedToCapacityRatio --shape 0:0,80:10,100:5
"""

_PROFILE = """\
  plugins:
    score:
      enabled:
      - {{name: NodeResourcesFit, weight: 5}}  # above what spreads the pods of one workload
      disabled:
      - name: NodeResourcesBalancedAllocation
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy:
        type: {strategy}
        resources:
{resources}{ratio}"""

_RATIO = """\
        requestedToCapacityRatio:
          shape:
{points}"""


def bin_packing_profile(
    scheduler: str,
    strategy: str = MOST_ALLOCATED,
    resources: Mapping[str, int] | None = None,
    shape: Sequence[tuple[int, int]] = (),
) -> str:
    """The KubeSchedulerConfiguration (v1). `resources` have weights; `shape` has points of percent and score 0..10."""
    weights = resources or {"cpu": 1, "memory": 1}
    lines = "".join(f"        - {{name: {name}, weight: {weight}}}\n" for name, weight in weights.items())
    points = "".join(f"          - {{utilization: {used}, score: {score}}}\n" for used, score in shape)
    ratio = _RATIO.format(points=points) if strategy == RATIO else ""
    return configuration(scheduler, _COMMENTS, _PROFILE.format(strategy=strategy, resources=lines, ratio=ratio))
