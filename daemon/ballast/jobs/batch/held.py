"""The pods that the gate of Ballast holds, and for how long it has held them."""

from __future__ import annotations

from collections.abc import Iterable

from ballast.actuation.gates import held_by
from ballast.base.clock import Clock
from ballast.model.pod import Pod


class HeldPods:
    """Looks at the pods in every cycle, on every replica. Needs no stored state: pods carry their age.

    A pod that was seen with gates of others is held by ours alone only since those are gone.
    """

    def __init__(self, gate: str, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._first: dict[str, float] = {}
        self._others: set[str] = set()

    def observe(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that nothing but our gate holds, by namespace and name."""
        now = self._clock.monotonic()
        carrying = held_by(self._gate, pods)
        there = {pod.uid for pod in carrying}
        self._first = {uid: at for uid, at in self._first.items() if uid in there}
        self._others &= there
        alone = []
        for pod in carrying:
            if len(pod.gates) > 1:
                self._others.add(pod.uid)
                self._first.pop(pod.uid, None)
            else:
                self._first.setdefault(pod.uid, now)
                alone.append(pod)
        return alone

    def age(self, pod: Pod) -> float:
        """Seconds for which our gate alone has held it: since its creation, or longer if our own clock says so."""
        seen = self._clock.monotonic() - self._first[pod.uid]
        return seen if pod.uid in self._others else max(seen, self._clock.wall() - pod.created)
