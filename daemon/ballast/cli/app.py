"""The commands of `ballast`. Each is imported when it is called."""

from typing import Annotated

import typer

from ballast import __version__
from ballast.cli.lazy import LAB, group

COMMANDS = {
    "run": ("ballast.cli.run:run", "Run the daemon until SIGTERM or Ctrl-C."),
    "demo": (f"{LAB}:demo", "Start a simulated cluster with Ballast watching it, in one process, until Ctrl-C."),
    "doctor": ("ballast.cli.doctor:doctor", "Ask what the daemon would ask, change nothing, and say what to set."),
    "status": (
        "ballast.cli.observing.status:status",
        "Show whether the cluster is balanced, what Ballast did today, and what is wrong now.",
    ),
    "top": ("ballast.cli.observing.top:top", "Show the nodes by load, the busiest first."),
    "report": ("ballast.cli.observing.report:report", "Show what was moved, measured and missed, by day (UTC)."),
    "sysdump": (
        "ballast.cli.observing.sysdump:sysdump",
        "Write one archive for an issue: answers, metrics, settings and logs, without secrets.",
    ),
    "config": ("ballast.cli.config:app", "Show and check the settings."),
    "power": ("ballast.cli.groups:power", "Try out a power policy, offline."),
    "profile": ("ballast.cli.profile:profile", "Print a complete KubeSchedulerConfiguration."),
    "score": ("ballast.cli.score:score", "Score every node for a pod, offline."),
    "plan": ("ballast.cli.groups:plan", "Plan evictions from files or from a cluster."),
    "explain": ("ballast.cli.explain:explain", "Show why a pod may or may not be evicted."),
    "experiment": (f"{LAB}:experiment", "Reproduce published tables and measure on public traces, offline."),
    "rehearse": (f"{LAB}:rehearse", "Show what Ballast would have done over recorded days, beside what happened."),
    "release": ("ballast.cli.release:release", "Remove the labels, annotations and taints of Ballast from all nodes."),
    "pause": (
        "ballast.cli.pause:pause",
        "Print the kubectl command that stops Ballast, or one part of it, from writing.",
    ),
    "resume": ("ballast.cli.pause:resume", "Print the kubectl command that lets Ballast write again."),
    "version": ("ballast.cli.about:version", "Print the version."),
    "help": ("ballast.cli.about:help_of", "Show the help of a command."),
    "completion": ("ballast.cli.about:completion", "Print a script that completes commands and options."),
}

app = group(COMMANDS, add_completion=True, pretty_exceptions_enable=False)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"ballast {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Measure the real load of every Kubernetes node and give it to the scheduler."""
