"""The profile of all properties, the folders whose tests are slow since they talk to a whole simulated cluster, and the
priority of the planning process: with its own it has nothing while tests fill the machine.
"""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

from ballast.planning import process
from tests.properties import PROFILE, examples

SLOW = [Path(__file__).parent / folder for folder in ("contract", "unit/doctor")]

process.COMMAND = (sys.executable, "-c", "from ballast.planning.worker import main; main()")

settings.register_profile(PROFILE, parent=examples(derandomize=PROFILE == "quick"))
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in SLOW):
            item.add_marker(pytest.mark.slow)
