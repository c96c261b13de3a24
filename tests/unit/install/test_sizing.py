"""The memory limit of the chart is what the bounds of all parts add up to."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ballast.runtime import sizing
from ballast.settings import Settings
from ballast.settings.eviction import EvictionSettings
from ballast.settings.plain_parts import BatchSettings
from tests.worlds.chart import ROOT

VALUES = yaml.safe_load((Path(ROOT) / "charts/ballast/values.yaml").read_text())


def test_the_charts_limit_is_the_sum_for_the_documented_size() -> None:
    documented = sizing.limit(sizing.shares(Settings(), *sizing.DOCUMENTED))
    assert VALUES["resources"]["limits"]["memory"] == f"{documented}Mi"


@given(st.integers(1, 20_000), st.integers(0, 500_000))
def test_the_limit_holds_all_shares_and_grows_with_the_cluster(nodes: int, pods: int) -> None:
    settings = Settings()
    found = sizing.shares(settings, nodes, pods)
    assert 0 <= sizing.limit(found) * 2**20 - sum(share.size for share in found) < sizing.STEP
    assert sizing.limit(found) <= sizing.limit(sizing.shares(settings, nodes + 100, pods + 1000))


@pytest.mark.parametrize("eviction", ["off", "dry-run"])
@pytest.mark.parametrize("batch", ["off", "on"])
def test_the_planning_process_counts_where_there_is_one(eviction: str, batch: str) -> None:
    settings = Settings(eviction=EvictionSettings(mode=eviction), batch=BatchSettings(mode=batch))
    named = [share.what for share in sizing.shares(settings, 100, 1000)]
    assert ("the planning process" in named) == (eviction != "off" or batch != "off")
