"""What every test finds around it, whatever the machine: no pod, and a planning process that has its share of it."""

import sys

import pytest


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a pod, whatever the machine's environment says."""
    for name in ("POD_NAME", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def keep_priority() -> None:
    """Planning processes keep the priority of the tests: with their own they have nothing while tests fill the machine.

    Only where the test has imported them, so that all others stay independent of every planner.
    """
    planning = sys.modules.get("ballast.planning.process")
    if planning:
        planning.COMMAND = (sys.executable, "-c", f"from {planning.__package__}.worker import main; main()")
