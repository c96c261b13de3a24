"""The types of conditions: what each says, what to do, and whether it is good or bad news."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

GOOD = frozenset(("Active", "FeedAvailable", "ScheduleAvailable"))
"""Types whose absence is the problem."""


class Rank(StrEnum):
    """How much does not work: Ballast as a whole; a part of it or of the cluster; nothing, but it could be better."""

    OUTAGE = "outage"
    PARTIAL = "partial"
    TUNING = "tuning"


class ConditionType(NamedTuple):
    """`says` is what holds while it is True, `do` the first thing to try then; links are those of a page of docs/.

    `title` names the problem in a few words.
    """

    title: str
    says: str
    do: str
    rank: Rank = Rank.PARTIAL


CONDITION_TYPES: Mapping[str, ConditionType] = {
    "ClusterUnreachable": ConditionType(
        "The Kubernetes API cannot be read",
        "The API server does not answer, or refuses what Ballast has to read.",
        "Check the API server, the network and the service account: `ballast doctor --only kubernetes-reachable,rbac`.",
        rank=Rank.OUTAGE,
    ),
    "PodsUnreadable": ConditionType(
        "Pods cannot be read",
        "Pods cannot be read, so what they request is not known.",
        "Grant list and watch on pods: `ballast doctor --only rbac`.",
    ),
    "LeaseFailing": ConditionType(
        "The Lease cannot be renewed",
        "The Lease can be neither taken nor renewed.",
        "Grant update on Leases, and look at the API server's latency: `ballast doctor --only lease,rbac`.",
        rank=Rank.OUTAGE,
    ),
    "TelemetryDegraded": ConditionType(
        "Queries for loads fail",
        "Queries fail; what is known ages.",
        "Ask Prometheus the same: `ballast doctor --only prometheus-reachable,preset-data`.",
        rank=Rank.OUTAGE,
    ),
    "PartialAnswers": ConditionType(
        "Prometheus answers with warnings, so data may be partial",
        "The source answers for a part of the nodes or resources.",
        "Fix the store behind the query frontend that the warning names.",
    ),
    "SeriesDiffer": ConditionType(
        "Several things report under one node's name",
        "Series of one node differ in a label that tells clusters or exporters apart.",
        "Set the MATCHERS line of the message: `ballast doctor --only clusters-mixed,duplicate-exporters`.",
    ),
    "SeveralJobs": ConditionType(
        "Several scrape jobs report one node",
        "Several scrape jobs tell of one node; one is left out where pods show that its target runs elsewhere.",
        "Set the MATCHERS line of the message: `ballast doctor --only several-jobs`.",
    ),
    "ImpossibleValues": ConditionType(
        "Some nodes tell values that cannot be",
        "Values of some nodes cannot be, such as a core's time above the time lived; they do not count.",
        "See which and why: `ballast doctor --only unmeasured-nodes`; store every core and mode once.",
    ),
    "UnmatchedSeries": ConditionType(
        "Series match no node",
        "Series name no node of the cluster, or several.",
        "Set BALLAST_TELEMETRY__NODE_LABEL: `ballast doctor --only node-label`, [telemetry](../telemetry.md).",
        rank=Rank.TUNING,
    ),
    "AddressClaimed": ConditionType(
        "A node claims an address or a name of another",
        "Several nodes list one address or name in their status; it counts for one of them at most.",
        "Compare `kubectl get nodes -o wide` with the machines; a node that lists addresses of others may be hostile.",
    ),
    "SourcesDisagree": ConditionType(
        "Two sources disagree about loads",
        "Two sources tell different loads of the same nodes.",
        "Check the exporter of the named nodes: `ballast doctor --only sources-disagree,units`.",
    ),
    "ScrapesSlow": ConditionType(
        "Samples are scraped less often than they are read",
        "The source measures less often than Ballast reads it.",
        "Set BALLAST_TELEMETRY__INTERVAL as the message says.",
        rank=Rank.TUNING,
    ),
    "FallbackInUse": ConditionType(
        "The fallback source is in use",
        "The load comes from the second source, because the first gives none.",
        "Fix Prometheus: `ballast doctor --only prometheus-reachable,preset-data`.",
    ),
    "FallbackMissing": ConditionType(
        "metrics-server does not answer",
        "metrics-server does not answer, so nothing steps in when Prometheus is silent.",
        "Install metrics-server; `ballast doctor --only metrics-server` shows the answer.",
        rank=Rank.TUNING,
    ),
    "NodesUnmeasured": ConditionType(
        "Some nodes have never been measured",
        "Some nodes never had a sample of cpu or memory, while others have.",
        "Run an exporter there, or leave them out as the message says: `ballast doctor --only unmeasured-nodes`.",
        rank=Rank.TUNING,
    ),
    "NodeStarved": ConditionType(
        "Some nodes lose their time to the hypervisor or to disks",
        "Some nodes look idle, because their time is stolen or spent waiting for disks or memory.",
        "Look at `steal` and `iowait` of node_cpu_seconds_total there: CPU credits, a full host, a hung disk.",
    ),
    "MeasurementsDisputed": ConditionType(
        "Two sources differ about single nodes",
        "Prometheus and metrics-server differ by more than 20 points about some nodes, so one of them is wrong.",
        "Compare `kubectl top node` with the node itself; `ballast doctor --only sources-disagree` shows both.",
    ),
    "NodesUnknown": ConditionType(
        "Some nodes are silent",
        "Some nodes gave data before and are silent now.",
        "Fix the exporters of the named nodes; the page shows what each lost: [telemetry](../telemetry.md).",
    ),
    "PublishingFrozen": ConditionType(
        "Too many nodes are silent, so nothing is published",
        "Too many nodes are silent; ranking only the others would send every pod to them.",
        "Bring the exporters or Prometheus back; publishing goes on by itself once enough nodes are known.",
        rank=Rank.OUTAGE,
    ),
    "PublishingFailing": ConditionType(
        "Labels cannot be written",
        "Labels, annotations or taints of nodes cannot be written.",
        "Grant patch on nodes: `ballast doctor --only rbac`; another admission policy may refuse too.",
    ),
    "CraneFailing": ConditionType(
        "crane's annotations cannot be written",
        "The annotations of crane-scheduler cannot be written.",
        "Grant patch on nodes: `ballast doctor --only rbac`.",
    ),
    "Contended": ConditionType(
        "Something else writes the same fields",
        "Somebody else changes what Ballast writes: for a while workloads are left alone and nodes are tainted.",
        'Stop one of the two writers, or exclude the object with `ballast.dev/exclude: "true"`.',
    ),
    "LabelsOpen": ConditionType(
        "Kubelets may write the labels that schedulers read",
        "A kubelet may write the labels of its own node under their prefix, and a profile of Ballast reads them.",
        "Set BALLAST_PUBLISHING__LABEL_PREFIX as the message says, then print the profile anew: "
        "[security](../security.md#one-writer).",
        rank=Rank.TUNING,
    ),
    "SecondBallast": ConditionType(
        "Nodes carry scores of another Ballast",
        "Another Ballast writes these nodes too, or their labels under another prefix.",
        "Stop one of the two, or remove what it left; `ballast doctor --only second-ballast` prints the lines.",
    ),
    "FeedAvailable": ConditionType(
        "The power feed is not available",
        "Every power feed gives usable samples; while it does not hold, replicas stay as they are.",
        "Ask the feed, and check its clock: `ballast doctor --only power-feed`.",
    ),
    "ScheduleAvailable": ConditionType(
        "The power schedule cannot be read",
        "Every schedule of a power policy can be read; while it does not hold, it bounds nothing new.",
        "Check the schedule's file or address.",
    ),
    "ConsumptionUnknown": ConditionType(
        "What replicas draw cannot be read",
        "What the replicas of a power policy draw cannot be read, so nothing is learned or verified by it.",
        "Check `consumption` of the policy; `ballast doctor --only power-consumption` shows the answer.",
    ),
    "EnergySpent": ConditionType(
        "The energy of the period is spent",
        "The energy of the period is used up.",
        "Wait for the next period, or raise `energy.kWh` of the policy.",
    ),
    "Active": ConditionType(
        "Power does not act",
        "Power policies follow their feeds; while it does not hold, something keeps them from acting.",
        "Read the message: it names what is waited for.",
    ),
    "OverBudget": ConditionType(
        "More power is drawn than is available",
        "The replicas of a power policy draw more watts than there are.",
        "Read the watts in the message; lower the minimums, or add workloads to the policy: [power](../power.md).",
        rank=Rank.OUTAGE,
    ),
    "WattsDiffer": ConditionType(
        "Replicas draw other watts than their policy says",
        "The meter of a power policy shows other watts than `wattsPerReplica`; what is measured counts.",
        "Read the factor in the message; correct `wattsPerReplica` or `consumption` of the policy.",
        rank=Rank.TUNING,
    ),
    "FeedImplausible": ConditionType(
        "A power feed or schedule can hardly be right",
        "Watts of a power feed or schedule are more than a hundred times what all targets of its policy can draw, or "
        "less than a hundredth, or measured watts have stood still for six hours.",
        "Check `feed.unit` and `schedule.unit` of the policy and what is measured: `ballast doctor --only power-feed`.",
        rank=Rank.TUNING,
    ),
    "ScheduleEnds": ConditionType(
        "A power schedule ends soon",
        "The schedule of a power policy has no row later than two hours from now; its last row holds for ever.",
        "Write the next day's rows into the schedule.",
        rank=Rank.TUNING,
    ),
    "EffectMissing": ConditionType(
        "Watts did not fall as predicted",
        "Replicas were taken away, and the watts did not fall as predicted.",
        "Read the message; check `consumption` of the policy.",
    ),
    "Rebaselined": ConditionType(
        "A power policy waits for a person to confirm its new baseline",
        "A power policy lost what its targets were computed from, and waits for a person.",
        "Set the replicas as they should be, and confirm with `power.rebaseline`: [power](../power.md).",
        rank=Rank.TUNING,
    ),
    "Degraded": ConditionType(
        "Power cannot act",
        "A power policy cannot act: a write fails, or its state cannot be stored.",
        "Read the message: it names the target and the error; `ballast doctor --only rbac,power-targets`.",
    ),
    "Fallback": ConditionType(
        "The power feed is silent for long; the fallback applies",
        "A power feed is silent for so long that the policy's fallback holds.",
        "Fix the feed; `ballast doctor --only power-feed` shows the answer.",
    ),
    "Limited": ConditionType(
        "Replicas are at a bound",
        "A power policy cannot go as far as its watts ask for.",
        "Widen `min` and `max` of the policy, or accept it.",
        rank=Rank.TUNING,
    ),
    "Paused": ConditionType(
        "Power is paused",
        "Power is paused by the switches.",
        "`ballast resume` prints the line that ends it.",
        rank=Rank.TUNING,
    ),
    "PodUsageUnknown": ConditionType(
        "The usage of pods is unknown, so requests count",
        "What pods use is not known, so they count by their requests.",
        "Scrape cAdvisor or run metrics-server: `ballast doctor --only pod-usage`.",
        rank=Rank.TUNING,
    ),
    "BudgetsUnsatisfiable": ConditionType(
        "Disruption budgets allow no eviction, ever",
        "Disruption budgets allow no eviction and no drain, ever.",
        "Raise maxUnavailable of the named budgets; `ballast doctor --only budgets-unsatisfiable` prints the lines.",
        rank=Rank.TUNING,
    ),
    "PlanningFailing": ConditionType(
        "No plan can be made",
        "The worker that plans evictions fails, takes too long or runs out of memory.",
        "Read the message; give the pod more cpu or memory.",
    ),
    "LandingNotSteered": ConditionType(
        "Ballast cannot choose where replacements land",
        "Where replacements of evicted pods land is left to chance: no scheduler asks the extender.",
        "Let the scheduler ask the extender: `ballast profile extender`, [pairing](../pairing.md).",
        rank=Rank.TUNING,
    ),
    "PlannerStopped": ConditionType(
        "A planner of evictions is stopped",
        "A planner makes no moves for an hour: several replacements were late, or its moves had no effect.",
        "Read the message; `ballast pause eviction` and `ballast resume eviction` let it go on at once.",
    ),
    "RateUsedUp": ConditionType(
        "The rate of evictions is used up",
        "BALLAST_EVICTION__RATE permits no more evictions for now, and leaves a step undone that pays.",
        "Wait, or raise `BALLAST_EVICTION__RATE` where nodes stay too loaded: [evictions](../evictions.md).",
        rank=Rank.TUNING,
    ),
    "ReservationsNotHeld": ConditionType(
        "Room is held, but the scheduler does not ask",
        "Room for replacements is not kept free: the scheduler does not ask the extender to filter.",
        "Let the scheduler ask the extender to filter too: `ballast profile extender`, [pairing](../pairing.md).",
        rank=Rank.TUNING,
    ),
    "EvictionsHalted": ConditionType(
        "Nothing is evicted",
        "Nothing is evicted because it would not be safe now.",
        "Fix what the message names; evictions then go on by themselves: [evictions](../evictions.md).",
    ),
    "TooFull": ConditionType(
        "Nodes are too loaded, and there is no room for what is too much",
        "Nodes are above BALLAST_EVICTION__HIGH, and all others together have less room than that: moving pods helps "
        "nobody.",
        "Add nodes as the message says, or lower what the workloads ask for: [evictions](../evictions.md).",
    ),
    "NothingStarts": ConditionType(
        "Nothing starts on some nodes",
        "Pods of several workloads of several namespaces have been trying on a node for minutes, and none became "
        "Ready; no pod is moved there.",
        "Look at Events of pods on the named nodes, at the kubelet and the network there; cordon a node that is sick.",
    ),
    "BatchGatesHeld": ConditionType(
        "Pods wait behind a gate",
        "Pods carry the gate of batch, and nobody removes it: batch is paused or in dry-run.",
        "Resume batch, or release the pods with `ballast release batch`.",
    ),
    "BatchNotSteered": ConditionType(
        "Batches land elsewhere",
        "Pods of a batch land elsewhere than planned: their scheduler does not ask the extender.",
        "Let the scheduler ask the extender: `ballast profile extender`, [pairing](../pairing.md).",
        rank=Rank.TUNING,
    ),
    "BatchGivenUp": ConditionType(
        "A batch was given up",
        "Pods of a batch were released without a plan.",
        "Read the message; check the rights of batch on pods.",
    ),
    "StateRolledBack": ConditionType(
        "ballast-state was set back to an older copy",
        "ConfigMap ballast-state is older than what the Lease knows; until their time is over, rates count as used up.",
        "Find who restored it (a backup, GitOps, `kubectl replace`), and leave ballast-state out there.",
    ),
    "StateAheadOfTime": ConditionType(
        "ballast-state has times of the future",
        "ConfigMap ballast-state has times that are later than now; each counts as the time when it was read.",
        "Compare the clocks of this node and of the one where Ballast ran before (`timedatectl`).",
    ),
    "StateNotSaved": ConditionType(
        "ballast-state cannot be saved",
        "ConfigMap ballast-state cannot be written.",
        "Grant update on ConfigMaps, and check the size of `ballast-state`: `ballast doctor --only rbac`.",
        rank=Rank.OUTAGE,
    ),
    "ObjectsTooLarge": ConditionType(
        "Some objects are too large to be kept whole",
        "Objects are larger than what Ballast keeps of one; they count by node and requests alone.",
        "Shrink the named objects, or accept that they stay where they are.",
        rank=Rank.TUNING,
    ),
}
"""Causes come before what follows from them."""

OF_THE_LEADER = frozenset(
    (
        "PublishingFailing",
        "CraneFailing",
        "Contended",
        "LabelsOpen",
        "SecondBallast",
        "PodUsageUnknown",
        "BudgetsUnsatisfiable",
        "PlanningFailing",
        "LandingNotSteered",
        "PlannerStopped",
        "RateUsedUp",
        "ReservationsNotHeld",
        "EvictionsHalted",
        "NothingStarts",
        "TooFull",
        "BatchGatesHeld",
        "BatchNotSteered",
        "BatchGivenUp",
    )
)
"""Types that only a replica which leads can know."""

OWN_TROUBLES: Mapping[str, ConditionType] = {
    "NoData": ConditionType(
        "Nothing is known about any node",
        "No cycle of telemetry has ended, or no node has fresh samples.",
        "At a start wait for the first cycle; else: `ballast doctor --only kubernetes-reachable,prometheus-reachable`.",
        rank=Rank.OUTAGE,
    ),
    "OldData": ConditionType(
        "The data is old",
        "Cycles of telemetry have stopped; `/watcher` answers 500.",
        "Read the last sentence of the job telemetry, and the log.",
        rank=Rank.OUTAGE,
    ),
    "CycleFailed": ConditionType(
        "The last cycle of a job failed",
        "The last cycle of a job ended with an error.",
        "Read its sentence; the next cycle tries again.",
    ),
    "LeaderUnreachable": ConditionType(
        "The leader cannot be asked",
        "This replica stands by, and does not know what acting parts do.",
        "Ask the leader; in the seconds after a change of leader, ask again.",
    ),
    "NotReady": ConditionType(
        "The daemon is not ready",
        "The caches have not synced, or no cycle has ended.",
        "`/readyz?verbose` names the check that fails.",
        rank=Rank.OUTAGE,
    ),
}
"""What is wrong beside conditions; it follows from them."""
