"""The garbage collector looks at little while the daemon runs, and at all of it now and then."""

import gc
import threading
import weakref

from ballast.cli.run import SETTLE, THOROUGH, rest


class Rounds(threading.Event):
    """Ends after this many rounds; a circle becomes garbage in the first, among what is put aside."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left
        self.alive: list[bool] = []
        self.watched: weakref.ref[threading.Event] | None = None

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout == SETTLE
        if self.watched is None:
            circle = threading.Event()
            circle.itself = circle  # type: ignore[attr-defined]
            self.watched = weakref.ref(circle)
            gc.freeze()
        self.alive.append(self.watched() is not None)
        self.left -= 1
        return self.left < 0


def test_what_stays_is_put_aside_and_looked_at_once_in_many_rounds() -> None:
    rounds = Rounds(THOROUGH)
    try:
        rest(rounds)
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        gc.unfreeze()
    assert rounds.alive == [True] * THOROUGH + [False], "a circle among what stayed lives until the thorough round"
