"""The other version of Ballast: its packages from git, and the settings that it knows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]


def fetch(revision: str | None, folder: Path) -> Path | None:
    """Unpacks a revision, by default the last tag, and answers where its packages are; None where there is none."""
    revision = revision or _git("describe", "--tags", "--abbrev=0").decode().strip()
    if not revision:
        return None
    packed = folder / "other.tar"
    packed.write_bytes(_git("archive", revision, "daemon"))
    subprocess.run(["tar", "-x", "-f", str(packed), "-C", str(folder)], check=True)
    return folder / "daemon"


def known(source: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the settings that this version has."""
    return {name: value for name, value in settings.items() if name in _names(source)}


@cache
def _names(source: Path) -> frozenset[str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(source)}
    command = [sys.executable, "-m", "ballast", "config", "show", "-o", "json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return frozenset(row["name"] for row in json.loads(done.stdout))


def _git(*arguments: str) -> bytes:
    """Its output; nothing where it fails."""
    return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, check=False).stdout
