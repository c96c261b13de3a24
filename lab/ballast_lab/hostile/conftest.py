from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from ballast_lab.hostile.victim import cluster


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The settings of a daemon beside a simulated cluster."""
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found
