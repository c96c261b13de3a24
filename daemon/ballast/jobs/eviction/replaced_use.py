"""What pods use that came instead of others, asked in the job's thread: they are few."""

from collections.abc import Callable, Mapping, Sequence

from ballast.actuation.eviction.replacement_use import Uses
from ballast.model.node import Node
from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.pod import Pod
from ballast.telemetry.pod_usage import Homes, PodAnswers, decode
from ballast.telemetry.pod_usage_cache import PodUsageCache


class ReplacedUse:
    """Tells each answer of the source once: one told again is no further sample, and would make an effect look surer
    than it is."""

    def __init__(
        self,
        usage: PodUsageCache,
        at: Callable[[], float],
        nodes: Callable[[], Sequence[Node]],
        pods: Callable[[], Sequence[Pod]],
    ) -> None:
        """`at` is the time that is asked about, Unix seconds."""
        self._usage, self._at, self._nodes, self._pods = usage, at, nodes, pods
        self._told: PodAnswers | None = None

    def __call__(self, names: Sequence[str]) -> Mapping[str, Uses]:
        """Of pods, named namespace/name."""
        answers, wanted = self._usage.ask(self._at(), ALWAYS_NEEDED, names), frozenset(names)
        if answers is self._told:
            return {}
        self._told = answers
        pods = [pod for pod in self._pods() if f"{pod.namespace}/{pod.name}" in wanted]
        return decode(answers, Homes(self._nodes(), pods)).by_pod()
