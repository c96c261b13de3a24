"""The part `lease` of the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from ballast.settings.part import SettingsPart
from ballast.settings.values.dns import label, subdomain


class LeaseSettings(SettingsPart):
    """How the replica that writes is chosen."""

    enabled: bool = True
    """Elect one writer among the replicas; false: this replica always writes."""

    name: Annotated[str, AfterValidator(subdomain)] = "ballast"
    """Name of the Lease."""

    namespace: Annotated[str, AfterValidator(label)] | None = None
    """Namespace of the Lease; unset: the pod's own (POD_NAMESPACE)."""
