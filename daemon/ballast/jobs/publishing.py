"""The job `publishing`: what nodes carry follows the newest snapshot."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from ballast.base.errors import ClusterError
from ballast.cluster.context import Context
from ballast.jobs import sentences
from ballast.jobs.progress import Known
from ballast.model.node import Node
from ballast.publishing.label_plan import LabelPlanner, LabelRules
from ballast.publishing.node_keys import GUARDED, NodeKeys
from ballast.publishing.publisher import PART, STAMPED, Publisher
from ballast.settings import Mode, Settings


class PublishingJob:
    """One round of patches per cycle."""

    def __init__(
        self,
        context: Context,
        between: Callable[[], object] = lambda: None,
        extender_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        """`between` is called between the pieces of a plan; `extender_asked`: whether schedulers ask the extender."""
        self._context, self._extender_asked, self._was_asked = context, extender_asked, False
        settings = context.settings
        keys = NodeKeys.of(settings.publishing.prefix, settings.publishing.label_prefix)
        every = settings.publishing.every(settings.telemetry)
        planner = LabelPlanner(keys, label_rules(settings), f"{context.namespace}/{settings.lease.name}", between)
        self._keys = keys
        self._counting = False
        self.publisher = Publisher(
            context.api, context.writer, context.clock, keys, planner, interval=every, versions=context.cache.versions
        )

    def cycle(self, known: Known) -> str:
        """One round, in a sentence."""
        context, settings = self._context, self._context.settings
        acts = settings.publishing.mode is Mode.ON
        if acts and not self._counting:
            with suppress(ClusterError):  # Labels do not wait for the ledger; the condition StateNotSaved says why.
                self._begin_count(known.snapshot.time)
        result = self.publisher.round(known.snapshot, known.label_scores, known.freeze, context.cache.node)
        if acts and self._counting and (result.planned or self.publisher.patches):
            context.ledger.add_labels(known.snapshot.time, self.publisher.patches)
        context.conditions.report("PublishingFailing", "WriteFailed", result.problem)
        context.conditions.report("Contended", "LabelsChanged", self.publisher.contended(), source="labels")
        context.conditions.report("SecondBallast", "OtherPrefix", _others(self._keys, known.snapshot.nodes))
        context.conditions.report("LabelsOpen", "PrefixOpen", self._open() if acts else None)
        other = self.publisher.others() if acts else None
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

    def _open(self) -> str | None:
        """That kubelets may write what steers pods. Who asks the extender has a profile that reads no labels, also
        while no pods come.
        """
        self._was_asked = self._was_asked or self._extender_asked()
        if self._keys.guarded or self._was_asked:
            return None
        return (
            f"the kubelet of a node may write {self._keys.score} on it, which the profile of `ballast profile labels` "
            f"reads. BALLAST_PUBLISHING__LABEL_PREFIX={GUARDED} keeps kubelets from it."
        )

    def gained(self) -> None:
        """This replica leads from now on."""
        self._counting = False
        self.publisher.forget()

    def _begin_count(self, time: float) -> None:
        """Counts what a leader that died had written and not counted. Raises ClusterError."""
        ledger = self._context.ledger
        until = ledger.labels_until()
        ends = [] if until is None else self.publisher.windows_after(until, self._context.cache.nodes())
        ledger.add_labels(max(ends, default=time - STAMPED if until is None else until), len(ends))
        ledger.save()
        self._counting = True

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
