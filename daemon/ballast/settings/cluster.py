"""The part `cluster` of the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from ballast.settings.part import File, SettingsPart
from ballast.settings.values.selector import label_key, selector


class ClusterSettings(SettingsPart):
    """How to reach the Kubernetes API, which nodes to work on, and how fast to write."""

    kubeconfig: File | None = None
    """Kubeconfig file; unset: the pod's service account."""

    node_selector: Annotated[str, AfterValidator(selector)] | None = None
    """Label selector of the nodes Ballast works on, such as node-role=worker,!gpu; unset: all."""

    pool_label: Annotated[str, AfterValidator(label_key)] | None = None
    """Node label that names the pool; statistics and moves stay inside a pool. Unset: all nodes are one pool."""

    qps: Annotated[float, Field(gt=0)] = 20
    """Writes per second, on average."""

    burst: Annotated[int, Field(ge=1)] = 40
    """Writes that may be sent at once after a quiet period."""
