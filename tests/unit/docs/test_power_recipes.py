"""Each recipe of docs/power-recipes.md passes `config check` without a word, and reads what its source answers."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ballast.jobs.power.build_power import findings
from ballast.power.policy import PowerPolicy
from ballast.settings import load
from ballast.telemetry.feeds.power_schedule import ScheduleReader
from tests.worlds.http_server import Answer, Request, Server, serving

PAGE = Path(__file__).parents[3] / "docs" / "power-recipes.md"
RECIPES: dict[str, str] = dict(re.findall(r"^## \d+\. ([^\n]+)\n.*?```yaml\n(.*?)```", PAGE.read_text(), re.S | re.M))
SECRETS = "/etc/ballast"
ANSWERS: dict[str, tuple[Any, str, dict[str, float]]] = {
    "Carbon, from Electricity Maps": (
        {
            "zone": "FR",
            "forecast": [
                {"carbonIntensity": 34, "datetime": "2026-11-29T10:00:00.000Z"},
                {"carbonIntensity": 21, "datetime": "2026-11-29T11:00:00.000Z"},
            ],
            "updatedAt": "2026-11-29T09:41:00.000Z",
        },
        "auth-token: secret",
        {"2026-11-29T10:30": 34, "2026-11-29T11:10": 21},
    ),
    "Day-ahead prices": (
        [
            {
                "SEK_per_kWh": 0.34,
                "EUR_per_kWh": 0.03,
                "EXR": 11.3,
                "time_start": "2026-11-29T11:00:00+01:00",
                "time_end": "2026-11-29T12:00:00+01:00",
            },
            {"SEK_per_kWh": -0.1, "EUR_per_kWh": -0.01, "EXR": 11.3, "time_start": "2026-11-29T12:00:00+01:00"},
        ],
        "",
        {"2026-11-29T10:30": 0.03, "2026-11-29T11:30": -0.01},
    ),
    "A contract with events": (
        [
            {"time": "2026-11-29T09:00:00Z", "watts": 9000},
            {"time": "2026-11-29T10:00:00Z", "watts": 4000, "id": "event-7"},
        ],
        "secret",
        {"2026-11-29T09:30": 9000, "2026-11-29T10:30": 4000, "2026-11-29T09:59": 4000},
    ),
}


def policy_of(name: str, folder: Path, **replaced: str) -> PowerPolicy:
    """The recipe with its secrets in a folder; nothing may be wrong with it."""
    text = RECIPES[name].replace(SECRETS, str(folder))
    for secret in ("electricitymaps", "grid-token"):
        (folder / secret).write_text(ANSWERS.get(name, (None, "secret", {}))[1])
    for before, after in replaced.items():
        text = re.sub(rf"{before}: \S+", f"{before}: {after}", text)
    path = folder / "ballast.yaml"
    path.write_text(text)
    found = findings(load({"BALLAST_CONFIG_FILE": str(path), "BALLAST_PROMETHEUS__URL": "http://prometheus:9090"}))
    assert (found.problems, found.warnings) == ((), ())
    (policy,) = found.policies
    return policy


def test_there_are_ten() -> None:
    assert len(RECIPES) == 10


@pytest.mark.parametrize("name", RECIPES)
def test_config_check_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    assert policy_of(name, tmp_path).absolute


@pytest.fixture
def server() -> Iterator[Server]:
    def answer(request: Request) -> Answer:
        name = next(name for name in ANSWERS if request.path.endswith(name.split()[0].lower()))
        secret = "secret" in f"{request.headers}"
        return Answer(json.dumps(ANSWERS[name][0]).encode()) if secret or not ANSWERS[name][1] else Answer(status=401)

    with serving(answer) as served:
        yield served


@pytest.mark.parametrize("name", ANSWERS)
def test_a_schedule_reads_what_its_source_answers(name: str, server: Server, tmp_path: Path) -> None:
    policy = policy_of(name, tmp_path, url=f"{server.url}/{name.split()[0].lower()}")
    reader = ScheduleReader(policy, None)
    for moment, expected in ANSWERS[name][2].items():
        at = _seconds(moment)
        row = reader.lowest(at)
        assert reader.problem is None
        assert reader.known is not None
        found = reader.known.mean(Fraction(at), Fraction(at) + 60) if reader.known.priced else row and row.watts
        assert found == pytest.approx(Fraction(expected))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
