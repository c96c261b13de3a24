"""When evictions may happen."""

import json
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import GateRules
from ballast.eviction.time_windows import TimeWindow, closed
from ballast.model.cron import Cron
from ballast.planning.from_settings import rules_of
from ballast.settings import examine
from tests.worlds.shop import NOW, Shop

AMSTERDAM = ZoneInfo("Europe/Amsterdam")
NIGHTS = TimeWindow(denies=False, cron=Cron.parse("0 22 * * mon-fri"), duration=8 * 3600.0, zone=AMSTERDAM)
PEAK = TimeWindow(True, Cron.parse("0 1 * * *"), 3600.0, AMSTERDAM, frozenset({"rebalance"}))
ALWAYS_DENIED = TimeWindow(True, Cron.parse("* * * * *"), 3600.0, AMSTERDAM)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=AMSTERDAM).timestamp()


def opens(windows: tuple[TimeWindow, ...], text: str, planner: str = "relieve") -> str | None:
    waits = closed(windows, planner, at(text))
    if waits is None:
        return "open"
    return None if waits.until is None else f"{datetime.fromtimestamp(waits.until, AMSTERDAM):%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("windows", "now", "planner", "expected"),
    [
        ((), "2025-06-02T12:00", "relieve", "open"),
        ((NIGHTS,), "2025-06-02T12:00", "relieve", "06-02 22:00"),
        ((NIGHTS,), "2025-06-02T22:00", "relieve", "open"),
        ((NIGHTS,), "2025-06-03T05:59", "relieve", "open"),
        ((NIGHTS,), "2025-06-03T06:00", "relieve", "06-03 22:00"),
        ((NIGHTS,), "2025-06-07T12:00", "relieve", "06-09 22:00"),
        # On the night on which clocks go back, eight hours end at 05:00.
        ((TimeWindow(False, Cron.parse("0 22 * * *"), 8 * 3600.0, AMSTERDAM),), "2025-10-26T04:59", "relieve", "open"),
        (
            (TimeWindow(False, Cron.parse("0 22 * * *"), 8 * 3600.0, AMSTERDAM),),
            "2025-10-26T05:00",
            "relieve",
            "10-26 22:00",
        ),
        ((NIGHTS, PEAK), "2025-06-03T01:30", "relieve", "open"),
        ((NIGHTS, PEAK), "2025-06-03T01:30", "rebalance", "06-03 02:00"),
        ((PEAK,), "2025-06-03T12:00", "rebalance", "open"),
        ((PEAK,), "2025-06-03T01:00", "rebalance", "06-03 02:00"),
        ((ALWAYS_DENIED, NIGHTS), "2025-06-03T01:00", "relieve", None),
        # The opening of one is denied by the other until later.
        (
            (NIGHTS, TimeWindow(True, Cron.parse("30 21 * * *"), 3600.0, AMSTERDAM)),
            "2025-06-02T12:00",
            "relieve",
            "06-02 22:30",
        ),
    ],
)
def test_when_it_opens(windows: tuple[TimeWindow, ...], now: str, planner: str, expected: str | None) -> None:
    assert opens(windows, now, planner) == expected


def test_an_allowed_time_of_another_planner_closes_nothing() -> None:
    of_rebalance = TimeWindow(False, Cron.parse("0 22 * * *"), 3600.0, AMSTERDAM, frozenset({"rebalance"}))
    assert opens((of_rebalance,), "2025-06-02T12:00", "relieve") == "open"
    assert opens((of_rebalance,), "2025-06-02T12:00", "rebalance") == "06-02 22:00"


def test_the_check_says_when_it_opens() -> None:
    later = datetime.fromtimestamp(NOW + 7200, ZoneInfo("UTC"))
    cron = Cron.parse(f"{later.minute} {later.hour} * * *")
    rules = GateRules(windows=(TimeWindow(False, cron, 60.0, ZoneInfo("UTC")),), planner="relieve")
    gate: Gate = Shop(rules=rules).gate()
    refusal = gate.judge(Shop().pod)
    assert refusal is not None
    assert (refusal.check, refusal.reason) == ("window", f"outside its windows; opens at {later:%Y-%m-%d %H:%M} UTC")


ONE = {"allow": "0 22 * * mon-fri", "duration": "8h", "timezone": "Europe/Amsterdam", "planners": ["relieve"]}


def test_the_setting_is_a_json_list() -> None:
    findings = examine({"BALLAST_EVICTION__WINDOWS": json.dumps([ONE, {"deny": "0 0 25 12 *", "duration": "1d"}])})
    assert findings.problems == ()
    allowed, denied = rules_of(findings.settings).windows
    assert allowed == TimeWindow(False, NIGHTS.cron, 8 * 3600.0, AMSTERDAM, frozenset({"relieve"}))
    assert (denied.denies, denied.duration, denied.zone.tzname(None), denied.planners) == (
        True,
        86_400.0,
        ZoneInfo("UTC").tzname(None),
        frozenset(),
    )
    assert rules_of(examine({}).settings).windows == ()


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ({"duration": "8h"}, "one of allow and deny"),
        ({**ONE, "deny": "0 0 * * *"}, "one of allow and deny"),
        ({"allow": "0 22 * * *"}, "duration is missing"),
        ({**ONE, "duration": "0s"}, "longer than 0"),
        ({**ONE, "duration": "8 hours"}, "a duration such as"),
        ({**ONE, "allow": "0 25 * * *"}, "'25' is no hour: 0 to 23"),
        ({**ONE, "timezone": "Mars/Base"}, "a timezone of the IANA database"),
        ({**ONE, "timezone": "../etc/passwd"}, "a timezone of the IANA database"),
        ({**ONE, "planners": ["relief"]}, "expected planners"),
        ({**ONE, "planners": "relieve"}, "expected planners"),
        ({**ONE, "zone": "UTC"}, "there is no zone"),
        ("0 22 * * *", "expected windows such as"),
    ],
)
def test_what_is_no_window_is_refused_with_the_setting_and_what_is_allowed(window: object, says: str) -> None:
    [problem] = examine({"BALLAST_EVICTION__WINDOWS": json.dumps([window])}).problems
    assert problem.startswith("BALLAST_EVICTION__WINDOWS")
    assert says in problem
