"""What strategies refuse to calculate with."""

from typing import Any

import pytest

from ballast.base.errors import UsageError
from ballast.scoring.keys import StrategyKeys
from ballast.scoring.strategy import strategy


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("low-risk", {"smoothing_window_size": 1e308}),
        ("blend", {"weights": {"load-variation": 1e308, "least-allocated": 1e308}}),
        ("dominant-residual", {"profiles": [{"requests": {"cpu": 1}, "weight": 1e308}] * 2}),
        ("dominant-residual", {"profiles": [{"requests": {"cpu": "-1"}}]}),
        ("target-load", {"default_requests": {"cpu": "-1"}}),
    ],
)
def test_numbers_that_cannot_be_calculated_with_are_refused(name: str, keys: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"^{name}: "):
        strategy(name, keys)


def test_the_largest_target_is_said_without_a_lowest_one() -> None:
    with pytest.raises(UsageError, match="give a number of at most 100"):
        strategy("target-load", {"target_utilization": 101})


def test_a_strategy_that_ignores_in_flight_need_not_ask_for_it() -> None:
    keys = StrategyKeys("mine", {"in_flight": "off", "size": 3})
    assert keys.number("size", 1.0) == 3.0
    keys.finish()
    keys = StrategyKeys("mine", {"in_flight": "off", "weight": 3})
    keys.take("size")
    with pytest.raises(UsageError, match=r"The strategy mine has no key weight\. Its keys are size, in_flight\."):
        keys.finish()
