"""Checks the settings that `ballast run` needs; `ballast config check` makes the same checks."""

from __future__ import annotations

from ballast.base.errors import SettingsError
from ballast.extender import strategies
from ballast.scoring.strategy import REGISTRY
from ballast.settings import Mode, Settings, examine, needed_to_run
from ballast.settings.prometheus import PRESETS


def checked() -> tuple[Settings, tuple[str, ...]]:
    """Returns the settings and warnings. Raises SettingsError with all problems that keep the daemon from starting."""
    findings = examine()
    refused, doubted = _power(findings.settings)
    needed = () if findings.unusable else (*needed_to_run(findings.settings), *strategies.problems(findings.settings))
    problems = (*findings.problems, *needed, *refused)
    hidden = (*REGISTRY.shadowed(), *PRESETS.shadowed())
    warnings = (*findings.warnings, *doubted, *hidden)
    if problems:
        raise SettingsError(*problems, *(f"warning: {warning}" for warning in warnings))
    return findings.settings, warnings


def _power(settings: Settings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Problems and warnings of the power policies. Nothing is imported for them where there are none."""
    if not settings.power.policies and settings.power.mode is not Mode.ON:
        return (), ()
    from ballast.jobs.power import build

    policies = build.findings(settings)
    return policies.problems, policies.warnings
