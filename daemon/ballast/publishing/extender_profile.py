"""A kube-scheduler profile that asks Ballast about every pod."""

from __future__ import annotations

import json

from ballast.publishing.scheduler_configuration import configuration

_COMMENTS = """\
A stock kube-scheduler that asks Ballast, for every pod, which node is best: by real load, by requests, and by what it
has just decided itself.
{use}

* Ballast gives one node 10 and the others at most 9, and counts the pod there at once. The scores of
  NodeResourcesFit, NodeResourcesBalancedAllocation and ImageLocality are disabled: they would outvote 10 against 9,
  and Ballast would count the pod on a node it does not go to. Their filters stay: a pod never goes where it does not
  fit.
* The scores that carry a pod's own wishes stay: affinity, topology spread, tolerations.
* ignorable and httpTimeout: when Ballast is down or slow, pods are placed without it, each at most 250 ms later.
* The url must lead to the leader alone (the Service ballast-extender does), because only it knows its decisions. A
  scheduler on the host network may not resolve names of Services: give it the Service's cluster IP then.
* Ballast's own pods should stay with the cluster's own scheduler, which does not depend on them.
* Another strategy than that of BALLAST_EXTENDER__STRATEGY: prioritizeVerb: prioritize?profile=load-variation
"""

_EXTENDER = """\
extenders:  # they apply to all profiles of this file
- urlPrefix: {prefix}
  prioritizeVerb: prioritize
{filter}  weight: 10
  nodeCacheCapable: true  # node names are sent, not whole nodes
  ignorable: true
  httpTimeout: 250ms
{tls}"""

_FILTER = """\
  filterVerb: filter  # keeps others out of room that is held; leaves out nodes above BALLAST_EXTENDER__FILTER_THRESHOLD
"""

_TLS = """\
  enableHTTPS: true
  tlsConfig: {}  # caFile, certFile and keyFile where the system's authorities are not enough
"""

_PROFILE = """\
  plugins:
    score:
      disabled:
      - name: NodeResourcesFit
      - name: NodeResourcesBalancedAllocation
      - name: ImageLocality
"""


def extender_profile(url: str, scheduler: str, *, filtering: bool = True) -> str:
    """The KubeSchedulerConfiguration (v1) for an extender at `url`, asked to filter too unless `filtering` is False."""
    extender = _EXTENDER.format(
        prefix=json.dumps(f"{url.rstrip('/')}/scheduler"),
        filter=_FILTER if filtering else "",
        tls=_TLS if url.lower().startswith("https://") else "",
    )
    return configuration(scheduler, _COMMENTS, _PROFILE, extender)
