"""The generated pages are those of the committed results."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_pages_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "experiment_pages.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stderr
