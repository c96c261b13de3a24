"""Resource versions only rise, unless etcd was restored from a backup. Then everything is listed again."""

import threading
from collections.abc import Callable

import structlog

_log = structlog.get_logger("cluster")


def newer(version: str, than: str) -> bool:
    """Whether a resource version comes after another; versions that are no numbers count as newer unless equal."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than


class Versions:
    """Hears of versions that went back, from any thread, and tells who lists.

    A watch alone does not notice: asked for what came after a version that is not there yet, the server is silent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listing: list[Callable[[], None]] = []
        self.turns = 0
        """How often versions went back: what was known by then of others' writes says nothing any more."""

    def follow(self, list_again: Callable[[], None]) -> None:
        """`list_again` is called at once, in any thread, and must not wait."""
        self._listing.append(list_again)

    def went_back(self, version: str, known: str, what: str) -> bool:
        """Whether `version` of an object or a collection, read after `known` of the same, comes before it."""
        if not (version.isdecimal() and known.isdecimal() and int(version) < int(known)):
            return False
        with self._lock:
            self.turns += 1
            _log.warning(
                f"resource versions of {what} went back from {known} to {version}, as after a restore of etcd; "
                "everything is listed again"
            )
            for list_again in self._listing:
                list_again()
        return True
