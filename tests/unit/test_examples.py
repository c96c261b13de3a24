"""The example package: found by its entry points, and shown by the documentation as it is."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ballast.settings import load
from ballast.telemetry.queries import questions

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "extensions"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder as an installer leaves it for the example package."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "ballast_example-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))
    (tmp_path / "ballast_example").symlink_to(EXAMPLE / "ballast_example")
    return tmp_path


def test_the_preset_is_asked_by_its_name(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))
    given = {"PRESET": "telegraf", "MATCHERS": 'job="t"'}
    environment = {f"BALLAST_PROMETHEUS__{name}": value for name, value in given.items()}
    found = questions(load(environment | {"BALLAST_TELEMETRY__NODE_LABEL": "host"}))
    assert [(each.resource, each.query) for each in found.asked] == [
        ("cpu", 'max by (host, cluster) (1 - cpu_usage_idle{cpu="cpu-total",job="t"} / 100)'),
        ("memory", 'max by (host, cluster) (mem_used_percent{job="t"} / 100)'),
    ]
    assert found.freshness == ('max by (host, cluster) (timestamp(mem_used_percent{job="t"}))',)


def test_a_resource_that_the_preset_lacks_is_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))
    settings = load({"BALLAST_PROMETHEUS__PRESET": "telegraf", "BALLAST_TELEMETRY__RESOURCES": "cpu,disk"})
    assert list(questions(settings).problems) == ["disk"]


def test_the_check_is_the_last_row_and_decides(site: Path) -> None:
    program = """
from ballast.eviction.gate import NAMES
from tests.worlds.shop import Shop
print(NAMES[-1])
for role in ("primary", "replica"):
    verdict = Shop().with_pod(labels={"app": "web", "example.com/role": role}).verdict("primary")
    print(verdict.allowed, verdict.reason)
"""
    path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout.splitlines() == ["primary", "False the pod is a primary", "True the pod's role is replica"]


def test_the_documentation_shows_the_example_as_it_is() -> None:
    document = (ROOT / "docs" / "extending.md").read_text()
    for name in ("pyproject.toml", *(f"ballast_example/{part}.py" for part in ("strategy", "check", "preset"))):
        lines = (EXAMPLE / name).read_text().splitlines()
        assert "\n".join([f"+++ b/{name}", *(f"+{line}" for line in lines)]) in document
