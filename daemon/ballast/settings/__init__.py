"""The settings of Ballast: from the environment, the configuration file and the defaults."""

from __future__ import annotations

from ballast.settings.cluster import ClusterSettings
from ballast.settings.consistency import check_run, needed_to_run
from ballast.settings.eviction import EvictionSettings
from ballast.settings.extender import ExtenderSettings
from ballast.settings.http import HttpSettings
from ballast.settings.lease import LeaseSettings
from ballast.settings.loading import SettingsFindings, examine, explain, load
from ballast.settings.log import LogSettings
from ballast.settings.masking import mask_urls
from ballast.settings.model import Settings
from ballast.settings.part import Mode
from ballast.settings.power import PowerSettings
from ballast.settings.prometheus import PrometheusSettings
from ballast.settings.publishing import PublishingSettings
from ballast.settings.telemetry import ResourceSetting, TelemetrySettings
from ballast.settings.values.count import Count, Rate
from ballast.settings.values.duration import Duration
from ballast.settings.windows import WindowSettings

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
