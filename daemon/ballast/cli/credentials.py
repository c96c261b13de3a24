"""Fills the chart's Secrets before the daemon starts, and leaves what they hold in files. Run as a module."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ballast.base import log
from ballast.base.clock import SystemClock
from ballast.base.errors import BallastError
from ballast.base.metrics import Metrics
from ballast.base.text import printable_lines
from ballast.cluster import credentials as made
from ballast.cluster.client import connect
from ballast.cluster.identity import own_namespace
from ballast.cluster.writer import Pace, Writer

WRITES = 5


@dataclass(frozen=True)
class _OwnAccount:
    """The pod's own account; outside of one the user's kubeconfig."""

    kubeconfig: None = None
    context: None = None


def credentials(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files are written.", file_okay=False)],
    token: Annotated[str | None, typer.Option(help="Secret of the token that callers of the extender show.")] = None,
    certificate: Annotated[str | None, typer.Option(help="Secret of the certificate.")] = None,
    host: Annotated[list[str] | None, typer.Option(help="A name that the certificate is for.")] = None,
    days: Annotated[int, typer.Option(min=1, help="Days for which a new certificate is valid.")] = 3650,
) -> None:
    """Make what is missing in the Secrets, once for all replicas, and write it to files."""
    log.configure("info", "json")
    clock, metrics = SystemClock(), Metrics()
    api = connect(_OwnAccount(), metrics)
    pace = Pace(clock, WRITES, WRITES)
    writer = Writer(api, clock, metrics, pace=pace, modes={}, paused=lambda part: None, leading=lambda: False)
    namespace, files = own_namespace(None), dict[str, bytes]()
    if token is not None:
        files |= made.fill(api, writer, namespace, token, made.token)
    if certificate is not None:
        now = datetime.fromtimestamp(clock.wall(), UTC)
        files |= made.fill(api, writer, namespace, certificate, lambda: made.certificate(host or [], days, now))
    leave(folder, files)
    typer.echo(f"Wrote {', '.join(sorted(files)) or 'nothing'} to {folder}.")


def leave(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes them read-only, also over those of an earlier start: volumes outlive a pod's sandbox."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = folder / name
        file.unlink(missing_ok=True)
        file.write_bytes(content)
        file.chmod(0o440)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(credentials)
    try:
        app()
    except BallastError as error:
        sys.exit(printable_lines(str(error)))
