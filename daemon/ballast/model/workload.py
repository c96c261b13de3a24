"""What stands behind pods: workloads, disruption budgets, autoscalers, namespaces."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ballast.model.pod import Owner
from ballast.model.selector import Selector


class Workload(msgspec.Struct, frozen=True, gc=False):
    """`replicas` is the number asked for; `rolling` means pods are being replaced by others of a new template."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    replicas: int = 1
    rolling: bool = False
    annotations: Mapping[str, str] = {}
    owner: Owner | None = None


class Budget(msgspec.Struct, frozen=True, gc=False):
    """A PodDisruptionBudget. `allowed` pods may be disrupted now; nothing counts while it is not `settled`."""

    namespace: str
    name: str
    selector: Selector | None
    allowed: int = 0
    settled: bool = True


class Autoscaler(msgspec.Struct, frozen=True, gc=False):
    """A HorizontalPodAutoscaler: what it scales, and when it last did (Unix seconds)."""

    namespace: str
    kind: str
    name: str
    scaled_at: float | None = None


class Namespace(msgspec.Struct, frozen=True, gc=False):
    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
