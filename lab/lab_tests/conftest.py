"""The tests of the lab are slow: whole clusters, and whole experiments. Its commands are run as all others."""

from pathlib import Path

import pytest

from tests.worlds.commands import ballast, status
from tests.worlds.surroundings import keep_priority, nowhere

__all__ = ["ballast", "nowhere", "status"]

HERE = Path(__file__).parent


def pytest_runtest_setup() -> None:
    keep_priority()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
