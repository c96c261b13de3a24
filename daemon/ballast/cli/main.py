"""The `ballast` command, also as the plugin `kubectl ballast`."""

import sys
from pathlib import Path

from ballast.base.errors import BallastError, SettingsError, UsageError
from ballast.base.text import printable_lines

PLUGIN = "kubectl-ballast"


def main() -> None:
    """Runs the command line. Exits 1 if the command failed or was refused, 2 for wrong usage or settings, 130 after
    Ctrl-C."""
    try:
        from ballast.cli.app import app

        app(prog_name="kubectl ballast" if Path(sys.argv[0]).stem == PLUGIN else None)
    except BallastError as error:
        sys.stderr.write(f"{printable_lines(str(error))}\n")
        sys.exit(2 if isinstance(error, SettingsError | UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
