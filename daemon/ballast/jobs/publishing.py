"""The job `publishing`: what nodes carry follows the newest snapshot."""

from collections.abc import Iterable

from ballast.cluster.context import Context
from ballast.jobs import sentences
from ballast.jobs.progress import Known
from ballast.model.node import Node
from ballast.publishing.label_plan import LabelPlanner, LabelRules
from ballast.publishing.node_keys import NodeKeys
from ballast.publishing.publisher import PART, Publisher
from ballast.settings import Mode, Settings


class PublishingJob:
    """One round of patches per cycle."""

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        keys = NodeKeys.of(settings.publishing.prefix)
        every = settings.publishing.every(settings.telemetry)
        planner = LabelPlanner(keys, label_rules(settings), f"{context.namespace}/{settings.lease.name}")
        self._keys = keys
        self.publisher = Publisher(context.api, context.writer, context.clock, keys, planner, interval=every)

    def cycle(self, known: Known) -> str:
        """One round, in a sentence."""
        context, settings = self._context, self._context.settings
        result = self.publisher.round(known.snapshot, known.label_scores, known.freeze, context.cache.node)
        context.conditions.report("PublishingFailing", "WriteFailed", result.problem)
        context.conditions.report("Contended", "LabelsChanged", self.publisher.contended(), source="labels")
        context.conditions.report("SecondBallast", "OtherPrefix", _others(self._keys, known.snapshot.nodes))
        other = self.publisher.others() if settings.publishing.mode is Mode.ON else None
        context.conditions.report("SecondBallast", "SameNodes", other, source="identity")
        return sentences.publishing_sentence(
            result,
            known.snapshot,
            known.freeze,
            settings.publishing,
            settings.telemetry,
            context.clock.monotonic(),
            paused=context.switches.paused(PART),
        )

    def stop(self) -> None:
        """Ends a round after the write under way."""
        self.publisher.stop()


def _others(keys: NodeKeys, nodes: Iterable[Node]) -> str | None:
    """Under which prefixes nodes have scores that are not ours; numbers would change from cycle to cycle."""
    others = keys.others(nodes)
    return f"nodes have scores under {', '.join(others)} too" if others else None


def label_rules(settings: Settings) -> LabelRules:
    """What the settings say about labels."""
    publishing = settings.publishing
    return LabelRules(
        low=publishing.low,
        high=publishing.high,
        overloaded=publishing.overloaded,
        hysteresis=publishing.class_hysteresis,
        refresh=publishing.refresh,
        jitter=publishing.jitter,
        forget_after=publishing.forget_after,
        interval=max(publishing.every(settings.telemetry), settings.telemetry.interval),
        taint=publishing.taint,
        load_taint=publishing.load_taint,
    )
