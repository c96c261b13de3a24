"""Restores the caps of autoscalers whose target is no longer in any policy."""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.state import StateStore as Keys
from ballast.cluster.write import Result, WriteOutcome
from ballast.jobs.power import falls, kept_learning
from ballast.power.policy import PowerPolicy
from ballast.telemetry.feeds import power_schedule

KEY = "power.left"
_KINDS = ("power.state.", "power.plan.", "power.shadow.", falls.KEY, kept_learning.KEY, power_schedule.KEY)
_OVER = (Result.DONE, Result.GONE)
PAUSE = 20
"""Cycles from a failed write to the next attempt; the rights may be gone together with the last target."""


class DepartedTargets:
    """Targets known from `ballast-state` that are in no policy; other caps may belong to another Ballast.

    `restore` gives back the caps of targets (namespace/name). Key `power.left` lists them until that is done.
    """

    def __init__(
        self, keys: Keys, policies: Sequence[PowerPolicy], restore: Callable[[Collection[str]], Sequence[WriteOutcome]]
    ) -> None:
        self._keys = keys
        self._policies = frozenset(policy.name for policy in policies)
        self._targets = frozenset(name for policy in policies for name in policy.places)
        self._restore = restore
        self._left: frozenset[str] | None = None
        self._problem: str | None = None
        self._pause_left = 0

    def forget(self) -> None:
        """Drops what is known after a change of leader; the saved keys are read again."""
        self._left, self._problem, self._pause_left = None, None, 0

    def cycle(self) -> str | None:
        """Restores caps, before the policies are followed; returns the problem, or None. Tried again until done."""
        self._pause_left -= 1
        if self._pause_left < 0:
            self._problem = self._attempt()
        return self._problem

    def _attempt(self) -> str | None:
        try:
            if self._left is None:
                self._left = self._find_departed()
            if not self._left:
                return None
            failed = [outcome for outcome in self._restore(self._left) if outcome.result not in _OVER]
            if failed:
                self._pause_left = PAUSE
                return (
                    f"the cap of {failed[0].write.target}, which is no longer in any policy, is not given back: "
                    f"{failed[0].reason} Allow the write, or run ballast release."
                )
            self._save(frozenset())
            self._left = frozenset()
        except ClusterError as error:
            return f"caps of targets that left the policies are not given back: {error}"
        return None

    def _find_departed(self) -> frozenset[str]:
        """The departed targets, saved before the keys of their policies are removed. Raises ClusterError."""
        data = self._keys.read()
        known = {name for key, text in data.items() if key.startswith((KEY, *_KINDS[:2])) for name in _names(text)}
        left = frozenset(known - self._targets)
        self._save(left)
        return left

    def _save(self, left: frozenset[str]) -> None:
        def change(keys: dict[str, str]) -> Mapping[str, str]:
            rest = {key: text for key, text in keys.items() if key != KEY and not self._of_a_policy_that_left(key)}
            return {**rest, KEY: msgspec.json.encode(sorted(left)).decode()} if left else rest

        outcome = self._keys.update(change, reason="targets that left the power policies")
        if not outcome.done:
            raise ClusterError(outcome.reason)

    def _of_a_policy_that_left(self, key: str) -> bool:
        return any(key.startswith(kind) and key.removeprefix(kind) not in self._policies for kind in _KINDS)


class _Last(msgspec.Struct):
    last: dict[str, int] = {}


class _SavedPlan(msgspec.Struct):
    """A record or a plan of a policy."""

    state: _Last = msgspec.field(default_factory=_Last)
    replicas: dict[str, int] = {}


def _names(text: str) -> Collection[str]:
    """Namespace/name of the targets in a saved record or plan; none where it cannot be decoded."""
    try:
        saved = msgspec.json.decode(text, type=list[str] | _SavedPlan)
    except NOT_JSON:
        return ()
    return saved if isinstance(saved, list) else {**saved.state.last, **saved.replicas}
