"""A kube-scheduler profile that fills nodes one after the other; it needs no daemon."""

from __future__ import annotations

from ballast.publishing.scheduler_configuration import configuration

_COMMENTS = """\
A stock kube-scheduler that fills nodes by requests, so that an autoscaler can take the empty ones away. It needs no
Ballast: nothing here looks at the load.
{use}

* Weights are whole numbers from 1 to 100. Kubernetes' own page on bin packing shows negative ones; the scheduler
  refuses them.
* Name every resource that can run out first, such as ephemeral-storage or nvidia.com/gpu, with a weight of its own.
* NodeResourcesBalancedAllocation is disabled because it pulls the other way.
* Fill up to a point and not beyond, instead of MostAllocated:
    type: RequestedToCapacityRatio
    requestedToCapacityRatio:
      shape: [{{utilization: 0, score: 0}}, {{utilization: 80, score: 10}}, {{utilization: 100, score: 5}}]
"""

_PROFILE = """\
  plugins:
    score:
      enabled:
      - {name: NodeResourcesFit, weight: 5}  # above what spreads the pods of one workload
      disabled:
      - name: NodeResourcesBalancedAllocation
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy:
        type: MostAllocated
        resources:
        - {name: cpu, weight: 1}
        - {name: memory, weight: 1}
"""


def bin_packing_profile(scheduler: str) -> str:
    """The KubeSchedulerConfiguration (v1)."""
    return configuration(scheduler, _COMMENTS, _PROFILE)
