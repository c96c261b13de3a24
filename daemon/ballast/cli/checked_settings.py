"""The settings as `ballast run` needs them; `ballast config check` asks the same."""

from __future__ import annotations

from ballast.errors import SettingsError
from ballast.extender import strategies
from ballast.jobs.power import build
from ballast.settings import Settings, examine, needed_to_run


def checked() -> tuple[Settings, tuple[str, ...]]:
    """The settings and what to warn of. Raises SettingsError with everything that keeps the daemon from starting."""
    findings = examine()
    power = build.findings(findings.settings)
    needed = () if findings.unusable else (*needed_to_run(findings.settings), *strategies.problems(findings.settings))
    problems = (*findings.problems, *needed, *power.problems)
    if problems:
        for warning in (*findings.warnings, *power.warnings):
            problems = (*problems, f"warning: {warning}")
        raise SettingsError(*problems)
    return findings.settings, (*findings.warnings, *power.warnings)
