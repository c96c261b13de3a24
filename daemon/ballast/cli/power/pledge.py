"""`ballast power pledge`: what the policies of the daemon could shed, and what that rests on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from ballast.base.errors import BallastError
from ballast.cli.observing.remote import find
from ballast.cli.output import Output, OutputOption
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place, UrlOption


def pledge(
    url: UrlOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what could be shed in 10 s, 1 min and 10 min, by priority, down to the minima."""
    policies = find(Place(url, namespace, kubeconfig, context)).json("/api/v1/power")["policies"]
    rows = together([policy["pledge"] for policy in policies if policy["pledge"]])
    if not rows:
        raise BallastError(
            "No policy of this daemon knows the watts of its replicas. Give wattsPerReplica to each member, and "
            "BALLAST_POWER__MODE=dry-run at least."
        )
    if output is Output.JSON:
        typer.echo(json.dumps(rows, indent=2, allow_nan=False))
        return
    for row in rows:
        shares = ", ".join(f"priority {name}: {watts:,.0f} W" for name, watts in row["by_priority"].items())
        typer.echo(f"within {row['within']:>3}  {row['watts']:>10,.0f} W  {f'({shares})' if shares else ''}".rstrip())
    typer.echo(f"Watts of replicas are {'measured' if rows[0]['rests_on'] == 'meter' else 'as declared'}.")


def together(policies: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """What all policies could shed; it rests on a meter where each of them does."""
    rows = []
    for parts in zip(*policies, strict=True):
        shed: dict[str, float] = {}
        for name, watts in (each for part in parts for each in part["by_priority"].items()):
            shed[name] = shed.get(name, 0.0) + watts
        metered = all(part["rests_on"] == "meter" for part in parts)
        rows.append(
            {
                "within": parts[0]["within"],
                "watts": sum(part["watts"] for part in parts),
                "by_priority": dict(sorted(shed.items(), key=lambda each: int(each[0]))),
                "rests_on": "meter" if metered else "declared",
            }
        )
    return rows
