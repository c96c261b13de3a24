"""The commands of the lab are run as all others."""

from tests.unit.cli.conftest import ballast, status

__all__ = ["ballast", "status"]
