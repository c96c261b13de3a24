"""The strategies with the keys, the policy and the files that the settings give them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from ballast.base import yaml_loader
from ballast.base.errors import UsageError
from ballast.scoring import balanced, dominant_residual, dynamic, load_variation
from ballast.scoring.crane import DEFAULT_POLICY, parse_policy
from ballast.scoring.protocol import Strategy
from ballast.scoring.strategy import names, strategy
from ballast.settings import Settings
from ballast.settings.model import variable

FILES = ("policy", "node_power_model")
"""Keys whose value may be the name of a file."""

SETTING = variable("scoring", "keys")


class Strategies:
    """Makes strategies with the keys of the settings. Files are read once, when it is created."""

    def __init__(self, settings: Settings | None = None) -> None:
        """Raises UsageError for a file that cannot be read, and for a policy that cannot be used."""
        settings = settings or Settings()
        publishing = settings.publishing
        own: dict[str, object] = {"policy": DEFAULT_POLICY, "timezone": publishing.crane_timezone}
        if publishing.crane_policy_file:
            own["policy"] = _policy(publishing.crane_policy_file)
        self._keys = {name: _with_files(keys) for name, keys in settings.scoring.keys.items()}
        weights: dict[str, object] = {"resources": settings.scoring.resources}
        if settings.scoring.node_weights:
            weights["node_weights"] = settings.scoring.node_weights
        self._keys[load_variation.NAME] = weights | self._keys.get(load_variation.NAME, {})
        self._keys[dynamic.NAME] = own | self._keys.get(dynamic.NAME, {})
        try:
            self.policy = dynamic.parse(self._keys[dynamic.NAME]).policy
        except UsageError as error:
            raise UsageError(f"{SETTING}: {dynamic.NAME}: {error}") from None

    def make(
        self, name: str, in_flight: str = "off", residual: Strategy | None = None, *, deviation: bool = True
    ) -> Strategy:
        """`residual` replaces the plain dominant-residual strategy, which scores all nodes again for each pod. Without
        `deviation` load-variation goes by the mean alone, unless its keys say otherwise.

        Raises UsageError for a name that is no strategy and for keys that are missing or not allowed.
        """

        def part(each: str, keys: Mapping[str, object]) -> Strategy:
            if residual is not None and each == dominant_residual.NAME:
                return residual
            mean = {} if deviation or each != load_variation.NAME else {"safe_variance_margin": 0.0}
            return strategy(each, {**keys, **mean, **self._keys.get(each, {})}, part)

        try:
            return part(name, {"in_flight": in_flight})
        except UsageError as error:
            raise UsageError(f"{error} Its keys are given in {SETTING}." if name in names() else str(error)) from error


def problems(settings: Settings) -> Iterator[str]:
    """One sentence for each strategy that the daemon uses but cannot make from its keys."""
    try:
        strategies = Strategies(settings)
    except UsageError as error:
        yield str(error)
        return
    if settings.publishing.strategy == balanced.NAME:
        yield (
            f"{variable('publishing', 'strategy')}=balanced scores what one pod changes on a node, and a label is for "
            "every pod. Use it for the extender, and least-allocated, dominant-residual or load-variation here."
        )
    used = {
        settings.extender.strategy: variable("extender", "strategy"),
        settings.publishing.strategy: variable("publishing", "strategy"),
    }
    for name, setting in (dict.fromkeys(settings.scoring.keys, SETTING) | used).items():
        try:
            strategies.make(name)
        except UsageError as error:
            yield f"{setting}: {error}"


def _with_files(keys: Mapping[str, object]) -> dict[str, object]:
    read = {
        key: _document(Path(value), SETTING) for key, value in keys.items() if key in FILES and isinstance(value, str)
    }
    return {**keys, **read}


def _policy(path: Path) -> object:
    setting = variable("publishing", "crane_policy_file")
    document = _document(path, setting)
    try:
        parse_policy(document)
    except UsageError as error:
        raise UsageError(f"{setting}: {path}: {error}") from None
    return document


def _document(path: Path, setting: str) -> object:
    try:
        return yaml_loader.load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{setting}: {path} cannot be read: {error}.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{setting}: {path} is neither YAML nor JSON: {' '.join(str(error).split())}.") from None
