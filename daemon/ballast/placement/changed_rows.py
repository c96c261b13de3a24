"""The rows of a fleet that changed, each once: as many as there are nodes, however long no snapshot comes."""

import numpy as np

from ballast.model.sample import Ints


class ChangedRows:
    """`count` is the number of changes so far; who has read up to a count asks for what came `since`."""

    def __init__(self) -> None:
        self.count = 0
        self._last: dict[int, int] = {}

    def note(self, row: int) -> None:
        """The row has changed."""
        self.count += 1
        # Taken out first: the dict stays in the order of the last changes.
        self._last.pop(row, None)
        self._last[row] = self.count

    def since(self, count: int) -> Ints:
        """Those that changed after the first `count` changes, the latest first."""
        rows = list[int]()
        for row, last in reversed(self._last.items()):
            if last <= count:
                break
            rows.append(row)
        return np.array(rows, np.int64)
