"""The profile of all properties, and the folders whose tests are slow since they talk to a whole simulated cluster."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.properties import PROFILE, examples

SLOW = [Path(__file__).parent / folder for folder in ("contract", "unit/doctor")]

settings.register_profile(PROFILE, parent=examples(derandomize=PROFILE == "quick"))
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in SLOW):
            item.add_marker(pytest.mark.slow)
