import threading
from typing import Any, cast

from structlog.testing import capture_logs

from ballast.base.errors import ClusterError
from ballast.cluster.conditions import SavedConditions
from ballast.runtime.context import ConditionSaver
from tests.unit.cluster.test_following import until


def test_a_defect_is_told_and_the_next_save_is_tried() -> None:
    called = threading.Semaphore(0)
    errors = iter([KeyError("x")])

    class Saved:
        def save(self) -> Any:
            called.release()
            for error in errors:
                raise error

    saving = ConditionSaver(cast(SavedConditions, Saved()), lambda: True)
    with capture_logs() as lines:
        saving.start()
        for _ in range(2):
            saving.ask()
            assert called.acquire(timeout=60)
        assert saving.alive
        saving.stop()
    assert [line["log_level"] for line in lines if "exc_info" in line] == ["error"]
    assert saving.problem is None


def test_a_standby_has_no_trouble_with_saving() -> None:
    leading = [True]

    class Saved:
        def save(self) -> Any:
            raise ClusterError("no")

    saving = ConditionSaver(cast(SavedConditions, Saved()), lambda: leading[0])
    saving.start()
    saving.ask()
    until(lambda: saving.problem == "no")
    leading[0] = False
    saving.ask()
    until(lambda: saving.problem is None)
    saving.stop()
