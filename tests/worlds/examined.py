"""What doctor says of a store, and whether each line that it prints helps."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ballast.cluster.client import KubeApi
from ballast.doctor import series
from ballast.doctor.checks import CHECKS
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding, KnownNodes
from ballast.doctor.trial import tried
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Reading
from ballast.settings import load
from tests.worlds.clock import FakeClock

Known = dict[tuple[str, str], float]
"""The number of each resource and node that counts."""


def examined(
    environment: Mapping[str, str], nodes: Sequence[Node], at: float, pods: Sequence[Pod] = ()
) -> tuple[list[Finding], Known]:
    """What the checks of series find, with the lines that were tried, and the numbers without any line."""
    evidence = Evidence(load(environment), cast(KubeApi, None), FakeClock(wall=at))
    unanswered: dict[str, Any] = {
        "nodes": tuple(nodes),
        "pods": tuple(pods),
        "witness": Reading("metrics-server", at, {}),
    }
    vars(evidence).update(unanswered)
    found = []
    try:
        for check in CHECKS.values():
            if check.__module__ == series.__name__:
                try:
                    found += [tried(evidence, finding) for finding in check(evidence)]
                except CheckNotPossible:
                    continue
        reading = evidence.reading
    finally:
        evidence.close()
    return found, {
        (resource, nodes[row].name): value
        for resource, samples in reading.samples.items()
        for row, value in zip(samples.rows.tolist(), samples.values.tolist(), strict=True)
    }


def assert_each_line_helps(examine: Callable[[Mapping[str, str]], tuple[list[Finding], Known]], nodes: int) -> int:
    """Tries each line that was printed; how many there are. `examine` takes settings beside those of the store."""
    found, before = examine({})
    lines = 0
    for finding in found:
        for promised, settings in changes(finding):
            _, after = examine(settings)
            lines += 1
            assert before.keys() <= after.keys(), (finding, settings)
            assert finding.check == "several-jobs" or after.keys() - before.keys(), (finding, settings)
            known = sum({("cpu", node), ("memory", node)} <= after.keys() for node in {node for _, node in after})
            assert promised == KnownNodes(known, nodes)
    return lines


def changes(finding: Finding) -> list[tuple[KnownNodes, dict[str, str]]]:
    """What each line that was tried promises, with the settings: one line, or all that help only together."""
    lines = [
        (count, shlex.split(line)[0].partition("="))
        for line, count in zip(finding.fix, finding.tried, strict=True)
        if count is not None
    ]
    names = [name for _, (name, _, _) in lines]
    if len(lines) > 1 and len(set(names)) == len(lines) and all(name.startswith("BALLAST_TELE") for name in names):
        return [(lines[0][0], {name: value for _, (name, _, value) in lines})]
    return [(count, {name: value}) for count, (name, _, value) in lines]
