"""The commands of the lab are run as all others."""

from __future__ import annotations

from tests.unit.cli.conftest import ballast, status

__all__ = ["ballast", "status"]
