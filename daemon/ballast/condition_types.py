"""The types of conditions: what each says, what to do, and whether it is good or bad news."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

GOOD = frozenset(("Active", "FeedAvailable", "ScheduleAvailable"))
"""Types whose absence is the problem."""


class ConditionType(NamedTuple):
    """`says` is what holds while it is True, `do` the first thing to try then; links are those of a page of docs/."""

    says: str
    do: str


CONDITION_TYPES: Mapping[str, ConditionType] = {
    "Active": ConditionType(
        "Power policies follow their feeds; while it does not hold, something keeps them from acting.",
        "Read the message: it names what is waited for.",
    ),
    "BatchGatesHeld": ConditionType(
        "Pods carry the gate of batch, and nobody removes it: batch is paused or in dry-run.",
        "Resume batch, or let the pods go with `ballast release batch`.",
    ),
    "BatchGivenUp": ConditionType(
        "Pods of a batch were let go without a plan.",
        "Read the message; check the rights of batch on pods.",
    ),
    "BatchNotSteered": ConditionType(
        "Pods of a batch land elsewhere than planned: their scheduler does not ask the extender.",
        "Pair the scheduler with the extender: [pairing](../pairing.md).",
    ),
    "BudgetsUnsatisfiable": ConditionType(
        "Disruption budgets allow no eviction and no drain, ever.",
        "Raise maxUnavailable of the named budgets; `ballast doctor --only budgets-unsatisfiable` prints the lines.",
    ),
    "ClusterUnreachable": ConditionType(
        "The API server does not answer, or refuses what Ballast has to read.",
        "Check the API server and the service account; run `ballast doctor --only kubernetes-reachable,rbac`.",
    ),
    "ConsumptionUnknown": ConditionType(
        "What the replicas of a power policy draw cannot be read, so nothing is learned or verified by it.",
        "Check `consumption` of the policy; `ballast doctor --only power-consumption` tells what it answers.",
    ),
    "Contended": ConditionType(
        "Somebody else keeps changing back what Ballast writes; it leaves those objects alone for a while.",
        'Let one of the two go; exclude the object with `ballast.dev/exclude: "true"`.',
    ),
    "CraneFailing": ConditionType(
        "The annotations of crane-scheduler cannot be written.",
        "Check the right to patch nodes.",
    ),
    "Degraded": ConditionType(
        "A power policy cannot act: a write fails, or its state cannot be stored.",
        "Read the message: it names the target and the error.",
    ),
    "EffectMissing": ConditionType(
        "Replicas were taken away, and the watts did not fall as predicted.",
        "Read the message; check `consumption` of the policy.",
    ),
    "EnergySpent": ConditionType(
        "The energy of the period is used up.",
        "Wait for the next period, or allow more.",
    ),
    "EvictionsHalted": ConditionType(
        "Nothing is evicted because it would not be safe now.",
        "Read the message and [evictions](../evictions.md).",
    ),
    "Fallback": ConditionType(
        "A power feed is silent for so long that the policy's fallback holds.",
        "Mend the feed; `ballast doctor --only power-feed` tells what it answers.",
    ),
    "FallbackInUse": ConditionType(
        "The load comes from the second source, because the first gives none.",
        "Mend Prometheus; `ballast doctor --only prometheus-reachable,preset-data`.",
    ),
    "FallbackMissing": ConditionType(
        "metrics-server does not answer, so nothing steps in when Prometheus is silent.",
        "Install metrics-server; `ballast doctor --only metrics-server` tells what it answers.",
    ),
    "FeedAvailable": ConditionType(
        "Every power feed gives usable samples; while it does not hold, replicas stay as they are.",
        "Check the feed and its clock.",
    ),
    "LandingNotSteered": ConditionType(
        "Where replacements of evicted pods land is left to chance: no scheduler asks the extender.",
        "Add the extender to the scheduler's profile: [pairing](../pairing.md).",
    ),
    "LeaseFailing": ConditionType(
        "The Lease can be neither taken nor renewed.",
        "Check the right to update Leases in the own namespace.",
    ),
    "Limited": ConditionType(
        "A power policy cannot go as far as its watts ask for.",
        "Widen the limits of the policy, or accept it.",
    ),
    "NodesUnknown": ConditionType(
        "Some nodes gave data before and are silent now.",
        "See [telemetry](../telemetry.md): young nodes need minutes, silent ones an exporter.",
    ),
    "NodesUnmeasured": ConditionType(
        "Some nodes never had a sample.",
        "Install the exporter there, or leave them out with the line of the message.",
    ),
    "ObjectsTooLarge": ConditionType(
        "Objects are larger than what Ballast keeps of one; they count by node and requests alone.",
        "Shrink the named objects.",
    ),
    "OverBudget": ConditionType(
        "The replicas of a power policy draw more watts than there are.",
        "Read the watts in the message; check minimums and workloads outside the policy.",
    ),
    "PartialAnswers": ConditionType(
        "The source answers for a part of the nodes or resources.",
        "Mend the store that the warning names.",
    ),
    "Paused": ConditionType(
        "Power is paused by the switches.",
        "`ballast resume` prints the line that ends it.",
    ),
    "PlanningFailing": ConditionType(
        "The worker that plans evictions fails, takes too long or runs out of memory.",
        "Give the pod more cpu or memory; read the message.",
    ),
    "PodUsageUnknown": ConditionType(
        "What pods use is not known, so they count by their requests.",
        "Scrape cAdvisor or run metrics-server; `ballast doctor --only pod-usage`.",
    ),
    "PodsUnreadable": ConditionType(
        "Pods cannot be read, so what they request is not known.",
        "Check the right to list and watch pods.",
    ),
    "PublishingFailing": ConditionType(
        "Labels, annotations or taints of nodes cannot be written.",
        "Check the right to patch nodes; another admission policy may refuse.",
    ),
    "PublishingFrozen": ConditionType(
        "Too many nodes are silent; ranking only the others would send every pod to them.",
        "Mend the telemetry; the message has the numbers.",
    ),
    "Rebaselined": ConditionType(
        "A power policy lost what its targets were computed from, and waits for a person.",
        "Nothing; it ends by itself.",
    ),
    "ReservationsNotHeld": ConditionType(
        "Room for replacements is not kept free: the scheduler does not ask the extender to filter.",
        "Add the filter verb to the extender's profile: [pairing](../pairing.md).",
    ),
    "ScheduleAvailable": ConditionType(
        "Every schedule of a power policy can be read; while it does not hold, it bounds nothing new.",
        "Check the schedule's file or address.",
    ),
    "ScrapesSlow": ConditionType(
        "The source measures less often than Ballast reads it.",
        "Set BALLAST_TELEMETRY__INTERVAL as the message says.",
    ),
    "SecondBallast": ConditionType(
        "Nodes carry scores of another Ballast, under another prefix.",
        "Stop one of the two, or remove what it left; `ballast doctor --only second-ballast` prints the lines.",
    ),
    "SeriesDiffer": ConditionType(
        "Series of one node differ in a label that tells clusters or exporters apart.",
        "Set the MATCHERS line of the message.",
    ),
    "SourcesDisagree": ConditionType(
        "Two sources tell different loads of the same nodes.",
        "Check the exporter of the named nodes.",
    ),
    "StateNotSaved": ConditionType(
        "ConfigMap ballast-state cannot be written.",
        "Check its size and the right to update it.",
    ),
    "TelemetryDegraded": ConditionType(
        "Queries fail; what is known ages.",
        "`ballast doctor` names the query and the fix.",
    ),
    "UnmatchedSeries": ConditionType(
        "Series name no node of the cluster, or several.",
        "Set BALLAST_TELEMETRY__NODE_LABEL: [telemetry](../telemetry.md).",
    ),
}
