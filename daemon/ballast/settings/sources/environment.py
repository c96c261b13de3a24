"""Settings from `BALLAST_*` variables."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_settings import EnvSettingsSource

from ballast.settings.model import Settings
from ballast.settings.names import CONFIG_FILE, PREFIX, VARIABLES, injected, suggestion, variable
from ballast.settings.sources.source import SettingsSource

ORIGIN = "environment"

_POWER = f"{PREFIX}POWER"
_LIST = variable("power", "policies")
_POLICIES = f" Power policies are a JSON list in {_LIST}, or stand under power in the file of {CONFIG_FILE}."


class EnvironmentSource(EnvSettingsSource, SettingsSource):
    """An empty variable counts as unset; an unknown one is a problem, unless Kubernetes set it for a Service."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        self.env_vars = {name.lower(): text for name in VARIABLES if (text := environ.get(name, "").strip())}
        for part, fields in self().items():
            for field, text in fields.items():
                self.give(part, field, text, ORIGIN)
        for name, text in environ.items():
            if name.startswith(PREFIX) and name not in VARIABLES and name != CONFIG_FILE:
                self._unknown(name, text)

    def _unknown(self, name: str, text: str) -> None:
        meant = suggestion(name)
        if not injected(name):
            self.problems.append(
                f"{name} is not a setting of Ballast."
                + (_POLICIES if name.startswith(_POWER) else "")
                + (f" Did you mean {meant}?" if meant else " `ballast config show` lists all settings.")
                + " Correct or unset it."
            )
        elif meant and meant.replace("__", "_") == name and "://" not in text:
            self.warnings.append(
                f"{name} is ignored because it has the form of a Kubernetes Service variable. Did you mean {meant}?"
            )
