"""All parts by name."""

from __future__ import annotations

from ballast_lab.faults.parts.batch import Batch
from ballast_lab.faults.parts.eviction import Eviction
from ballast_lab.faults.parts.labels import Labels
from ballast_lab.faults.parts.part import Part
from ballast_lab.faults.parts.power import Power

PARTS: dict[str, type[Part]] = {each.name: each for each in (Labels, Power, Eviction, Batch)}
