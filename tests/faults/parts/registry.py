"""All parts by name."""

from __future__ import annotations

from tests.faults.parts.batch import Batch
from tests.faults.parts.eviction import Eviction
from tests.faults.parts.labels import Labels
from tests.faults.parts.part import Part
from tests.faults.parts.power import Power

PARTS: dict[str, type[Part]] = {each.name: each for each in (Labels, Power, Eviction, Batch)}
