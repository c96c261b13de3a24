"""`ballast pause` and `ballast resume`: the kubectl line. Switches are in the cluster, where RBAC and audit are."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from ballast.cluster.identity import known_namespace
from ballast.cluster.switches import NAME
from ballast.settings import load


class Switched(StrEnum):
    PUBLISHING = "publishing"
    POWER = "power"
    EVICTION = "eviction"


PartArgument = Annotated[Switched | None, typer.Argument(help="Only this part; all parts without it.")]


def pause(part: PartArgument = None) -> None:
    """Prints the kubectl line that stops Ballast, or one part of it, from writing."""
    typer.echo(_line(part, "true"))


def resume(part: PartArgument = None) -> None:
    """Prints the kubectl line that lets it write again. What was paused by its own name is resumed by its own name."""
    typer.echo(_line(part, "false"))


def _line(part: Switched | None, value: str) -> str:
    """Works whether or not the ConfigMap is there yet; its other keys stay."""
    namespace = known_namespace(load().lease.namespace)
    if namespace is None:
        typer.echo(
            "warning: the namespace that Ballast runs in is not known here, and one in another namespace than default "
            "will not see this. Set BALLAST_LEASE__NAMESPACE to it, or write it after -n, both times.",
            err=True,
        )
    kubectl = f"kubectl -n {namespace or 'default'}"
    key = f"paused.{part.value}" if part else "paused"
    data = json.dumps({"data": {key: value}}, separators=(",", ":"))
    whole = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {key: value}},
        separators=(",", ":"),
    )
    return f"{kubectl} patch configmap {NAME} --type merge -p '{data}' || echo '{whole}' | {kubectl} create -f -"
