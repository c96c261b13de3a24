"""What a schedule that is a query told last is in force until a new process can ask it."""

import json
from collections.abc import Iterable

import pytest

from ballast.power.policy import PowerPolicy
from ballast.telemetry.feeds import power_schedule
from ballast.telemetry.feeds.power_feed import PowerSample
from ballast.telemetry.feeds.power_schedule import ScheduleReader
from tests.worlds.power_run import CrashPoint, Keys

KEY = "power.schedule.power"
START = 1_700_000_000.0


class Unread(Keys):
    """It hears what cannot be read."""

    def begin_anew(self, key: str, text: str, error: Exception) -> None:
        self.data[f"unreadable.{key}"] = text


def bounds(
    monkeypatch: pytest.MonkeyPatch, keys: Keys, told: Iterable[float | None], start: float = START
) -> list[tuple[float | None, str | None]]:
    """A new process asks a minute apart: what it goes by, and what is wrong."""
    answers = iter(told)
    told = list(told)

    class Feed:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def read(self, at: float) -> PowerSample:
            watts = next(answers)
            return PowerSample(watts, at, None if watts is not None else "no value", "")

    monkeypatch.setattr(power_schedule, "PrometheusFeed", Feed)
    one = PowerPolicy.model_validate({"schedule": {"query": "w"}, "independents": [{"ref": "ns/a", "max": 1}]})
    reader, found = ScheduleReader(one, object(), keys), []  # type: ignore[arg-type]
    for number in range(len(told)):
        row = reader.lowest(start + 60 * number)
        found.append((None if row is None else float(row.watts), reader.problem))
    return found


def test_a_start_that_cannot_ask_goes_by_the_last_level_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(CrashPoint())
    bounds(monkeypatch, keys, [5000.0, 1300.0, 1300.0])
    found = bounds(monkeypatch, keys, [None, None, 4000.0, None], START + 3600)
    assert [watts for watts, _ in found] == [1300, 1300, 4000, 4000]
    assert all("saved before the start are in force" in (why or "") for _, why in found[:2])
    assert found[2][1] is None


def test_a_level_that_jitters_is_saved_once_and_never_above_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(CrashPoint())
    bounds(monkeypatch, keys, [1000.0 + number % 7 for number in range(50)])
    assert keys.writes == 1
    bounds(monkeypatch, keys, [1000.0, 980.0, 960.0, *[1500.0] * 10])
    ((watts, _),) = bounds(monkeypatch, keys, [None])
    assert watts == 1500


def test_a_level_that_swings_is_seldom_written_and_its_low_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(CrashPoint())
    bounds(monkeypatch, keys, [1000.0 if number % 2 else 800.0 for number in range(60)])
    assert keys.writes <= 2 * 6 + 1
    bounds(monkeypatch, keys, [1000.0, 800.0, 1000.0])
    assert bounds(monkeypatch, keys, [None])[0][0] == 800


def test_a_query_goes_by_the_lowest_of_rows_that_a_file_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that lie ahead it is not known when they hold: a query tells of now."""
    rows = [[str(START + 3600 * number), str(watts), None, None] for number, watts in enumerate((900, 400, 7000))]
    keys = Keys(CrashPoint(), {KEY: json.dumps(rows)})
    assert bounds(monkeypatch, keys, [None], START + 60)[0][0] == 400


def test_a_level_of_before_the_start_is_no_ground_for_a_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(CrashPoint())
    bounds(monkeypatch, keys, [5000.0])
    monkeypatch.setattr(power_schedule, "PrometheusFeed", lambda *_, **__: _Never())
    one = PowerPolicy.model_validate({"schedule": {"query": "w"}, "independents": [{"ref": "ns/a", "max": 1}]})
    reader = ScheduleReader(one, object(), keys)  # type: ignore[arg-type]
    row = reader.lowest(START + 86_400)
    assert (row is not None and row.watts, reader.forecast) == (5000, None)


def test_a_new_leader_saves_what_it_could_not_save_before(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(CrashPoint(), broken="another one leads")
    monkeypatch.setattr(power_schedule, "PrometheusFeed", lambda *_, **__: _Always())
    one = PowerPolicy.model_validate({"schedule": {"query": "w"}, "independents": [{"ref": "ns/a", "max": 1}]})
    reader = ScheduleReader(one, object(), keys)  # type: ignore[arg-type]
    reader.lowest(START)
    keys.broken = ""
    reader.lowest(START + 60)
    assert KEY not in keys.data
    reader.forget()
    reader.lowest(START + 120)
    assert KEY in keys.data


class _Never:
    def read(self, at: float) -> PowerSample:
        return PowerSample(None, at, "no value", "")


class _Always:
    def read(self, at: float) -> PowerSample:
        return PowerSample(900.0, at)


def test_rows_that_cannot_be_read_are_kept_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ('{"version": 2, "rows": []}', '[["1", "-5", null, null]]', '[["1", "nan", null, null]]'):
        keys = Unread(CrashPoint(), {KEY: text})
        assert bounds(monkeypatch, keys, [None])[0][0] is None
        assert keys.data[f"unreadable.{KEY}"] == text
