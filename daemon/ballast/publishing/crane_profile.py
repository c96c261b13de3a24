"""A profile for the scheduler of gocrane/crane-scheduler, with Ballast in the place of its controller."""

from __future__ import annotations

from ballast.publishing.scheduler_configuration import configuration

_COMMENTS = """\
The scheduler of gocrane/crane-scheduler with its plugin Dynamic, which reads the annotations that Ballast writes on
the nodes with BALLAST_PUBLISHING__CRANE=true. The stock kube-scheduler does not have this plugin.
{use}

* crane-scheduler's own releases are built on Kubernetes 1.23 and know the versions v1beta2 and v1beta3 alone: change
  apiVersion to kubescheduler.config.k8s.io/v1beta3 for them. Kubernetes 1.29 and later know only v1.
* Do not run crane's own controller beside Ballast: both would write the same annotations.
* The plugin takes stamps for the wall clock of its environment variable TZ, Asia/Shanghai without one. It has to be
  the time zone of BALLAST_PUBLISHING__CRANE_TIMEZONE, here {timezone}: else every value counts as
  expired, or as fresh for hours too long.
* Give the scheduler and Ballast (BALLAST_PUBLISHING__CRANE_POLICY_FILE) the same policy file; without one Ballast
  goes by the default of crane-scheduler.
* The filter lets nodes pass whose annotations are missing or expired, and does not tell. So watch
  ballast_nodes_unknown.
"""

_PROFILE = """\
  plugins:
    filter:
      enabled:
      - name: Dynamic
    score:
      enabled:
      - {name: Dynamic, weight: 3}
  pluginConfig:
  - name: Dynamic
    args:
      policyConfigPath: /etc/kubernetes/policy.yaml  # where the scheduler's pod has it
"""


def crane_profile(scheduler: str, timezone: str) -> str:
    """The KubeSchedulerConfiguration (v1) for annotations stamped in `timezone`."""
    return configuration(scheduler, _COMMENTS.replace("{timezone}", timezone), _PROFILE)
