"""The settings of evictions on the command line: environment, file, and `--set KEY=VALUE`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import typer

from ballast.errors import SettingsError, UsageError
from ballast.eviction.rules import UNLIMITED, GateRules
from ballast.jobs.eviction.rules import rules_of
from ballast.settings import Settings, examine
from ballast.settings.names import VARIABLES, variable

_PART = "eviction"
_FIELDS = tuple(field for part, field in VARIABLES.values() if part == _PART)


def settings_of(pairs: Sequence[str], more: Mapping[str, str] | None = None) -> tuple[Settings, frozenset[str]]:
    """The settings, and which fields of evictions somebody gave; `more` are whole variables.

    Raises UsageError for a pair that is none, SettingsError for values that cannot be used.
    """
    environ = {**os.environ, **(more or {})}
    told: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not value.strip():
            raise UsageError(f"--set {pair}: give KEY=VALUE.")
        if key not in _FIELDS:
            close = get_close_matches(key, _FIELDS, 1)
            hint = f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(_FIELDS)}."
            raise UsageError(f"--set {pair}: there is no {key}. {hint}")
        environ[variable(_PART, key)] = value.strip()
        told[variable(_PART, key)] = key
    findings = examine(environ)
    for warning in findings.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if findings.problems:
        raise SettingsError(*(_told(problem, told) for problem in findings.problems))
    return findings.settings, frozenset(field for part, field in findings.values if part == _PART)


def offline_rules(settings: Settings, given: frozenset[str]) -> GateRules:
    """Limits hold when they are among the `given` fields, what only time can show is met."""
    limits = ("limit_total", "limit_node", "limit_namespace", "limit_workload")
    unset: dict[str, Any] = {name: UNLIMITED for name in limits if name not in given}
    return replace(rules_of(settings), rates=(), **unset)


def _told(problem: str, told: Mapping[str, str]) -> str:
    name = problem.split(" ", 1)[0]
    return problem.replace("(environment)", f"(--set {told[name]})") if name in told else problem
