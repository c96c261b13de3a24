"""One version everywhere."""

import re
from pathlib import Path

import pytest

from ballast import __version__

ROOT = Path(__file__).parents[3]
SEMANTIC = re.sub(r"\.dev\d+$", "-dev", __version__)
"""The version as Helm and images take it."""


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("pyproject.toml", rf'^version = "{re.escape(__version__)}"$'),
        ("charts/ballast/Chart.yaml", r"^version: VERSION$"),
        ("charts/ballast/Chart.yaml", r"^appVersion: VERSION$"),
        ("Dockerfile", r"^ARG VERSION=VERSION$"),
        ("Makefile", r"^IMAGE \?= ballast:VERSION$"),
        ("README.md", r"make image IMAGE=REGISTRY/ballast:VERSION PUSH=1 .* ballast:VERSION$"),
        ("charts/ballast/README.md", r"ballast:VERSION PUSH=1$"),
        ("CHANGELOG.md", rf"^## {re.escape(__version__.partition('.dev')[0])}\b"),
    ],
)
def test_every_file_names_the_version_of_the_package(file: str, line: str) -> None:
    pattern = re.sub(r"VERSION(?!=)", re.escape(SEMANTIC), line)
    assert re.search(pattern, (ROOT / file).read_text(), re.MULTILINE), pattern
