from collections.abc import Iterator
from importlib import import_module
from unittest.mock import patch

import pytest

from ballast.solving import collisions
from ballast_lab.harness.waiting import HUNG

solve = import_module("ballast.solving.solve")  # the package has a function of this name


@pytest.fixture(autouse=True, scope="session")
def programs_have_time() -> Iterator[None]:
    """A program that a busy machine cuts short would find no placement where there is one."""
    with patch.object(collisions, "_SECONDS", HUNG), patch.object(solve, "_SECONDS", HUNG):
        yield
