"""Checks the settings that `ballast run` needs; `ballast config check` makes the same checks."""

from __future__ import annotations

from ballast.errors import SettingsError
from ballast.extender import strategies
from ballast.jobs.power import build
from ballast.settings import Settings, examine, needed_to_run


def checked() -> tuple[Settings, tuple[str, ...]]:
    """Returns the settings and warnings. Raises SettingsError with all problems that keep the daemon from starting."""
    findings = examine()
    power = build.findings(findings.settings)
    needed = () if findings.unusable else (*needed_to_run(findings.settings), *strategies.problems(findings.settings))
    problems = (*findings.problems, *needed, *power.problems)
    if problems:
        for warning in (*findings.warnings, *power.warnings):
            problems = (*problems, f"warning: {warning}")
        raise SettingsError(*problems)
    return findings.settings, (*findings.warnings, *power.warnings)
