import subprocess
from pathlib import Path

import pytest

from tests.worlds.chart import ROOT, Helm


@pytest.fixture(scope="session")
def binaries() -> Path:
    done = subprocess.run([str(ROOT / "scripts" / "helm")], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


@pytest.fixture(scope="session", params=["3", "4"], ids=["helm3", "helm4"])
def helm(binaries: Path, request: pytest.FixtureRequest) -> Helm:
    return Helm(binaries / request.param / "helm")


@pytest.fixture(scope="session")
def helm4(binaries: Path) -> Helm:
    return Helm(binaries / "4" / "helm")
