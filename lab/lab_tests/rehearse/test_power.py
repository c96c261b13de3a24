"""Power policies in a rehearsal: recorded feeds, and what the daemon's controller would have made of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from lab_tests.rehearse.worlds import BEGIN, RecordedPod, World
from tests.worlds.commands import Run

POLICY = {
    "name": "site",
    "budget": "absolute",
    "feed": {"query": "site_watts", "semantics": "available"},
    "independents": [{"ref": "default/web", "min": 1, "max": 4, "wattsPerReplica": 100}],
}


def write(
    folder: Path, minutes: int = 60, feed: str = "site", watts: Any = lambda minute: 250, grams: str | None = None
) -> Path:
    """Four replicas of 100 W, and a row of the feed a minute."""
    World([RecordedPod(f"web-{number}", "n1") for number in range(4)], minutes=minutes).write(folder)
    rows = [
        f"{BEGIN + 60 * minute},{feed},{watts(minute)}" + ("" if grams is None else f",{grams}")
        for minute in range(minutes + 1)
    ]
    head = "time,policy,watts" if grams is None else "time,policy,watts,intensity"
    (folder / "feeds.csv").write_text("\n".join([head, *rows, ""]))
    return folder


@pytest.fixture
def run(ballast: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("BALLAST_POWER__POLICIES", json.dumps([POLICY]))
    monkeypatch.setenv("BALLAST_PROMETHEUS__URL", "http://prometheus.example:9090")

    def rehearse(*arguments: object) -> Any:
        return ballast("rehearse", *arguments)

    return rehearse


def document(run: Run, folder: Path) -> Any:
    code, out, err = run("--recording", folder, "-o", "json")
    assert code == 0, err
    return json.loads(out)


def powers(found: Any) -> dict[str, Any]:
    return {each["name"]: each["power"] for each in found["runs"]}


def test_what_was_drawn_above_the_feed_and_what_a_policy_leaves_of_it(run: Run, tmp_path: Path) -> None:
    by_run = powers(document(run, write(tmp_path)))
    was, today = by_run["as-it-was"], by_run["today"]
    assert was == {"over_watt_hours": 150.0, "over_share": 1.0, "energy_kwh": 0.4}
    assert by_run["low-node-utilization"] is None
    assert today["over_watt_hours"] == today["over_share"] == 0.0
    assert today["energy_kwh"] == pytest.approx(0.2, abs=0.01)
    assert today["actions"] >= 1


def test_energy_has_its_carbon_where_the_feed_has_intensities(run: Run, tmp_path: Path) -> None:
    by_run = powers(document(run, write(tmp_path, grams="300")))
    assert by_run["as-it-was"]["grams"] == pytest.approx(0.4 * 300)
    assert by_run["today"]["grams"] == pytest.approx(300 * by_run["today"]["energy_kwh"], rel=0.01)


def test_energy_has_its_carbon_by_the_schedule(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour of 400 g/kWh, then of 100; before its first row nothing is known, so there are no grams."""
    for begin, expected in ((BEGIN, pytest.approx(0.2 * 400 + 0.2 * 100)), (BEGIN + 600, None)):
        (tmp_path / "carbon.csv").write_text(f"time,watts\n{begin},400\n{BEGIN + 1800},100\n")
        schedule = {"csv": str(tmp_path / "carbon.csv"), "as": "carbon"}
        policy = {**POLICY, "energy": {"kWh": 5}, "schedule": schedule}
        monkeypatch.setenv("BALLAST_POWER__POLICIES", json.dumps([policy]))
        assert powers(document(run, write(tmp_path)))["as-it-was"].get("grams") == expected


def test_the_summary_says_what_was_above_the_feed(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("--recording", write(tmp_path))
    assert "; 150 Wh above the power feed." in out
    assert "; 0 Wh above the power feed." in out


def test_a_policy_without_a_recorded_feed_is_named(run: Run, tmp_path: Path) -> None:
    found = document(run, write(tmp_path, feed="other"))
    assert set(powers(found).values()) == {None}
    assert {"what": "power policy site: its feed is not recorded", "share": 1.0} in found["unknown"]


def test_a_damaged_feed_is_refused(run: Run, tmp_path: Path) -> None:
    code, _, err = run("--recording", write(tmp_path, watts=lambda minute: "much"))
    assert code == 1
    assert "watts 'much' are no numbers" in err
