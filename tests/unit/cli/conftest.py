from tests.worlds.commands import ballast, status

__all__ = ["ballast", "status"]
