"""`ballast demo`: a simulated cluster with the real daemon watching it, in one process."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ballast.base import log
from ballast.base.errors import BallastError, UsageError
from ballast.cli.output import Output, OutputOption
from ballast_lab.scaled_clock import ScaledClock

if TYPE_CHECKING:
    from ballast_lab.simulator import EmbeddedCluster

HOST, PORT = "127.0.0.1", 2020
FASTER_CLOCK = """\
With --speed the clock of this cluster runs ahead of the clock of the machine. A daemon in another process then rejects
the samples of the power feed and misjudges the age of pods. Without --cluster-only there is only one clock.
"""


class Scene(StrEnum):
    """What happens in the simulated cluster."""

    BREATHING = "breathing"
    CALM = "calm"
    BURST = "burst"
    POWER = "power"
    HOTSPOT = "hotspot"


def demo(
    nodes: Annotated[int, typer.Option(min=1, max=10_000, help="Number of nodes.")] = 200,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds.")] = None,
    speed: Annotated[float, typer.Option(help="Factor by which simulated time runs faster.")] = 1.0,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=f"Address of the page, by default {HOST}:{PORT}; or of the API, if --cluster-only.",
        ),
    ] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Do not serve the page.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation. The same seed gives the same cluster.")] = 1,
    scene: Annotated[Scene, typer.Option(help="What happens in the cluster.")] = Scene.BREATHING,
    cluster_only: Annotated[bool, typer.Option("--cluster-only", help="Start only the cluster.")] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the kubeconfig of the cluster to this file.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Leave a recording of the last day here, for ballast rehearse.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Start a simulated cluster with Ballast watching it, in one process, until Ctrl-C."""
    if speed <= 0:
        raise UsageError(f"--speed {speed:g} cannot be used: more than 0 is allowed.")
    stop = threading.Event()
    _stop_on_signals(stop)
    if cluster_only:
        host, port = _address(listen or f"{HOST}:0")
        _cluster_only(nodes, seconds, speed, host, port, seed, scene, kubeconfig, output, stop)
        return
    from ballast_lab.demo.running import Options, run

    log.configure("error")
    host, port = _address(listen or f"{HOST}:{PORT}")
    say = _say if output is Output.JSON else typer.echo
    options = Options(nodes, seconds, speed, host, port, headless, seed, scene.value, kubeconfig, record)
    summary = run(options, stop, say)
    typer.echo(json.dumps(summary) if output is Output.JSON else _table(summary))


def _cluster_only(
    nodes: int,
    seconds: float | None,
    speed: float,
    host: str,
    port: int,
    seed: int,
    scene: Scene,
    kubeconfig: Path | None,
    output: Output,
    stop: threading.Event,
) -> None:
    from ballast_lab.simulator import EmbeddedCluster, World

    world = World(nodes, seed, ScaledClock(speed), scene=scene.value)
    with tempfile.TemporaryDirectory(prefix="ballast-demo-") as folder:
        target = (kubeconfig or Path(folder) / "kubeconfig").absolute()
        try:
            with EmbeddedCluster(world, host, port) as cluster:
                cluster.kubeconfig(target)
                environment = cluster.environment(target)
                if output is Output.JSON:
                    typer.echo(json.dumps(_description(cluster, target, environment)))
                else:
                    typer.echo(_words(cluster, target, environment))
                    if speed != 1:
                        typer.echo(FASTER_CLOCK)
                stop.wait(seconds)
        except OSError as error:
            raise BallastError(
                f"--listen {host}:{port} or --kubeconfig {target} cannot be used: {error.strerror or error}. "
                "Choose another address or file; port 0 takes any free port."
            ) from error
    (_say if output is Output.JSON else typer.echo)("stopped")


def _description(cluster: EmbeddedCluster, kubeconfig: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        "kubernetes": cluster.url,
        "prometheus": cluster.prometheus_url,
        "power": cluster.power_url,
        "faults": f"{cluster.url}/faults",
        "kubeconfig": str(kubeconfig),
        "environment": dict(environment),
    }


def _words(cluster: EmbeddedCluster, kubeconfig: Path, environment: Mapping[str, str]) -> str:
    world = cluster.world
    exports = "\n".join(f"export {name}={value}" for name, value in environment.items())
    return f"""\
An embedded cluster of {len(world.node_names)} nodes and {len(world.members)} pods, on one address:

  Kubernetes API  {cluster.url} (metrics.k8s.io included)
  Prometheus      {cluster.prometheus_url}
  power feed      {cluster.power_url}
  node_exporter   {cluster.url}/metrics/node/{world.node_names[0]} (one path per node)
  faults          {cluster.url}/faults (GET lists them, POST adds one, DELETE removes all)

  kubectl --kubeconfig {kubeconfig} get nodes

To run a daemon against it, set

{exports}

Ctrl-C stops it.
"""


def _table(summary: Mapping[str, Any]) -> str:
    counts = ("cycles", "queries", "reads", "nodes", "unknown_nodes")
    lines = [f"{name.replace('_', ' '):<14} {summary[name]}" for name in counts]
    lines += [f"{'writes':<14} " + (", ".join(f"{n} {kind}" for kind, n in summary["writes"].items()) or "none")]
    if spread := summary.get("spread"):
        from ballast_lab.demo.hotspot import words

        lines.append(words(spread))
    return "\n".join(lines)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(
            f"--listen {text} cannot be used: HOST:PORT is expected, such as {HOST}:{PORT}; port 0 takes any free port."
        )
    return host.strip("[]"), int(port)


def _stop_on_signals(stop: threading.Event) -> None:
    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


def _say(sentence: str) -> None:
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
