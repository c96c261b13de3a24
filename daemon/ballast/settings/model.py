"""All settings, one frozen part per concern; the names of their variables, and suggestions for misspelt ones."""

import re
from difflib import get_close_matches
from types import MappingProxyType

from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from ballast.settings.eviction import EvictionSettings
from ballast.settings.plain_parts import (
    BatchSettings,
    ClusterSettings,
    ExtenderSettings,
    HttpSettings,
    LeaseSettings,
    LogSettings,
    MetricsSettings,
    PowerSettings,
    PublishingSettings,
    ScoringSettings,
    WindowSettings,
)
from ballast.settings.prometheus import PrometheusSettings
from ballast.settings.telemetry import TelemetrySettings


class Settings(BaseSettings):
    """All settings. `Settings()` holds the defaults; `ballast.settings.load` reads environment and file."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="BALLAST_",
        env_nested_delimiter="__",
        enable_decoding=False,
        validate_default=True,
    )

    prometheus: PrometheusSettings = PrometheusSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    windows: WindowSettings = WindowSettings()
    cluster: ClusterSettings = ClusterSettings()
    lease: LeaseSettings = LeaseSettings()
    scoring: ScoringSettings = ScoringSettings()
    publishing: PublishingSettings = PublishingSettings()
    power: PowerSettings = PowerSettings()
    eviction: EvictionSettings = EvictionSettings()
    batch: BatchSettings = BatchSettings()
    extender: ExtenderSettings = ExtenderSettings()
    http: HttpSettings = HttpSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Those of the argument `sources`; the first one wins. Without it: the arguments alone."""
        assert isinstance(init_settings, InitSettingsSource)
        sources: tuple[PydanticBaseSettingsSource, ...] = init_settings.init_kwargs.pop("sources", (init_settings,))
        return sources


PREFIX = Settings.model_config["env_prefix"]
CONFIG_FILE = f"{PREFIX}CONFIG_FILE"

_DELIMITER = Settings.model_config["env_nested_delimiter"]

_INJECTED = re.compile(r"BALLAST(_[A-Z0-9]+)*_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_[A-Z0-9_]+)?)")


def variable(part: str, field: str) -> str:
    """`BALLAST_<PART>__<FIELD>`."""
    return f"{PREFIX}{part}{_DELIMITER}{field}".upper()


VARIABLES = MappingProxyType(
    {
        variable(part, field): (part, field)
        for part, described in Settings.model_fields.items()
        for field, info in described.annotation.model_fields.items()  # type: ignore[union-attr]
        if not info.exclude
    }
)
"""Full name of each variable → its part and field."""


def injected(name: str) -> bool:
    """Whether Kubernetes may have set this variable for a Service whose name begins with ballast."""
    return name not in VARIABLES and "__" not in name and _INJECTED.fullmatch(name) is not None


def suggestion(name: str) -> str | None:
    """The variable that was probably meant, None if no name is close."""
    key = name.upper().removeprefix(PREFIX)
    part, separator, field = key.partition("__")
    if separator:
        fields = {known.removeprefix(PREFIX).partition("__")[2] for known in VARIABLES}
        parts = get_close_matches(part, [known.upper() for known in Settings.model_fields], n=1, cutoff=0.7)
        siblings = {f for p, f in VARIABLES.values() if parts and p.upper() == parts[0]}
        near = get_close_matches(field, [sibling.upper() for sibling in siblings], n=1, cutoff=0.65)
        if near:
            return variable(parts[0], near[0])
        elsewhere = [known for known, (_, f) in VARIABLES.items() if f.upper() == field] if field in fields else []
        return elsewhere[0] if len(elsewhere) == 1 else None
    flat = {known.removeprefix(PREFIX).replace("__", "_"): known for known in (*VARIABLES, CONFIG_FILE)}
    near = get_close_matches(key, flat, n=1, cutoff=0.7)
    return flat[near[0]] if near else None
