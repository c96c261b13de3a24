"""Which of the rights that the chart grants to the daemon the tests have used, by the audit log."""

from __future__ import annotations

from collections.abc import Iterable

from ballast_lab.harness.api import Json

Right = tuple[str, str, str]
"""API group ("" is core), resource with subresource, verb."""


def granted(manifests: Iterable[Json], account: str) -> set[Right]:
    """What roles and cluster roles of the rendered chart give to a ServiceAccount."""
    manifests = list(manifests)
    roles = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in manifests
        if each["kind"].endswith("RoleBinding")
        and any(subject["name"] == account for subject in each.get("subjects", ()))
    }
    return {
        (group, resource, verb)
        for each in manifests
        if (each["kind"], each["metadata"]["name"]) in roles
        for rule in each.get("rules") or ()
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }


def report(given: set[Right], used: set[Right]) -> list[str]:
    """Sentences: how many rights nobody used, and a line for each."""
    idle = sorted(given - used)
    lines = [f"The tests used {len(given & used)} of the {len(given)} rights that the chart can grant to the daemon."]
    return lines + [f"never used: {verb} {resource}{f'.{group}' if group else ''}" for group, resource, verb in idle]
