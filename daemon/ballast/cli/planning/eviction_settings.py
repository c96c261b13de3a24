"""Eviction settings of the command line, from environment, file and `--set KEY=VALUE`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import typer

from ballast.base.errors import SettingsError, UsageError
from ballast.base.text import nearest
from ballast.eviction.gate_rules import UNLIMITED, GateRules
from ballast.planners.built_in import find
from ballast.planning.from_settings import rules_of
from ballast.settings import Settings, examine
from ballast.settings.model import VARIABLES, variable

_PART = "eviction"
_WEIGHTS = "weights"
"""Stands for BALLAST_SCORING__RESOURCES."""

_FIELDS = tuple(field for part, field in VARIABLES.values() if part == _PART)


def settings_of(pairs: Sequence[str], more: Mapping[str, str] | None = None) -> tuple[Settings, frozenset[str]]:
    """Returns the settings and the eviction fields that were set; `more` has further environment variables.

    Raises UsageError for an invalid pair, SettingsError for an invalid value.
    """
    environ = {**os.environ, **(more or {})}
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not value.strip():
            raise UsageError(f"--set {pair}: give KEY=VALUE.")
        if key == _WEIGHTS:
            environ[variable("scoring", "resources")] = value.strip()
            options[variable("scoring", "resources")] = key
            continue
        if key not in _FIELDS:
            hint = nearest(key, (*_FIELDS, _WEIGHTS), f"Choose one of {', '.join(_FIELDS)}.")
            raise UsageError(f"--set {pair}: there is no {key}. {hint}")
        environ[variable(_PART, key)] = value.strip()
        options[variable(_PART, key)] = key
    findings = examine(environ)
    for warning in findings.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if findings.problems:
        raise SettingsError(*(_with_option(problem, options) for problem in findings.problems))
    return findings.settings, frozenset(field for part, field in findings.values if part == _PART)


def offline_rules(settings: Settings, given: frozenset[str], planner: str = "") -> GateRules:
    """Rules without history: no rates, and limits only if they are among the `given` fields."""
    limits = ("limit_total", "limit_node", "limit_namespace", "limit_workload")
    unset: dict[str, Any] = {name: UNLIMITED for name in limits if name not in given}
    chosen = find(planner)
    moves = chosen is None or chosen.moves
    return replace(rules_of(settings), rates=(), planner=planner, moves=moves, **unset)


def _with_option(problem: str, options: Mapping[str, str]) -> str:
    """Names `--set KEY` in place of the environment as the origin of a value."""
    name = problem.split(" ", 1)[0]
    return problem.replace("(environment)", f"(--set {options[name]})") if name in options else problem
