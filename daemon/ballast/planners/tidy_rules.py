"""Which pods are to be removed because they failed, are old, or restart again and again."""

from dataclasses import dataclass

from ballast.model.pod import Pod
from ballast.model.selector import Selector

HOUR = 3600.0


@dataclass(frozen=True)
class TidyRules:
    """Seconds and counts; None: pods are not removed for that."""

    failed_after: float | None = None
    """Age from which a failed pod is removed."""
    oldest: float | None = None
    """Age above which a pod is removed, if its labels match `of` where that is set."""
    of: Selector | None = None
    restarts: int | None = None
    """Restarts of all its containers from which a pod is removed."""

    def reason(self, pod: Pod, now: float) -> str | None:
        """Why the pod is to be removed at `now` (Unix seconds), or None."""
        age = now - pod.created if pod.created > 0 else 0.0
        if pod.phase == "Failed":
            return "it has failed" if self.failed_after is not None and age >= self.failed_after else None
        if pod.finished or pod.deleting:
            return None
        if self.restarts is not None and pod.restarts >= self.restarts:
            return f"its containers have restarted {pod.restarts:,} times"
        if self.oldest is not None and age > self.oldest and (self.of is None or self.of.matches(pod.labels)):
            return f"it is {age / HOUR:,.1f} h old, more than {self.oldest / HOUR:,.1f} h"
        return None


NOTHING = TidyRules()
