"""The parts of Ballast that write to the cluster, by the names in settings, switches, records and the API."""

from enum import StrEnum

SWITCHES = "ballast-switches"
"""The ConfigMap with the pause switches."""


class Part(StrEnum):
    """Each has a mode (`BALLAST_<PART>__MODE`) and a pause switch (`paused.<part>`)."""

    PUBLISHING = "publishing"
    POWER = "power"
    EVICTION = "eviction"
    BATCH = "batch"
