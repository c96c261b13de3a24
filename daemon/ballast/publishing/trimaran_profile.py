"""A profile for the scheduler of kubernetes-sigs/scheduler-plugins, with Ballast in the place of load-watcher."""

from __future__ import annotations

import json

from ballast.publishing.scheduler_configuration import configuration

_COMMENTS = """\
The kube-scheduler of kubernetes-sigs/scheduler-plugins with Trimaran, which reads the load from Ballast's /watcher
every 30 seconds. The stock kube-scheduler does not have these plugins.
{use}

* One Trimaran plugin at a time, as its maintainers advise. Others with the same watcherAddress: TargetLoadPacking
  (targetUtilization: 40), LowRiskOverCommitment, Peaks (it spells the key WatcherAddress).
* Trimaran has no limit for the age of what it read last. Ballast leaves out nodes it does not know, and answers 500
  when it knows none; Trimaran then goes on with what it had.
* It does not see pods that were placed since; NodeResourcesFit does, so it stays.
"""

_PROFILE = """\
  plugins:
    score:
      enabled:
      - name: LoadVariationRiskBalancing
  pluginConfig:
  - name: LoadVariationRiskBalancing
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LoadVariationRiskBalancingArgs
      watcherAddress: {url}
      safeVarianceMargin: 1
      safeVarianceSensitivity: 1
"""


def trimaran_profile(url: str, scheduler: str) -> str:
    """The KubeSchedulerConfiguration (v1) for a Ballast at `url`."""
    return configuration(scheduler, _COMMENTS, _PROFILE.format(url=json.dumps(url.rstrip("/"))))
