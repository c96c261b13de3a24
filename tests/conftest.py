"""The profile of all properties, the folders whose tests are slow since they talk to a whole simulated cluster, the
priority of planning processes, and what ends sooner here.
"""

import asyncio
import gc
import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn.server
from hypothesis import settings

from tests.properties import PROFILE, examples
from tests.worlds.surroundings import keep_priority

SLOW = [Path(__file__).parent / folder for folder in ("contract", "unit/doctor")]

# uvicorn waits for two tenths of a second before it stops, and tests stop a thousand servers.
uvicorn.server.asyncio = SimpleNamespace(**vars(asyncio) | {"sleep": lambda seconds: asyncio.sleep(seconds / 10)})  # type: ignore[assignment]

settings.register_profile(PROFILE, parent=examples(derandomize=PROFILE == "quick"))
settings.load_profile(PROFILE)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ["TESTS_RENDERED"] = folder = tempfile.mkdtemp()
        config.add_cleanup(lambda: shutil.rmtree(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {path: any(folder in path.parents for folder in SLOW) for path in {item.path for item in items}}
    for item in items:
        if slow[item.path]:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup() -> None:
    keep_priority()


def pytest_collection_finish() -> None:
    """The collector need not look at thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()
