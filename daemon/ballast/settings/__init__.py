"""The settings of Ballast: from the environment, the configuration file and the defaults."""

from ballast.settings.consistency import check_run, needed_to_run
from ballast.settings.eviction import EvictionSettings
from ballast.settings.loading import SettingsFindings, examine, explain, load
from ballast.settings.model import Settings
from ballast.settings.part import Mode
from ballast.settings.plain_parts import (
    ClusterSettings,
    ExtenderSettings,
    HttpSettings,
    LeaseSettings,
    LogSettings,
    PowerSettings,
    PublishingSettings,
    WindowSettings,
)
from ballast.settings.prometheus import PrometheusSettings
from ballast.settings.secrets import mask_urls
from ballast.settings.telemetry import ResourceSetting, TelemetrySettings
from ballast.settings.written import Count, Duration, Rate

__all__ = [
    "ClusterSettings",
    "Count",
    "Duration",
    "EvictionSettings",
    "ExtenderSettings",
    "HttpSettings",
    "LeaseSettings",
    "LogSettings",
    "Mode",
    "PowerSettings",
    "PrometheusSettings",
    "PublishingSettings",
    "Rate",
    "ResourceSetting",
    "Settings",
    "SettingsFindings",
    "TelemetrySettings",
    "WindowSettings",
    "check_run",
    "examine",
    "explain",
    "load",
    "mask_urls",
    "needed_to_run",
]
