"""The log as the process had it, for tests that set it up anew."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def log_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()
