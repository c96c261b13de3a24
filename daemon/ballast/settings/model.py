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
from ballast.settings.http import Http
from ballast.settings.lease import LeaseSettings
from ballast.settings.log import Log
from ballast.settings.metrics import MetricsSettings
from ballast.settings.power import Power
from ballast.settings.prometheus import Prometheus
from ballast.settings.publishing import Publishing
from ballast.settings.scoring import Scoring
from ballast.settings.telemetry import Telemetry
from ballast.settings.windows import Windows


class Settings(BaseSettings):
    """All settings. `Settings()` holds the defaults; `ballast.settings.load` reads environment and file."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="BALLAST_", env_nested_delimiter="__", validate_default=True
    )

    prometheus: Prometheus = Prometheus()
    telemetry: Telemetry = Telemetry()
    windows: Windows = Windows()
    cluster: ClusterSettings = ClusterSettings()
    lease: LeaseSettings = LeaseSettings()
    scoring: Scoring = Scoring()
    publishing: Publishing = Publishing()
    power: Power = Power()
    eviction: EvictionSettings = EvictionSettings()
    batch: BatchSettings = BatchSettings()
    extender: ExtenderSettings = ExtenderSettings()
    http: Http = Http()
    metrics: MetricsSettings = MetricsSettings()
    log: Log = Log()

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
