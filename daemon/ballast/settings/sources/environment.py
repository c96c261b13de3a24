"""Settings from `BALLAST_*` variables."""

from __future__ import annotations

from collections.abc import Mapping

from ballast.settings.names import CONFIG_FILE, PREFIX, VARIABLES, injected, suggestion, variable
from ballast.settings.sources.layer import Layer

ORIGIN = "environment"

_POWER = f"{PREFIX}POWER"
_LIST = variable("power", "policies")
_POLICIES = f" Power policies are a JSON list in {_LIST}, or stand under power in the file of {CONFIG_FILE}."


def read_environment(environ: Mapping[str, str]) -> Layer:
    """An empty variable counts as unset; an unknown one is a problem, unless Kubernetes set it for a Service."""
    layer = Layer()
    for name, value in environ.items():
        if name in VARIABLES:
            if value.strip():
                layer.give(*VARIABLES[name], value.strip(), ORIGIN)
        elif name.startswith(PREFIX) and name != CONFIG_FILE:
            meant = suggestion(name)
            if not injected(name):
                layer.problems.append(
                    f"{name} is not a setting of Ballast."
                    + (_POLICIES if name.startswith(_POWER) else "")
                    + (f" Did you mean {meant}?" if meant else " `ballast config show` lists all settings.")
                    + " Correct or unset it."
                )
            elif meant and meant.replace("__", "_") == name and "://" not in value:
                layer.warnings.append(
                    f"{name} is ignored because it has the form of a Kubernetes Service variable. Did you mean {meant}?"
                )
    return layer
