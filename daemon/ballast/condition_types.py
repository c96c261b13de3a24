"""The types of conditions: what each says, and whether it is good or bad news."""

from __future__ import annotations

GOOD = frozenset(("Active", "FeedAvailable", "ScheduleAvailable"))
"""Types whose absence is the problem."""

CONDITION_TYPES = {
    "Active": "Power policies follow their feeds; while it does not hold, something keeps them from acting.",
    "BatchGatesHeld": "Pods carry the gate of batch, and nobody removes it: batch is paused or in dry-run.",
    "BatchGivenUp": "Pods of a batch were let go without a plan.",
    "BatchNotSteered": "Pods of a batch land elsewhere than planned: their scheduler does not ask the extender.",
    "ClusterUnreachable": "The API server does not answer, or refuses what Ballast has to read.",
    "Contended": "Somebody else keeps changing back what Ballast writes; it leaves those objects alone for a while.",
    "CraneFailing": "The annotations of crane-scheduler cannot be written.",
    "Degraded": "A power policy cannot act: a write fails, or its state cannot be stored.",
    "EffectMissing": "Replicas were taken away, and the watts did not fall as predicted.",
    "EnergySpent": "The energy of the period is used up.",
    "EvictionsHalted": "Nothing is evicted because it would not be safe now.",
    "Fallback": "A power feed is silent for so long that the policy's fallback holds.",
    "FallbackInUse": "The load comes from the second source, because the first gives none.",
    "FeedAvailable": "Every power feed gives usable samples; while it does not hold, replicas stay as they are.",
    "LandingNotSteered": "Where replacements of evicted pods land is left to chance: no scheduler asks the extender.",
    "LeaseFailing": "The Lease can be neither taken nor renewed.",
    "Limited": "A power policy cannot go as far as its watts ask for.",
    "NodesUnknown": "Some nodes gave data before and are silent now.",
    "NodesUnmeasured": "Some nodes never had a sample.",
    "ObjectsTooLarge": "Objects are larger than what Ballast keeps of one; they count by node and requests alone.",
    "OverBudget": "The replicas of a power policy draw more watts than there are.",
    "PartialAnswers": "The source answers for a part of the nodes or resources.",
    "Paused": "Power is paused by the switches.",
    "PlanningFailing": "The worker that plans evictions fails, takes too long or runs out of memory.",
    "PodUsageUnknown": "What pods use is not known, so they count by their requests.",
    "PodsUnreadable": "Pods cannot be read, so what they request is not known.",
    "PublishingFailing": "Labels, annotations or taints of nodes cannot be written.",
    "PublishingFrozen": "Too many nodes are silent; ranking only the others would send every pod to them.",
    "Rebaselined": "A power policy lost what its targets were computed from, and waits for a person.",
    "ReservationsNotHeld": "Room for replacements is not kept free: the scheduler does not ask the extender to filter.",
    "ScheduleAvailable": "Every schedule of a power policy can be read; while it does not hold, it bounds nothing new.",
    "ScrapesSlow": "The source measures less often than Ballast reads it.",
    "SeriesDiffer": "Series of one node differ in a label that tells clusters or exporters apart.",
    "SourcesDisagree": "Two sources tell different loads of the same nodes.",
    "StateNotSaved": "ConfigMap ballast-state cannot be written.",
    "TelemetryDegraded": "Queries fail; what is known ages.",
    "UnmatchedSeries": "Series name no node of the cluster, or several.",
}
"""{type: what holds while it is True}."""
