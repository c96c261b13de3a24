"""Writes a CycloneDX 1.6 bill of materials of the locked runtime; with `--notices` a table of licences instead."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "run.txt"

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)")


def packages() -> dict[str, str]:
    """{name: version} of the lock."""
    pinned = (_PINNED.match(line) for line in LOCK.read_text().splitlines())
    return {match[1].lower(): match[2] for match in pinned if match}


def licence(name: str) -> str:
    """As the installed package states it."""
    try:
        stated = metadata(name)
    except PackageNotFoundError:
        return "not installed"
    known = [each.rpartition(" :: ")[2] for each in stated.get_all("Classifier") or () if each.startswith("License")]
    first = (stated.get("License") or "").strip().splitlines()
    return stated.get("License-Expression") or ", ".join(known) or (first[0] if first else "unknown")


def bill() -> dict[str, Any]:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    own = {"type": "application", "name": "kube-ballast", "version": version[1], "bom-ref": "kube-ballast"}
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{number}",
            "purl": f"pkg:pypi/{name}@{number}",
            "name": name,
            "version": number,
            "licenses": [{"license": {"name": licence(name)}}],
        }
        for name, number in sorted(packages().items())
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components,
        "dependencies": [{"ref": "kube-ballast", "dependsOn": [each["bom-ref"] for each in components]}],
    }


def notices() -> str:
    rows = [f"| {name} | {version} | {licence(name)} |" for name, version in sorted(packages().items())]
    head = ["# Third-party packages in the image", "", "| package | version | licence |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def main() -> None:
    *flags, target = sys.argv[1:]
    text = notices() if "--notices" in flags else json.dumps(bill(), indent=2) + "\n"
    Path(target).write_text(text)


if __name__ == "__main__":
    main()
