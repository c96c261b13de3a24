"""The GitHub Action that rehearses a change of values, and the entries for k9s."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ballast.cli.app import app
from lab_tests.rehearse.worlds import hot_world

CONTRIB = Path(__file__).resolve().parents[3] / "contrib"
COMMENT = CONTRIB / "rehearse-action" / "comment.py"


def comment(folder: Path, *options: object) -> subprocess.CompletedProcess[str]:
    before, now = folder / "base.yaml", folder / "values.yaml"
    before.write_text("{}")
    now.write_text(
        yaml.safe_dump({"replicas": 1, "settings": {"eviction": {"mode": "off", "rate": None}, "power": None}})
    )
    command = [sys.executable, COMMENT, before, now, *options]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_change_of_values_is_told_in_a_table(tmp_path: Path) -> None:
    done = comment(tmp_path, "--recording", hot_world(30).write(tmp_path / "recording"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| | as it was | before | this change |" in done.stdout
    moved = next(line for line in done.stdout.splitlines() if line.startswith("| pods moved"))
    _, _, was, before, now, _ = (cell.strip() for cell in moved.split("|"))
    assert (was, now) == ("0", "0")
    assert int(before) > 0
    assert re.search(r"node-hours above 80 % \| [\d.]+ \([\d.]+ to [\d.]+\) \|", done.stdout)


def test_a_fork_without_secrets_is_told_and_succeeds(tmp_path: Path) -> None:
    done = comment(tmp_path)
    assert (done.returncode, "No history can be read here" in done.stdout) == (0, True)


def test_a_rehearsal_that_fails_says_why(tmp_path: Path) -> None:
    done = comment(tmp_path, "--recording", tmp_path / "nowhere")
    assert done.returncode == 1
    assert "The rehearsal failed" in done.stdout
    assert "nowhere" in done.stdout


def test_the_action_calls_what_is_there_with_options_that_exist() -> None:
    action = yaml.safe_load((COMMENT.parent / "action.yml").read_text())
    [step] = action["runs"]["steps"]
    assert "comment.py" in step["run"]
    asked = set(re.findall(r"--(prometheus|recording|from)=", step["run"]))
    assert asked == set(action["inputs"]) - {"values"}
    assert set(re.findall(r"inputs\.(\w+)", str(step["env"]))) == set(action["inputs"])
    assert "${{ inputs" not in step["run"], "an input in a script is code of whoever gives it"


def test_what_k9s_runs_is_a_command_with_options_that_exist() -> None:
    plugins = yaml.safe_load((CONTRIB / "k9s" / "plugins.yaml").read_text())["plugins"]
    for plugin in plugins.values():
        line = plugin["args"][1]
        [name] = re.findall(r"^kubectl-ballast (\w+)", line)
        told = CliRunner().invoke(app, [name, "--help"]).stdout
        assert all(option in told for option in re.findall(r"--\w+", line))
