"""What stands behind pods: workloads, disruption budgets, autoscalers, namespaces."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ballast.model.pod import Owner
from ballast.model.selector import Selector


class Workload(msgspec.Struct, frozen=True, gc=False):
    """`replicas` is the number asked for; `rolling` means pods are being replaced by others of a new template.

    Of kinds that only their /scale tells the number of, `replicas` is None. `version` is the resourceVersion;
    `observed` the generation that its controller has seen; `ready` and `present` are pods, as it counts them;
    `pod_labels` are those of the template.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    replicas: int | None = 1
    rolling: bool = False
    annotations: Mapping[str, str] = {}
    owner: Owner | None = None
    version: str = ""
    generation: int = 0
    observed: int | None = None
    ready: int = 0
    present: int = 0
    selector: Selector | None = None
    pod_labels: Mapping[str, str] = {}
    api_version: str = ""


class DisruptionBudget(msgspec.Struct, frozen=True, gc=False):
    """A PodDisruptionBudget. `allowed` pods may be disrupted now; nothing counts while it is not `settled`."""

    namespace: str
    name: str
    selector: Selector | None
    allowed: int = 0
    settled: bool = True


class Autoscaler(msgspec.Struct, frozen=True, gc=False):
    """A HorizontalPodAutoscaler or a ScaledObject of KEDA. `kind` and `name` are those of what it scales.

    `own_name` and `own_kind` are its own, `group` is the API group of what it scales. `scaled_at` is when it last did
    (Unix seconds); `desired` what it wants now. `version` is its resourceVersion.
    """

    namespace: str
    kind: str
    name: str
    scaled_at: float | None = None
    own_name: str = ""
    own_kind: str = "HorizontalPodAutoscaler"
    uid: str = ""
    version: str = ""
    group: str = ""
    minimum: int = 1
    maximum: int = 0
    desired: int | None = None
    annotations: Mapping[str, str] = {}
    owner: Owner | None = None


class Namespace(msgspec.Struct, frozen=True, gc=False):
    """A namespace with the annotations Ballast reads."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
