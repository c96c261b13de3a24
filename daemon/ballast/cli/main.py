"""The `ballast` command."""

from __future__ import annotations

import sys

from ballast.errors import BallastError, SettingsError, UsageError


def main() -> None:
    """Runs the command line. Exits 1 if the command failed or was refused, 2 for wrong usage or settings."""
    try:
        from ballast.cli.app import app  # packages that add checks load here, and may be refused

        app()
    except BallastError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2 if isinstance(error, SettingsError | UsageError) else 1)
