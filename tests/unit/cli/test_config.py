import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ballast.settings.model import VARIABLES
from tests.unit.settings.test_environment import service

Run = Callable[..., int]


@pytest.fixture
def ballast(monkeypatch: pytest.MonkeyPatch, status: Run) -> Run:
    def run(*arguments: str, **environ: str) -> int:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return status(*arguments)

    return run


def test_show_starts_beside_the_services_of_its_own_chart() -> None:
    injected = {**service("ballast", {"http": 2020}), **service("ballast-extender", {"http": 2020})}
    given = {"BALLAST_TELEMETRY__INTERVAL": "1m", "BALLAST_PROMETHEUS__URL": "http://u:hunter2@prometheus:9090"}
    done = subprocess.run(
        [sys.executable, "-m", "ballast", "config", "show", "-o", "json"],
        env={"PATH": "", **injected, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert set(VARIABLES) <= set(rows)
    assert rows["BALLAST_TELEMETRY__INTERVAL"]["value"] == "1m"
    assert rows["BALLAST_TELEMETRY__INTERVAL"]["origin"] == "environment"
    assert rows["BALLAST_HTTP__PORT"] == {"name": "BALLAST_HTTP__PORT", "value": 2020, "origin": "default"}
    assert rows["BALLAST_CLUSTER__KUBECONFIG"]["value"] is None
    assert "hunter2" not in done.stdout


def test_show_prints_a_table_without_cutting_it(ballast: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("config", "show") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "VALUE", "ORIGIN"]
    assert [line.split()[0] for line in lines[2:]] == list(VARIABLES)


def test_show_shows_also_what_cannot_be_used(ballast: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("config", "show", "-o", "json", BALLAST_HTTP__PORT="x", BALLAST_FOO="1") == 2
    out, err = capsys.readouterr()
    assert {"name": "BALLAST_HTTP__PORT", "value": "x", "origin": "environment"} in json.loads(out)
    assert "BALLAST_FOO is not a setting" in err


def test_check_accepts_what_run_would(ballast: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("config", "check", BALLAST_PROMETHEUS__URL="http://prometheus:9090") == 0
    assert capsys.readouterr() == ("The settings can be used.\n", "")


def test_check_prints_warnings(ballast: Run, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"BALLAST_PROMETHEUS__URL": "http://prometheus:9090", "BALLAST_TELEMETRY__INTERVAL": "5m"}
    assert ballast("config", "check", **given) == 0
    assert "warning: The window 15m" in capsys.readouterr().err


def test_check_refuses_what_run_would(ballast: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("config", "check", BALLAST_WINDOWS__LENGTHS="5m,5m") == 2
    err = capsys.readouterr().err
    assert "BALLAST_PROMETHEUS__URL is not set" in err
    assert "each length once" in err


def test_check_reads_the_file(ballast: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ballast.yaml"
    path.write_text("prometheus: {uri: x}")
    assert ballast("config", "check", BALLAST_CONFIG_FILE=str(path)) == 2
    assert "Did you mean prometheus.url?" in capsys.readouterr().err


def test_wrong_use_is_2(ballast: Run) -> None:
    assert ballast("config", "show", "-o", "xml") == 2


def test_check_prints_the_memory_limit_for_a_size(ballast: Run, capsys: pytest.CaptureFixture[str]) -> None:
    url = {"BALLAST_PROMETHEUS__URL": "http://prometheus:9090"}
    assert ballast("config", "check", "--sizing", "100,1000", **url) == 0
    small = capsys.readouterr().out.splitlines()
    assert ballast("config", "check", "--sizing", "20000,300_000", **url) == 0
    large = capsys.readouterr().out.splitlines()
    assert any(line.endswith("telemetry answers in flight") for line in small)
    limits = [int(each[-1].removeprefix("memory limit: ").partition("Mi")[0]) for each in (small, large)]
    assert limits[0] < limits[1]


@pytest.mark.parametrize("size", ["5000", "5000,", "0,1", "-1,5", "1,x", "1,99999999", ",", "1,2,3"])
def test_a_size_that_is_none_is_named(size: str, ballast: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("config", "check", f"--sizing={size}", BALLAST_PROMETHEUS__URL="http://prometheus:9090") == 2
    assert "--sizing" in capsys.readouterr().err


def test_check_names_where_a_policy_stands_and_doubts_its_schedule(
    ballast: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("time,watts\n0,5\n")
    policy = {
        "feed": {"csv": "feed.csv", "unit": "kW"},
        "schedule": {"csv": str(rows)},
        "independents": [{"ref": "shop/api", "max": 100, "wattsPerReplica": 50}],
    }
    given = {"BALLAST_PROMETHEUS__URL": "http://prometheus:9090", "BALLAST_POWER__POLICIES": json.dumps([policy])}
    assert ballast("config", "check", **given) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "POLICIES: " in line]
    assert [warning.split(": ")[:2] for warning in warnings] == [["warning", "BALLAST_POWER__POLICIES"]] * 3
    for words in ("schedule.unit W", "highest row", "no row later than two hours"):
        assert any(words in warning for warning in warnings)
    rows.write_text("time,watts\n0,5\n60,?\n")
    assert ballast("config", "check") == 0
    assert "the schedule cannot be read" in capsys.readouterr().err
    assert ballast("config", "check", BALLAST_POWER__POLICIES='[{"feed": {"csv": "x"}}]') == 2
    assert "BALLAST_POWER__POLICIES: there is nothing to scale" in capsys.readouterr().err
