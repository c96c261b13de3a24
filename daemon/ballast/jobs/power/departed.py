"""Targets that have left all policies: whose caps Ballast still holds gets them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from ballast.cluster.state import StateStore as Keys
from ballast.cluster.write import Result, WriteOutcome
from ballast.errors import ClusterError
from ballast.power.policy import PowerPolicy

KEY = "power.left"
_KINDS = ("power.state.", "power.plan.", "power.shadow.")
_OVER = (Result.DONE, Result.GONE)
PAUSE = 20
"""Cycles from a write that failed to the next attempt: it may be the rights that are gone with the last target."""


class DepartedTargets:
    """`restore` gives back the caps of the targets (namespace/name) it gets.

    Only of what is in `ballast-state` and in no policy: another Ballast in the cluster may have caps of its own. Who is
    to get a cap back stands under `power.left` until it is done.
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
        self._waits = 0

    def forget(self) -> None:
        """After a change of leader: what is stored counts."""
        self._left, self._problem, self._waits = None, None, 0

    def cycle(self) -> str | None:
        """Before the policies are followed; what is wrong, if something is. Tried again until it is done."""
        self._waits -= 1
        if self._waits < 0:
            self._problem = self._attempt()
        return self._problem

    def _attempt(self) -> str | None:
        try:
            if self._left is None:
                self._left = self._noted()
            if not self._left:
                return None
            failed = [each for each in self._restore(self._left) if each.result not in _OVER]
            if failed:
                self._waits = PAUSE
                return (
                    f"the cap of {failed[0].write.target}, which is in no policy any more, is not given back: "
                    f"{failed[0].reason} Allow it, or run ballast release."
                )
            self._note(frozenset())
            self._left = frozenset()
        except ClusterError as error:
            return f"caps of targets that left the policies are not given back: {error}"
        return None

    def _noted(self) -> frozenset[str]:
        """Who has left, written down before the policies forget them. Raises ClusterError."""
        data = self._keys.read()
        known = {name for key, text in data.items() if key.startswith((KEY, *_KINDS[:2])) for name in _names(text)}
        left = frozenset(known - self._targets)
        self._note(left)
        return left

    def _note(self, left: frozenset[str]) -> None:
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


class _Stored(msgspec.Struct):
    """A record or a plan of a policy."""

    state: _Last = msgspec.field(default_factory=_Last)
    replicas: dict[str, int] = {}


def _names(text: str) -> Collection[str]:
    """Nobody where it cannot be understood."""
    try:
        found = msgspec.json.decode(text, type=list[str] | _Stored)
    except msgspec.DecodeError:
        return ()
    return found if isinstance(found, list) else {**found.state.last, **found.replicas}
