"""The devices of resource claims as the watches show them now, computed again only where they have changed."""

from __future__ import annotations

from collections.abc import Sequence

from ballast.cluster.workload_cache import DEVICE_CLAIMS, SLICES, WorkloadCache
from ballast.model.attachments import DeviceClaim, DeviceSlice
from ballast.scoring.devices.claimed import ClaimedDevices, claimed_devices

KINDS = (SLICES, DEVICE_CLAIMS)


class ResourceClaims:
    """May be asked by any thread. A server without DRA has none; a watch that fails leaves what was there last."""

    def __init__(self, workloads: WorkloadCache) -> None:
        self._workloads = workloads
        self._latest: tuple[Sequence[DeviceSlice], Sequence[DeviceClaim], ClaimedDevices] = ((), (), ClaimedDevices())

    def now(self) -> ClaimedDevices:
        """What is free and asked for."""
        slices, claims = self._workloads.device_slices(), self._workloads.device_claims()
        latest = self._latest
        if latest[0] is not slices or latest[1] is not claims:
            latest = self._latest = (slices, claims, claimed_devices(slices, claims))
        return latest[2]
