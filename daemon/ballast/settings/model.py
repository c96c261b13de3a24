"""All settings, one frozen part per concern."""

from __future__ import annotations

from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from ballast.settings.batch import BatchSettings
from ballast.settings.cluster import ClusterSettings
from ballast.settings.eviction import EvictionSettings
from ballast.settings.extender import ExtenderSettings
from ballast.settings.http import HttpSettings
from ballast.settings.lease import LeaseSettings
from ballast.settings.log import LogSettings
from ballast.settings.metrics import MetricsSettings
from ballast.settings.power import PowerSettings
from ballast.settings.prometheus import PrometheusSettings
from ballast.settings.publishing import PublishingSettings
from ballast.settings.scoring import ScoringSettings
from ballast.settings.telemetry import TelemetrySettings
from ballast.settings.windows import WindowSettings


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
        """Those of the argument `sources`, the first of which wins; without it the arguments alone."""
        assert isinstance(init_settings, InitSettingsSource)
        sources: tuple[PydanticBaseSettingsSource, ...] = init_settings.init_kwargs.pop("sources", (init_settings,))
        return sources
