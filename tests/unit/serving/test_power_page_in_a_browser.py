"""What the page tells of an absolute budget: draws beside the feed, members over time, learned watts, what is ahead."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ballast.serving.board import Board
from ballast_lab.harness.browser import CHROMIUM, Tab, browser
from tests.worlds import acting
from tests.worlds.board import TIME, serving
from tests.worlds.clock import FakeClock

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]
LEGENDS = (
    "JSON.stringify([...document.querySelectorAll('#power-chart .u-legend .u-label')].map(each => each.textContent))"
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def budget(**changed: Any) -> dict[str, Any]:
    """A policy that measures what it draws, with a schedule and a budget of energy."""
    one = acting.policy("site-a", TIME, budget="absolute", load=3_900.0, over=120.0, unmet_demand=3, **changed)
    one["feed"] |= {"bound": 4_200.0, "consumed": 3_700.0}
    one["draws"] = [[row[0], 50.0 * row[5], 48.0 * row[5], 0.0, index % 4] for index, row in enumerate(one["history"])]
    one["targets"][0] |= {
        "history": [[TIME - 7_000, 10], [TIME - 3_000, 5], [TIME - 900, 8]],
        "watts": {"value": 48.21, "error": 1.44},
    }
    one["schedule"] = [[TIME + 600.0 * step, 4_000.0 - 500 * step] for step in range(1, 6)]
    one["energy"] = {"kwh": 12.0, "used_kwh": 7.25, "ends_in": 7_200.0}
    one["missing_effect"] = "-100 W was predicted, +0 W were measured"
    one["schedule_problem"] = "the file was not found"
    return one


def board(*policies: dict[str, Any]) -> Board:
    """One without nodes, whose overview answers 503."""
    found = Board()
    found.clock = FakeClock(TIME)
    found.power = acting.as_power(acting.power(TIME, *policies))
    return found


@pytest.mark.parametrize("width", [1920, 1280, 390])
def test_draws_members_and_what_is_ahead_are_shown_and_fit(tab: Tab, width: int) -> None:
    tab.look(width, 1400)
    with serving(board(budget())) as port:
        tab.open(f"http://127.0.0.1:{port}/#power")
        power, legends = tab.text("#view-power"), json.loads(tab.run(LEGENDS))
        cut = tab.run("document.querySelector('#power-targets .scroll').scrollWidth") if width >= 1280 else 0
        assert cut <= tab.run("document.querySelector('#power-targets .scroll').clientWidth")
        assert tab.run("document.documentElement.scrollWidth") <= width
        spark = tab.run("document.querySelector('#power-targets .spark').getAttribute('aria-label')")
    assert {"Available", "Drawn as declared", "Drawn as measured", "Schedule"} <= set(legends)
    assert legends[-1] == "Wanted by autoscalers beside"
    assert "Drawn as declared 3,900 W, 120 W over" in power
    assert "Drawn as measured 3,700 W" in power
    assert "Schedule allows 4,200 W" in power
    assert "3,500 W from" in power
    assert "and 2 more" in power
    assert "7.25 of 12 kWh used, the rest is for 2.0 h" in power
    assert "Effect missing. -100 W was predicted" in power
    assert "Schedule. the file was not found" in power
    assert "48.2 ±1.4" in power
    assert "10 since" in spark
    assert spark.endswith("between 5 and 10")
    assert [error for error in tab.errors if "/api/v1/overview" not in error] == []


def test_nothing_is_drawn_of_what_is_not_known(tab: Tab) -> None:
    tab.look(1280)
    with serving(board(acting.policy("site-a", TIME))) as port:
        tab.open(f"http://127.0.0.1:{port}/#power")
        power, legends = tab.text("#view-power"), json.loads(tab.run(LEGENDS))
    assert not {"Drawn as declared", "Drawn as measured", "Schedule", "Wanted by autoscalers beside"} & set(legends)
    for words in ("Schedule ahead", "Energy", "Over time ", "Effect missing"):
        assert words not in power.replace("Over time 1 h", "")
