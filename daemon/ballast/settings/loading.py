"""Reads environment and file into `Settings`, with the origin of each value."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ballast.base.errors import SettingsError
from ballast.settings.consistency import contradictions, impossible_windows, remarks
from ballast.settings.messages import problem, shown
from ballast.settings.model import CONFIG_FILE, VARIABLES, Settings
from ballast.settings.sources import ORIGIN, AliasSource, EnvironmentSource, FileSource, GivenValue, SettingsSource

TOKEN = "METRICS_PROVIDER_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class SettingsFindings:
    """What was read; `settings` has the default where a value could not be used."""

    settings: Settings
    values: Mapping[tuple[str, str], GivenValue]
    """Every value that was set, by (part, field)."""
    unusable: frozenset[tuple[str, str]]
    """The (part, field) of each value that could not be used."""
    problems: tuple[str, ...]
    """What stops the start, one sentence each."""
    warnings: tuple[str, ...]


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads `os.environ`, or the mapping given; raises SettingsError with all problems at once."""
    findings = examine(environ)
    if findings.problems:
        raise SettingsError(*findings.problems)
    return findings.settings


def examine(environ: Mapping[str, str] | None = None) -> SettingsFindings:
    """Like `load`, but reports problems and warnings instead of raising."""
    environ = os.environ if environ is None else environ
    path = environ.get(CONFIG_FILE, "").strip()
    file, environment = FileSource(Path(path).expanduser() if path else None), EnvironmentSource(environ)
    aliases = AliasSource(environ, own={*file.values, *environment.values})
    values = {**file.values, **aliases.values, **environment.values}
    settings, errors = _build((environment, aliases, file), values)
    problems = [*file.problems, *aliases.problems, *environment.problems]
    problems.extend(dict.fromkeys(problem(error, values) for error in errors))
    warnings = [*file.warnings, *aliases.warnings, *environment.warnings]
    if not errors:
        problems.extend(contradictions(settings))
        warnings.extend(remarks(settings))
        windows_set = not values.keys().isdisjoint({("windows", "lengths"), ("windows", "min_samples")})
        (problems if windows_set else warnings).extend(impossible_windows(settings))
    return SettingsFindings(settings, values, frozenset(map(_place, errors)), tuple(problems), tuple(warnings))


def explain(environ: Mapping[str, str] | None = None, findings: SettingsFindings | None = None) -> list[dict[str, Any]]:
    """`{"name", "value", "origin"}` of every setting; an unusable value is shown as written."""
    environ = os.environ if environ is None else environ
    findings = findings or examine(environ)
    path = environ.get(CONFIG_FILE, "").strip() or None
    rows = [{"name": CONFIG_FILE, "value": path, "origin": ORIGIN if path else "default"}]
    if ("prometheus", "token") in findings.values:
        rows.append(_row(findings, TOKEN, "prometheus", "token"))
    rows.extend(_row(findings, name, part, field) for name, (part, field) in VARIABLES.items())
    return rows


def _row(findings: SettingsFindings, name: str, part: str, field: str) -> dict[str, Any]:
    entry = findings.values.get((part, field))
    if entry is not None and (part, field) in findings.unusable:
        value = entry.value
    else:
        value = getattr(getattr(findings.settings, part), field)
    return {"name": name, "value": shown(part, field, value), "origin": entry.origin if entry else "default"}


def _build(
    sources: tuple[SettingsSource, ...], values: Mapping[tuple[str, str], GivenValue]
) -> tuple[Settings, list[ErrorDetails]]:
    """The settings. The first source with a value wins; unusable values are left out."""
    try:
        return Settings.model_validate({"sources": sources}), []
    except ValidationError as error:
        errors = error.errors()
    bad, usable = set(map(_place, errors)), SettingsSource()
    for place, entry in values.items():
        if place not in bad:
            usable.give(*place, entry.value, entry.origin)
    return Settings(**usable()), errors


def _place(error: ErrorDetails) -> tuple[str, str]:
    return str(error["loc"][0]), str(error["loc"][1])
