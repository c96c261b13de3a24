"""All settings, one frozen part per concern.

`BaseSettings` declares how the variables are named; its sources stay off: they keep no origins and decode lists as
JSON only.
"""

from __future__ import annotations

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

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
        frozen=True, extra="forbid", env_prefix="BALLAST_", env_nested_delimiter="__", validate_default=True
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
        """Only the arguments: `ballast.settings.sources` reads environment and file."""
        return (init_settings,)
