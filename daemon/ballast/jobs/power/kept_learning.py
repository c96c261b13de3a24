"""What a meter has taught of one policy, kept in `ballast-state`: a start goes on with it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import structlog

from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.state import StateStore as Keys
from ballast.power.learned_watts import WattsLearner
from ballast.power.learning import Learning

EVERY = 600.0
"""Seconds between two saves at least, and what a crash may lose of what was learned."""
KEY = "power.learned."
"""Before the name of a policy."""

log = structlog.get_logger("ballast.power")


class KeptLearning:
    """`keys` keep what the `learner` knows; None: nothing does."""

    def __init__(self, policy: str, learner: WattsLearner, keys: Keys | None) -> None:
        self._policy, self._learner, self._keys = policy, learner, keys
        self._key = f"{KEY}{policy}"
        self._known = keys is None
        self._saved: Learning | None = None
        self._tried = 0.0

    def recall(self, wall: float) -> None:
        """Before the first sample since the start: what was learned before counts, if it is of the same policy."""
        if self._known or self._keys is None:
            return
        try:
            text = self._keys.read().get(self._key)
        except ClusterError:
            return
        self._known = True
        if text is None or self._learner.learned() is not None:
            return
        try:
            learned = msgspec.json.decode(text, type=Learning)
            learned.check()
        except (ValueError, *NOT_JSON) as error:
            self._keys.begin_anew(self._key, text, error)
            return
        self._tried = self._keys.stamps(self._key).past(learned.at)
        seconds = max(0.0, wall - self._tried)
        try:
            self._learner.resume(learned, seconds)
        except ValueError as error:
            log.warning("what was learned of watts is not taken up again", policy=self._policy, problem=str(error))
            return
        self._saved = learned
        log.info("goes on with the watts that were learned before the start", policy=self._policy, seconds=seconds)

    def keep(self, wall: float) -> None:
        """Saves what is known, where it has changed."""
        known = self._learner.saved(wall)
        if self._keys is None or not self._known or known is None or 0 <= wall - self._tried < EVERY:
            return
        if self._saved is not None and not known.differs(self._saved):
            return
        self._tried = wall
        text = msgspec.json.encode(known).decode()

        def change(data: dict[str, str]) -> Mapping[str, str]:
            return {**data, self._key: text}

        try:
            if self._keys.update(change, reason=f"watts learned of power policy {self._policy}").done:
                self._saved = known
        except ClusterError as error:
            log.warning("the watts that were learned cannot be saved", policy=self._policy, problem=str(error))
