"""What the demo leaves can be rehearsed."""

import json
import threading
from pathlib import Path

import pytest

from ballast_lab.demo.running import Options, run
from tests.worlds.commands import Run


def test_the_demo_leaves_a_recording_that_can_be_rehearsed(
    ballast: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said: list[str] = []
    folder = tmp_path / "recording"
    run(Options(nodes=12, seconds=0.1, headless=True, record=folder), threading.Event(), said.append)
    assert said[0] == f"recording  {folder}; rehearse it with: ballast rehearse --recording {folder}"
    capsys.readouterr()
    code, out, err = ballast("rehearse", "--recording", folder, "--from", "3h", "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert (document["nodes"], document["pods"]) == (12, 180)
    assert document["runs"][0]["deviation"]["cpu"]["value"] > 0


def test_a_later_demo_takes_the_place_of_an_earlier_recording(tmp_path: Path) -> None:
    for _ in range(2):
        run(Options(nodes=3, seconds=0.1, headless=True, record=tmp_path), threading.Event(), lambda sentence: None)
    assert len(list((tmp_path / "node_usage").iterdir())) == 1
