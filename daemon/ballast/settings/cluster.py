"""The Kubernetes API: how to reach it, what to look at, how much to ask of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from ballast.settings.part import File, SettingsPart
from ballast.settings.values.selector import label_key, selector


class ClusterSettings(SettingsPart):
    kubeconfig: File | None = None
    """Kubeconfig file; unset: the pod's service account."""

    node_selector: Annotated[str, AfterValidator(selector)] | None = None
    """Label selector of the nodes Ballast looks at, such as node-role=worker,!gpu; unset: all."""

    pool_label: Annotated[str, AfterValidator(label_key)] | None = None
    """Node label that names the pool; statistics and moves stay inside one. Unset: one pool."""

    qps: Annotated[float, Field(gt=0)] = 20
    """Writes a second, on average."""

    burst: Annotated[int, Field(ge=1)] = 40
    """Writes that may go at once after a quiet time."""
