"""A kube-scheduler profile that reads the score labels."""

from __future__ import annotations

from ballast.publishing.scheduler_configuration import configuration

_COMMENTS = """\
A stock kube-scheduler that prefers nodes with real room: by the label {key}, "0".."10", higher is better.
{{use}}

Ten preferred terms of weight 1, each met by the nodes with a score above k, add up to the score itself (0..10).
* Weight 1, so that a pod's own preferences still win: one of weight 50 outweighs the ten together.
* NodeAffinity divides by the largest sum in the cluster: the best node gets 100, a node with half its score 50. So
  it is the difference between nodes that counts, not the level; and for a pod with preferences of its own the
  labels shrink to what they are beside these.
* Nodes without the label meet no term: they rank behind every node with a score above 0 and are never excluded.

Labels stay as they are while a burst of pods is placed, so they alone send every pod to the same best node. Keep
NodeResourcesFit strong beside them: it counts each placed pod at once. More weight on NodeAffinity herds more and
balances less.
"""

_PROFILE = """\
  plugins:
    score:
      enabled:  # only the weights differ from the defaults; all other plugins stay
      - {{name: NodeAffinity, weight: 1}}
      - {{name: NodeResourcesFit, weight: 3}}
      - {{name: NodeResourcesBalancedAllocation, weight: 1}}
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
    terms = "".join(_TERM.format(key=key, quoted=f'"{score}"') for score in range(10))
    return configuration(scheduler, _COMMENTS.format(key=key), _PROFILE.format(terms=terms))
