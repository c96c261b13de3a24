"""Situations of the field: no number is wrong, nothing is unknown in silence, and each line that is printed helps."""

import math
import re
import time
from collections.abc import Iterator, Mapping

import pytest

from ballast.doctor.finding import Finding
from ballast_lab.harness.prometheus import Prometheus, import_past, prometheus
from ballast_lab.harness.tools import Tools
from tests.worlds.examined import Known, assert_each_line_helps, examined
from tests.worlds.situations import CPU, SITUATIONS, SPAN, STEP, USED, Situation


@pytest.fixture(scope="module")
def stored(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    """A Prometheus with the series of all situations, told apart by the label `situation`, and the last time."""
    folder = tmp_path_factory.mktemp("situations")
    start = math.floor(time.time()) - SPAN
    lines: dict[str, list[str]] = {}
    for number, situation in enumerate(SITUATIONS.values()):
        for metric, labels, value in situation.series():
            shown = ",".join(f'{name}="{text}"' for name, text in {**labels, "situation": str(number)}.items())
            lines.setdefault(metric, []).extend(
                f"{metric}{{{shown}}} {told!r} {start + passed}"
                for passed in range(0, SPAN, STEP)
                if (told := value(passed)) is not None
            )
    text = []
    for metric, of in sorted(lines.items()):
        kind = "counter" if metric.endswith("_total") else "gauge"
        text += [f"# TYPE {metric.removesuffix('_total') if kind == 'counter' else metric} {kind}", *of]
    import_past(tools, folder, text)
    with prometheus(tools, folder, []) as server:
        yield server, start + SPAN - STEP


def _examine(
    stored: tuple[Prometheus, float], name: str, more: Mapping[str, str] | None = None
) -> tuple[list[Finding], Known]:
    server, at = stored
    situation = SITUATIONS[name]
    matcher = f'situation="{list(SITUATIONS).index(name)}"'
    store = {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_PROMETHEUS__MATCHERS": matcher}
    return examined({**store, **situation.settings, **(more or {})}, situation.nodes, at, situation.pods)


def _true(situation: Situation) -> Known:
    """What is true of each node that lives."""
    rows = {node.name: row for row, node in enumerate(each for each in situation.nodes if each.ready)}
    truth = {name: situation.truth.get(row, (CPU[row], USED[row])) for name, row in rows.items()}
    return {(of, name): both[at] for name, both in truth.items() for at, of in enumerate(("cpu", "memory"))}


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_number_is_right_or_its_absence_is_said(stored: tuple[Prometheus, float], name: str) -> None:
    situation = SITUATIONS[name]
    findings, known = _examine(stored, name)
    found = [each for each in findings if each.status in ("fail", "warn")]
    truth = _true(situation)
    loads = {key: value for key, value in known.items() if key[0] in ("cpu", "memory")}
    assert loads == pytest.approx({key: truth[key] for key in loads}, abs=0.05)
    missing = {node for _, node in truth.keys() - loads.keys()}
    rows = [node.name for node in situation.nodes if node.ready]
    assert missing <= {rows[row] for row in situation.unknown}
    said = "\n".join(f"{finding.subject} {finding.message} {finding.fix}" for finding in found)
    assert re.search(situation.said, said)
    assert not missing or found


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_line_that_is_printed_helps(stored: tuple[Prometheus, float], name: str) -> None:
    assert_each_line_helps(lambda more: _examine(stored, name, more), len(SITUATIONS[name].nodes))


def test_the_table_has_forty_rows() -> None:
    assert len(SITUATIONS) >= 40
