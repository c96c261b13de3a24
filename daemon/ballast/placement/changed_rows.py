"""The rows of a fleet that changed, each once: as many as there are nodes, however long no snapshot comes."""

import numpy as np

from ballast.model.sample import Ints


class ChangedRows:
    """`count` is the number of changes so far; who has read up to a count asks for what came `since`.

    One thread at a time may `note`. Any may ask beside it: strategies that need no pods score labels without a lock.
    """

    def __init__(self, rows: int = 0) -> None:
        self.count = 0
        self._last: Ints = np.zeros(rows, np.int64)
        """[row]: the number of its last change."""

    def note(self, row: int) -> None:
        """The row has changed."""
        # Before it counts: who reads the count finds the row.
        self._last[row] = self.count + 1
        self.count += 1

    def since(self, count: int) -> Ints:
        """Those that changed after the first `count` changes."""
        return np.flatnonzero(self._last > count)
