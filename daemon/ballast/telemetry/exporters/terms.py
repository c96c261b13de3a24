"""The parts that the queries of all presets are made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ballast.settings.prometheus import quoted_label

UNIT_LABEL = "ballast_unit"
REPLICA_LABELS = ("prometheus_replica", "replica")
"""What tells replicas of Prometheus apart."""
BYTES = "bytes"
CORES = "cores"
PODS = "pods"
WITNESS_LABEL = "ballast_witness"
"""Marks series beside the loads: witnesses of starvation beside cpu, the working set beside memory."""
IMPOSSIBLE = -2.0
"""What a query of cpu gives where the modes of a node's cores do not add up to the time lived."""
CONTAINERS = ('container!=""', 'container!="POD"')
"""Matchers of cadvisor's series of containers, without those of whole pods and their sandboxes."""


@dataclass(frozen=True)
class Terms:
    """`labels` name the node, `matchers` enter every selector, `window` is the range of every `rate`."""

    labels: tuple[str, ...]
    matchers: tuple[str, ...]
    window: str
    speeds: bool = False
    """Whether BALLAST_TELEMETRY__NETWORK_SPEED gives link speeds that no exporter reports."""

    @property
    def by(self) -> str:
        """The labels of every answer."""
        return ", ".join((self.node, *(label for label in REPLICA_LABELS if label not in self.labels)))

    @property
    def node(self) -> str:
        """The labels that tell nodes apart."""
        return ", ".join(dict.fromkeys((*map(quoted_label, self.labels), "cluster")))

    def pick(self, metric: str, *more: str) -> str:
        """A selector."""
        matchers = ",".join((*more, *self.matchers))
        return f"{metric}{{{matchers}}}" if matchers else metric

    def rate(self, metric: str, *more: str) -> str:
        """Growth per second."""
        return f"rate({self.pick(metric, *more)}[{self.window}])"

    def newest(self, expression: str) -> str:
        """One value per node and replica of Prometheus; the largest, where an exporter gives several."""
        return f"max by ({self.by}) ({expression})"

    def lowest(self, expression: str) -> str:
        """The smallest value where `newest` is another one: there several series are no copies of one number."""
        return f"min by ({self.by}) ({expression}) < {self.newest(expression)}"

    def amount(self, expression: str, unit: str) -> str:
        """Marked as an amount: it becomes a ratio by what Kubernetes says of the node, or by NETWORK_SPEED."""
        return f'label_replace({expression}, "{UNIT_LABEL}", "{unit}", "", "")'

    def beside(self, load: str, witness: str) -> str:
        """The load, beside a witness in series of their own."""
        return f'{load} or label_replace({self.newest(witness)}, "{WITNESS_LABEL}", "1", "", "")'

    def either(self, first: str, second: str) -> str:
        """The second expression for nodes that the first one lacks."""
        return f"{first} or on ({self.by}) {second}"


@dataclass(frozen=True)
class Exporter:
    """A preset: its queries by resource, and the raw series whose times are those of its samples."""

    queries: Callable[[Terms], Mapping[str, str]]
    raw: tuple[str, ...]
    """Metrics; the first one that a node has counts."""
    labels: tuple[str, ...] = ("instance",)
    """What names the node where BALLAST_TELEMETRY__NODE_LABEL is not set."""
    own: frozenset[str] = frozenset()
    """Labels by which the exporter itself tells the raw series of one node apart."""
    rules: tuple[str, ...] = ()
    """Recording rules by the resources cpu and memory, which may be stored without the raw series."""
    lowest: Callable[[Terms], str] | None = None
    """Of an exporter with one number a node: `Terms.lowest` of it."""
