"""What scripts write into the chart is in step with what they read."""

import json
import subprocess
import sys

import pytest
import yaml

from tests.worlds.chart import CHART, ROOT

pytestmark = pytest.mark.slow


def test_the_values_schema_follows_the_settings() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "values_schema.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", ["values_readme.py", "scheduler_profiles.py"])
def test_what_is_generated_is_in_step(script: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_tells_of_every_value() -> None:
    told = (CHART / "README.md").read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [name for name in values if f"`{name}" not in told] == []


def test_the_schema_describes_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema["properties"]) == set(values)
    for name, value in values.items():
        if isinstance(value, dict) and "properties" in schema["properties"][name]:
            assert set(value) <= set(schema["properties"][name]["properties"]), name
