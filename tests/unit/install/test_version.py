"""One version everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ballast import __version__

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("pyproject.toml", r'^version = "VERSION"$'),
        ("charts/ballast/Chart.yaml", r"^version: VERSION$"),
        ("charts/ballast/Chart.yaml", r"^appVersion: VERSION$"),
        ("Dockerfile", r"^ARG VERSION=VERSION$"),
        ("Makefile", r"^IMAGE \?= ballast:VERSION$"),
        ("README.md", r"make image IMAGE=<registry>/ballast:VERSION PUSH=1 .* ballast:VERSION$"),
        ("charts/ballast/README.md", r"ballast:VERSION PUSH=1$"),
        ("CHANGELOG.md", r"^## VERSION\b"),
    ],
)
def test_every_file_names_the_version_of_the_package(file: str, line: str) -> None:
    pattern = re.sub(r"VERSION(?!=)", re.escape(__version__), line)
    assert re.search(pattern, (ROOT / file).read_text(), re.MULTILINE), pattern
