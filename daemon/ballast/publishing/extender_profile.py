"""A kube-scheduler profile that asks Ballast about every pod."""

from __future__ import annotations

import json
from urllib.parse import quote

from ballast.publishing.scheduler_configuration import configuration

_COMMENTS = """\
A stock kube-scheduler that asks Ballast, for every pod, which node is best: by real load, by requests, and by what it
has just decided itself.
{use}

* Ballast gives one node 10 and the others at most 9, a lead of 100 points, and counts the pod there at once.
  The scores of NodeResourcesBalancedAllocation and ImageLocality are disabled, and NodeResourcesFit gives at most 50
  points: more would outvote Ballast, and it would count the pod on a node it does not go to. Their filters stay: a
  pod never goes where it does not fit.
* While Ballast is down, those 50 points spread pods by what they request. Without them kube-scheduler 1.36 finds all
  nodes equal, does not break the tie at random, and fills one node after the other.
* The scores that carry a pod's own wishes stay: affinity, topology spread, tolerations.
* ignorable and httpTimeout: when Ballast is down or slow, pods are placed without it, each at most 250 ms later.
* The url must lead to the leader alone (the Service ballast-extender does), because only it knows its decisions. A
  scheduler on the host network may not resolve names of Services: give it the Service's cluster IP then.
{token}* Ballast's own pods should stay with the cluster's own scheduler, which does not depend on them.
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

_TRUSTED = """\
  enableHTTPS: true
  tlsConfig: {{}}  # caFile, certFile and keyFile where the system's authorities are not enough
"""

_TLS = """\
  enableHTTPS: true
  tlsConfig:  # files in the pod of kube-scheduler; without caFile those that the system trusts
    caFile: {folder}/ca.crt
{client}"""

_CLIENT = """\
    certFile: {folder}/tls.crt  # of the CA in BALLAST_EXTENDER__CLIENT_CA_FILE
    keyFile: {folder}/tls.key
"""

_SHOWN_IN_URL = """\
* The url carries the token of BALLAST_EXTENDER__TOKEN_FILE, for kube-scheduler can send nothing else: keep this file
  in a Secret{plain}.
"""

FOLDER = "/etc/kubernetes/ballast"
"""Where kube-scheduler finds its files."""

_PROFILE = """\
  plugins:
    score:
      disabled:
      - name: NodeResourcesBalancedAllocation
      - name: ImageLocality
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]
        requestedToCapacityRatio:
          shape: [{utilization: 0, score: 5}, {utilization: 100, score: 0}]  # 50 points down to 0
"""


def extender_profile(
    url: str,
    scheduler: str,
    *,
    filtering: bool = True,
    token: str = "",
    files: bool = False,
    certificate: bool = False,
) -> str:
    """The KubeSchedulerConfiguration (v1) for an extender at `url`, asked to filter too unless `filtering` is False.

    It shows the `token`; with an https `url` it names the `files` of a CA and of a client `certificate`.
    """
    tls = url.lower().startswith("https://")
    client = _CLIENT.format(folder=FOLDER) if certificate else ""
    extender = _EXTENDER.format(
        prefix=json.dumps(f"{url.rstrip('/')}/scheduler" + (f"/{quote(token, safe='')}" if token else "")),
        filter=_FILTER if filtering else "",
        tls=(_TLS if files or certificate else _TRUSTED).format(folder=FOLDER, client=client) if tls else "",
    )
    plain = "" if tls else ", and use --tls: without it the token can be read on its way"
    comments = _COMMENTS.replace("{token}", _SHOWN_IN_URL.format(plain=plain) if token else "")
    return configuration(scheduler, comments, _PROFILE, extender)
