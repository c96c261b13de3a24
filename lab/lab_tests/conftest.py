"""The tests of the lab are slow: whole clusters, and whole experiments. Its commands are run as all others."""

import sys
from pathlib import Path

import pytest

from ballast.planning import process
from tests.unit.daemon.conftest import nowhere
from tests.worlds.commands import ballast, status

__all__ = ["ballast", "nowhere", "status"]

HERE = Path(__file__).parent

# With the priority of its own it has nothing while tests fill the machine.
process.COMMAND = (sys.executable, "-c", "from ballast.planning.worker import main; main()")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
