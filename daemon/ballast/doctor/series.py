"""Checks of what Prometheus has: the series, their nodes, their ages and their units."""

import math
from collections.abc import Iterator

from ballast.base.text import named
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.model.node import Node
from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.sample import Reading, ReadingProblem
from ballast.settings.prometheus import BUILT_IN_PRESETS

_OTHER_SOURCE = "BALLAST_TELEMETRY__SOURCE=metrics-server"

_NAMED_IMPOSSIBLE = 20
"""Nodes of which it is said what cannot be."""

_FEW = 0.02
"""Share of nodes without a sample that is nothing special: some always come or go."""


def preset_data(evidence: Evidence) -> Iterator[Finding]:
    """Whether Prometheus has what the presets and RESOURCES ask for.

    Found: a resource has no series, or its query is refused.
    Fix: `BALLAST_PROMETHEUS__PRESET=node-exporter,kubelet`, `BALLAST_TELEMETRY__RESOURCES=cpu,memory`
    """
    for resource, problem in _failures(evidence, "empty", "query"):
        yield Finding("preset-data", "fail", resource, problem.text, _otherwise(evidence, resource))
    for warning in evidence.reading.warnings:
        text = f"a warning about the answers: {warning}"
        yield Finding("preset-data", "warn", "answers", text, ("ballast doctor --only preset-data,unmeasured-nodes",))


def node_label(evidence: Evidence) -> Iterator[Finding]:
    """Whether the series name nodes.

    Found: no label of the series leads to a node.
    Fix: `BALLAST_TELEMETRY__NODE_REWRITE=...` or `BALLAST_TELEMETRY__NODE_IDENTITY=...` as the finding says
    """
    _measured(evidence)
    for resource, problem in _failures(evidence, "unnamed"):
        yield Finding("node-label", "fail", resource, problem.text, problem.fix)


def clusters_mixed(evidence: Evidence) -> Iterator[Finding]:
    """Whether the series are of one cluster.

    Found: series of one node differ in a label such as `cluster`.
    Fix: `BALLAST_PROMETHEUS__MATCHERS=cluster="blue"`, a line for each value
    """
    _measured(evidence)
    reading = evidence.reading
    for mixture in evidence.source.differences:
        if mixture.label != "instance":
            yield from _differing("clusters-mixed", evidence)
            return
    if any(problem.reason == "clusters" for problem in reading.failed.values()):
        yield from _differing("clusters-mixed", evidence)


def duplicate_exporters(evidence: Evidence) -> Iterator[Finding]:
    """Whether each node has one exporter.

    Found: a node has series of several exporters that do not agree.
    Fix: `BALLAST_PROMETHEUS__MATCHERS=...`, a line for each value
    """
    _measured(evidence)
    if any(mixture.label == "instance" for mixture in evidence.source.differences):
        yield from _differing("duplicate-exporters", evidence)
    for resource, problem in _failures(evidence, "duplicate"):
        yield Finding("duplicate-exporters", "fail", resource, problem.text, problem.fix)


def several_jobs(evidence: Evidence) -> Iterator[Finding]:
    """Whether each node is reported by one scrape job.

    Found: series of one node differ in `job` or in the job's `namespace`. Whoever may define a scrape job could choose
    which node looks full.
    Fix: `BALLAST_PROMETHEUS__MATCHERS=job!="other"`
    """
    _measured(evidence)
    if (found := evidence.source.several_jobs) is not None:
        yield Finding("several-jobs", "warn", "series", found.summary, found.fix)


def copied_labels(evidence: Evidence) -> Iterator[Finding]:
    """Whether Ballast's own labels of nodes stay out of series.

    Found: a scrape job copies node labels onto its series. Each new score then ends all series of the node and begins
    new ones, which Prometheus has to store.
    Fix: `{action: labeldrop, regex: ballast_dev_.+}`, after the `labelmap` of that job
    """
    _measured(evidence)
    if copied := evidence.source.copied_labels:
        text = (
            f"{named(sorted(copied))}: series carry what Ballast writes on nodes, so each new score ends all series of "
            "a node and begins new ones; drop it in the relabel_configs of the job, after what copies node labels"
        )
        fix = tuple(f"- {{action: labeldrop, regex: {pattern}}}" for pattern in sorted(set(copied.values())))
        yield Finding("copied-labels", "warn", "series", text, fix)


def scrape_interval(evidence: Evidence) -> Iterator[Finding]:
    """Whether samples come at least as often as they are read.

    Found: samples are further apart than readings.
    Fix: `BALLAST_TELEMETRY__INTERVAL=60s`
    """
    _measured(evidence)
    interval = float(evidence.settings.telemetry.interval)
    slow = {name: seconds for name, seconds in evidence.scrape_interval.items() if seconds > 1.1 * interval}
    for resource, seconds in slow.items():
        yield Finding(
            "scrape-interval",
            "warn",
            resource,
            f"samples are {seconds:.0f} s apart, readings {interval:g} s: windows fill slowly and hold fewer numbers",
            (f"BALLAST_TELEMETRY__INTERVAL={math.ceil(seconds)}s",),
        )


def clock_skew(evidence: Evidence) -> Iterator[Finding]:
    """Whether this machine's clock is that of the samples.

    Found: samples are from the future, or all are too old.
    Fix: `timedatectl set-ntp true`, or `BALLAST_TELEMETRY__OFFSET=...` as the finding says, or
    `BALLAST_TELEMETRY__SOURCE=metrics-server`
    """
    _measured(evidence)
    for resource, problem in _failures(evidence, "future", "stale"):
        fix = problem.fix or ("timedatectl set-ntp true",)
        yield Finding("clock-skew", "fail", resource, problem.text, (*fix, _OTHER_SOURCE))


def freshness(evidence: Evidence) -> Iterator[Finding]:
    """Whether the age of samples can be told.

    Found: a query hides the times of its samples.
    Fix: the line of `BALLAST_TELEMETRY__RESOURCES` that the finding says
    """
    _measured(evidence)
    for resource, problem in _failures(evidence, "ageless"):
        yield Finding("freshness", "fail", resource, problem.text, problem.fix or _otherwise(evidence, resource))


def units(evidence: Evidence) -> Iterator[Finding]:
    """Whether the values are ratios.

    Found: values are percent, cores or bytes, or no numbers.
    Fix: `BALLAST_TELEMETRY__RESOURCES=...` with another query
    """
    _measured(evidence)
    for resource, problem in _failures(evidence, "unit", "unreadable"):
        yield Finding("units", "fail", resource, problem.text, problem.fix or _otherwise(evidence, resource))


def unmeasured_nodes(evidence: Evidence) -> Iterator[Finding]:
    """Whether every node has samples.

    Found: some nodes have none while others have, or none that counts.
    Fix: the exporter of such a node, where its values do not count; `BALLAST_PROMETHEUS__PRESET=node-exporter,kubelet`,
    `BALLAST_CLUSTER__NODE_SELECTOR=...`
    """
    _measured(evidence)
    reading, nodes = evidence.reading, evidence.nodes
    excluded = {name for mixture in evidence.source.differences for name in mixture.nodes}
    rejected = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reading.rejected.items()) if count)
    if impossible := sorted(reading.impossible.items()):
        told = "; ".join(f"{name}: {text}" for name, text in impossible[:_NAMED_IMPOSSIBLE])
        node = next(node for node in nodes if node.name == impossible[0][0])
        subject = named([name for name, _ in impossible])
        yield Finding("unmeasured-nodes", "warn", subject, f"what is told cannot be: {told}", (_exporter_of(node),))
    seen: set[frozenset[int]] = set()
    for resource in (name for name in ALWAYS_NEEDED if name in reading.samples):
        measured = _rows(reading, resource)
        lacking = frozenset(row for row, node in enumerate(nodes) if row not in measured and node.name not in excluded)
        without = [nodes[row] for row in sorted(lacking)]
        if not measured or len(without) <= _FEW * len(nodes) or measured in seen:
            continue
        seen.add(measured)
        yield Finding(
            "unmeasured-nodes",
            "warn",
            named([node.name for node in without]),
            f"{len(without):,} of {len(nodes):,} nodes have no sample of {resource}, while others have"
            f"{f' (rejected: {rejected})' if rejected else ''}",
            (*([_exporter_of(without[0])] if rejected else []), *_ways_to_measure(evidence, resource, lacking)),
        )


def _measured(evidence: Evidence) -> None:
    """Raises CheckNotPossible where Prometheus has no series at all: there is nothing to look at."""
    reading = evidence.reading
    if not reading.samples and all(problem.reason in ("empty", "query") for problem in reading.failed.values()):
        raise CheckNotPossible("not looked at: Prometheus has no series of any resource")


def _failures(evidence: Evidence, *reasons: str) -> list[tuple[str, ReadingProblem]]:
    """The resources without samples for one of these reasons, and what is wrong with them."""
    return [(resource, problem) for resource, problem in evidence.reading.failed.items() if problem.reason in reasons]


def _otherwise(evidence: Evidence, resource: str) -> tuple[str, ...]:
    """Other ways to measure a resource that cannot be read as it is configured."""
    configured = {entry.name: entry for entry in evidence.settings.telemetry.resources}
    if configured[resource].query is not None:
        kept = [
            entry.name
            for entry in configured.values()
            if entry.query is None or entry.name in BUILT_IN_PRESETS["kubelet"]
        ]
        return (f"BALLAST_TELEMETRY__RESOURCES={','.join(kept) or 'cpu,memory'}",)
    return (*_presets_with(evidence, resource), _OTHER_SOURCE)


def _presets_with(evidence: Evidence, resource: str) -> list[str]:
    """Further presets that know the resource."""
    present = evidence.settings.prometheus
    others = [name for name, known in BUILT_IN_PRESETS.items() if resource in known and name not in present.presets]
    return [f"BALLAST_PROMETHEUS__PRESET={present.preset},{name}" for name in others]


def _differing(check: str, evidence: Evidence) -> Iterator[Finding]:
    mixtures = evidence.reading.mixtures
    fix = tuple(dict.fromkeys(line for mixture in mixtures for line in mixture.fix))
    yield Finding(check, "fail", "series", mixtures[0].summary, fix)


def _exporter_of(node: Node) -> str:
    """Where to look when an exporter answers with what does not count."""
    return f"kubectl get pods --all-namespaces --field-selector spec.nodeName={node.name} | grep -i exporter"


def _ways_to_measure(evidence: Evidence, resource: str, rows: frozenset[int]) -> tuple[str, ...]:
    """What may measure these nodes too, and a selector that leaves them out, by a label."""
    without = [evidence.nodes[row] for row in sorted(rows)]
    measured = [node for row, node in enumerate(evidence.nodes) if row not in rows]
    labels: set[tuple[str, str]] = set.intersection(*(set(node.labels.items()) for node in without))
    fix = [*_presets_with(evidence, resource), _OTHER_SOURCE]
    for key, value in sorted(labels):
        if all(node.labels.get(key) != value for node in measured):
            fix.append(f"BALLAST_CLUSTER__NODE_SELECTOR={key}!={value}")
            break
    return tuple(fix)


def _rows(reading: Reading, resource: str) -> frozenset[int]:
    """The nodes that have a sample."""
    samples = reading.samples.get(resource)
    return frozenset() if samples is None else frozenset(samples.rows.tolist())
