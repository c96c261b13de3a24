"""The lines of the recipes that can be copied are settings and PromQL that Ballast accepts."""

import shlex
from collections.abc import Iterator

import promql_parser
import pytest

from ballast.settings import load
from tests.unit.docs.pages import ROOT

PAGES = ("sources.md", "telemetry.md")
BASE = {"BALLAST_PROMETHEUS__URL": "http://prometheus.monitoring:9090"}


def blocks() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Heading and number of every block of shell lines, and the settings in it."""
    for page in PAGES:
        heading = page
        parts = (ROOT / "docs" / page).read_text().split("```")
        for number, part in enumerate(parts):
            if number % 2 == 0:
                heading = next((line for line in reversed(part.splitlines()) if line.startswith("## ")), heading)
            elif part.startswith("sh\n"):
                words = [word.partition("=") for word in shlex.split(part[3:], comments=True)]
                found = [(name, value) for name, _, value in words if name.startswith("BALLAST_")]
                if found:
                    yield f"{page} {heading} {number}", found


BLOCKS = dict(blocks())


def test_every_store_has_its_lines() -> None:
    headings = " ".join(BLOCKS)
    for store in ("VictoriaMetrics", "Thanos", "Mimir", "Google Managed Prometheus", "OpenTelemetry"):
        assert store in headings


@pytest.mark.parametrize("lines", [pytest.param(found, id=name) for name, found in BLOCKS.items()])
def test_settings_to_copy_are_accepted(lines: list[tuple[str, str]]) -> None:
    names = [name for name, _ in lines]
    alternatives = [dict([line]) for line in lines if names.count(line[0]) > 1]
    for chosen in (dict(lines), *alternatives):
        settings = load(BASE | chosen)
        for resource in settings.telemetry.resources:
            for text in (resource.query, resource.freshness):
                if text is not None:
                    promql_parser.parse(text)


def test_lines_for_cluster_autoscaler_name_what_is_published() -> None:
    text = (ROOT / "docs" / "sources.md").read_text()
    prefix = load(BASE).publishing.prefix
    for line in (f"--balancing-ignore-label={prefix}/score", f"--balancing-ignore-label={prefix}/load"):
        assert line in text
    assert f"--status-taint={prefix}/overloaded" in text
