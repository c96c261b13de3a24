"""The KubeSchedulerConfigurations that `ballast profile` prints, one function each, and what they have in common."""

import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from ballast.windows.band import STEPS

DEFAULT_SCHEDULER = "default-scheduler"

LABELS_WEIGHTS = (1, 1, 1)
"""Of NodeAffinity, NodeResourcesFit and NodeResourcesBalancedAllocation in the labels profile."""

_HEAD = """\
{comments}apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
{election}{before}profiles:
- schedulerName: {scheduler}
{profile}"""

_ELECTION = """\
leaderElection:  # a Lease of its own, beside the one of the cluster's own scheduler
  resourceName: {scheduler}
"""


def configuration(scheduler: str, comments: str, profile: str, before: str = "") -> str:
    """A whole file (YAML with comments); `profile` is indented by two, `before` are further keys.

    With the name `default-scheduler` it replaces the configuration of the cluster's own scheduler; with any other it is
    for a second one, with its own Lease. `{use}` in the comments becomes what to do with the file.
    """
    second = scheduler != DEFAULT_SCHEDULER
    use = (
        f"Run a second kube-scheduler with it (--config); pods choose it with schedulerName: {scheduler}."
        if second
        else "Give it to the cluster's own kube-scheduler (--config) with the clientConnection it has now."
    )
    text = "".join(f"# {line}".rstrip() + "\n" for line in comments.format(use=use).splitlines())
    election = _ELECTION.format(scheduler=scheduler) if second else ""
    return _HEAD.format(comments=text, election=election, before=before, scheduler=scheduler, profile=profile)


_LABELS_COMMENTS = """\
A stock kube-scheduler that prefers nodes with real room: by the label {key}, "0".."{steps}", higher is better.
{{use}}

{steps} preferred terms of weight 1, each met by the nodes with a score above k, add up to the score (0..{steps}).
* Weight 1, so that a pod's own preferences still win: one of weight 50 outweighs them all together.
* NodeAffinity divides by the largest sum in the cluster: the best node gets 100, a node with half its score 50. So
  it is the difference between nodes that counts, not the level; and for a pod with preferences of its own the
  labels shrink to what they are beside these.
* Nodes without the label meet no term: they rank behind every node with a score above 0 and are never excluded.

Labels stay as they are while a burst of pods is placed, so they alone send every pod to the same best node.
NodeResourcesFit counts each placed pod at once. The weights are those with the fewest hot node-minutes on recorded
load ("ballast experiment schedule"): more weight on NodeAffinity herds more, less balances less.
"""

_LABELS = """\
  plugins:
    score:
      enabled:  # only the weights differ from the defaults; all other plugins stay
      - {{name: NodeAffinity, weight: {affinity}}}
      - {{name: NodeResourcesFit, weight: {fit}}}
      - {{name: NodeResourcesBalancedAllocation, weight: {balance}}}
  pluginConfig:
  - name: NodeAffinity
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeAffinityArgs
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
{terms}"""

_TERM = (
    "        - {{weight: 1, preference: {{matchExpressions: [{{key: {key}, operator: Gt, values: [{quoted}]}}]}}}}\n"
)


def labels_profile(prefix: str, scheduler: str) -> str:
    """The KubeSchedulerConfiguration (v1) for labels under `prefix`."""
    key = f"{prefix}/score"
    terms = "".join(_TERM.format(key=key, quoted=f'"{score}"') for score in range(STEPS))
    affinity, fit, balance = LABELS_WEIGHTS
    profile = _LABELS.format(terms=terms, affinity=affinity, fit=fit, balance=balance)
    return configuration(scheduler, _LABELS_COMMENTS.format(key=key, steps=STEPS), profile)


_TRIMARAN_COMMENTS = """\
The kube-scheduler of kubernetes-sigs/scheduler-plugins with Trimaran, which reads the load from Ballast's /watcher
every 30 seconds. The stock kube-scheduler does not have these plugins.
{use}

* One Trimaran plugin at a time, as its maintainers advise. Others with the same watcherAddress: TargetLoadPacking
  (targetUtilization: 40), LowRiskOverCommitment, Peaks (it spells the key WatcherAddress).
* Trimaran has no limit for the age of what it read last. Ballast leaves out nodes it does not know, and answers 500
  when it knows none; Trimaran then goes on with what it had.
* It does not see pods that were placed since; NodeResourcesFit does, so it stays.
"""

_TRIMARAN = """\
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
    return configuration(scheduler, _TRIMARAN_COMMENTS, _TRIMARAN.format(url=json.dumps(url.rstrip("/"))))


_CRANE_COMMENTS = """\
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

_CRANE = """\
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
    return configuration(scheduler, _CRANE_COMMENTS.replace("{timezone}", timezone), _CRANE)


_EXTENDER_COMMENTS = """\
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

_EXTENDER_SCORING = """\
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
    url: str, scheduler: str, *, filtering: bool = True, token: str = "", files: bool = False, certificate: bool = False
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
    comments = _EXTENDER_COMMENTS.replace("{token}", _SHOWN_IN_URL.format(plain=plain) if token else "")
    return configuration(scheduler, comments, _EXTENDER_SCORING, extender)


MOST_ALLOCATED, RATIO = "MostAllocated", "RequestedToCapacityRatio"
STRATEGIES = (MOST_ALLOCATED, RATIO)
"""The scoring strategies of NodeResourcesFit that fill nodes."""

_BIN_PACKING_COMMENTS = """\
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

_BIN_PACKING = """\
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
    return configuration(
        scheduler, _BIN_PACKING_COMMENTS, _BIN_PACKING.format(strategy=strategy, resources=lines, ratio=ratio)
    )
