"""Where the built binaries are."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tools:
    kubernetes: Path
    etcd_kwok: Path
    prometheus: Path
    trimaran: Path
    metrics_server: Path

    @classmethod
    def find(cls) -> Tools:
        """Builds what is not in the cache yet; RuntimeError with the builder's one line when it cannot."""
        script = Path(__file__).parents[3] / "tests" / "cluster" / "tools" / "build"
        done = subprocess.run([str(script)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return cls(*(Path(line) for line in done.stdout.split()))
