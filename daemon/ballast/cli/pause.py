"""`ballast pause` and `ballast resume`: print a kubectl command that sets a switch in the cluster.

kubectl makes the change, so that RBAC and the audit log of the cluster apply.
"""

import json
from typing import Annotated

import typer

from ballast.base.parts import SWITCHES, Part
from ballast.cluster.identity import known_namespace
from ballast.settings import Mode, load

PartArgument = Annotated[Part | None, typer.Argument(help="The part to switch. Default: all parts.")]


def pause(part: PartArgument = None) -> None:
    """Print the kubectl command that stops Ballast, or one part of it, from writing."""
    typer.echo(_line(part, "true"))
    settings = load()
    if part is Part.BATCH or (part is None and settings.batch.mode is not Mode.OFF):
        typer.echo(
            f"warning: while it is paused, pods with the gate {settings.publishing.prefix}/batch wait. "
            "`ballast release batch` lets them go.",
            err=True,
        )


def resume(part: PartArgument = None) -> None:
    """Print the kubectl command that lets Ballast write again. A part that was paused by name is resumed by name."""
    typer.echo(_line(part, "false"))


def _line(part: Part | None, value: str) -> str:
    """A shell line that works whether or not the ConfigMap exists; other keys in it stay."""
    namespace = known_namespace(load().lease.namespace)
    if namespace is None:
        typer.echo(
            "warning: the namespace of Ballast is unknown, so the command uses default. If Ballast runs in another "
            "namespace, set BALLAST_LEASE__NAMESPACE to it, or replace it after -n in both places.",
            err=True,
        )
    kubectl = f"kubectl -n {namespace or 'default'}"
    key = f"paused.{part.value}" if part else "paused"
    data = json.dumps({"data": {key: value}}, separators=(",", ":"))
    manifest = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SWITCHES}, "data": {key: value}},
        separators=(",", ":"),
    )
    return f"{kubectl} patch configmap {SWITCHES} --type merge -p '{data}' || echo '{manifest}' | {kubectl} create -f -"
