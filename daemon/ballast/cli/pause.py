"""`ballast pause` and `ballast resume`: print a kubectl command that sets a switch in the cluster.

kubectl makes the change, so that RBAC and the audit log of the cluster apply.
"""

import json
from typing import Annotated

import typer

from ballast.base.parts import SWITCHES, Part
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place, installation
from ballast.settings import Mode, load

PartArgument = Annotated[Part | None, typer.Argument(help="The part to switch. Default: all parts.")]


def pause(
    part: PartArgument = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Print the kubectl command that stops Ballast, or one part of it, from writing.

    Ballast is found by its Lease or Deployment; exits 1 where there is none.
    """
    place = Place(None, namespace, kubeconfig, context)
    settings = load(place.environment)
    typer.echo(_line(place, settings.lease.name, part, "true"))
    if part is Part.BATCH or (part is None and settings.batch.mode is not Mode.OFF):
        typer.echo(
            f"warning: while it is paused, pods with the gate {settings.publishing.prefix}/batch wait. "
            "`ballast release batch` lets them go.",
            err=True,
        )


def resume(
    part: PartArgument = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Print the kubectl command that lets Ballast write again. A part that was paused by name is resumed by name."""
    place = Place(None, namespace, kubeconfig, context)
    typer.echo(_line(place, load(place.environment).lease.name, part, "false"))


def _line(place: Place, lease: str, part: Part | None, value: str) -> str:
    """A shell line that works whether or not the ConfigMap exists; other keys in it stay."""
    api = place.connect()
    try:
        kubectl = f"kubectl{place.kubectl} -n {installation(api, place, lease)}"
    finally:
        api.close()
    key = f"paused.{part.value}" if part else "paused"
    data = json.dumps({"data": {key: value}}, separators=(",", ":"))
    manifest = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SWITCHES}, "data": {key: value}},
        separators=(",", ":"),
    )
    return f"{kubectl} patch configmap {SWITCHES} --type merge -p '{data}' || echo '{manifest}' | {kubectl} create -f -"
