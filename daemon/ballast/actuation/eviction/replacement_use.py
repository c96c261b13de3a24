"""What replacements use in their first window: the measure of what an eviction moved.

The load of a node tells of everything that happens there, and a source falls by itself, as it was chosen at its peak.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from ballast.actuation.eviction.records import Running, StepRecord
from ballast.model.pod import Pod

Uses = Mapping[str, float]
"""By resource: cores, bytes, and shares of what nodes have."""
Ask = Callable[[Sequence[str]], Mapping[str, Uses]]
"""The use of pods, named namespace/name, as far as it is known now."""


class ReplacementUse:
    """Samples are kept in memory: after a restart those that come from then on count."""

    def __init__(self, ask: Ask, window: float, lag: float) -> None:
        """A sample tells of the `lag` seconds before it; those of the first `window` seconds count."""
        self._ask, self._window, self._lag = ask, window, lag
        self._seen: dict[str, list[Uses]] = {}

    def look(
        self, plans: Iterable[Running], pods: Iterable[Pod], now: float, others: Iterable[str] = ()
    ) -> Mapping[str, Uses]:
        """Once a cycle: takes a sample of each replacement that is in its first window. What was told of these, and of
        `others`, named namespace/name."""
        steps = {step.replacement: step for plan in plans for step in plan.steps if step.replacement}
        self._seen = {uid: samples for uid, samples in self._seen.items() if uid in steps}
        due = {uid for uid, step in steps.items() if self._in_first_window(step, now)}
        names = {f"{pod.namespace}/{pod.name}": pod.uid for pod in pods if pod.uid in due} if due else {}
        about = {*names, *others}
        told = self._ask(sorted(about)) if about else {}
        for name, uses in told.items():
            if name in names:
                self._seen.setdefault(names[name], []).append(uses)
        return told

    def of(self, step: StepRecord) -> Sequence[Uses]:
        """The samples of the step's replacement."""
        return self._seen.get(step.replacement, ())

    def _in_first_window(self, step: StepRecord, now: float) -> bool:
        # Its start-up is no use that was moved. Samples that lie wholly in the window are centred in it.
        return bool(step.ready_at) and self._lag <= now - step.ready_at <= max(self._window, 2 * self._lag)
