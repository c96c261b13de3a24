"""The part `publishing` of the settings."""

from __future__ import annotations

from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

from ballast.settings.part import File, Mode, ModeSetting, Positive, SettingsPart
from ballast.settings.strategy import Strategy
from ballast.settings.telemetry import TelemetrySettings
from ballast.settings.values.dns import subdomain
from ballast.settings.values.duration import Duration
from ballast.settings.values.fraction import LoadLimit, Share


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError("expected an IANA time zone such as Asia/Shanghai or UTC") from None
    return name


class PublishingSettings(SettingsPart):
    """What is written on the nodes."""

    mode: ModeSetting = Mode.DRY_RUN
    """Whether labels, annotations and taints are written."""

    prefix: Annotated[str, AfterValidator(subdomain)] = "ballast.dev"
    """Prefix of all label, annotation and taint keys."""

    strategy: Strategy = "load-variation"
    """Strategy behind the score label."""

    taint: bool = False
    """Also taint overloaded nodes with PreferNoSchedule."""

    load_taint: Literal["PreferNoSchedule", "NoSchedule"] | None = None
    """Effect of a taint `load` with the load in percent, for tolerations with Lt and Gt; unset: none. NoSchedule keeps
    off every pod that does not tolerate it."""

    crane: bool = False
    """Also write the annotations of crane-scheduler."""

    crane_policy_file: File | None = None
    """DynamicSchedulerPolicy file of crane-scheduler; unset: its default policy."""

    crane_timezone: Annotated[str, AfterValidator(_time_zone)] = "Asia/Shanghai"
    """Time zone of the timestamps in crane's annotations."""

    max_unknown: Share = 0.2
    """Share of silent nodes, among the known and silent ones, above which publishing freezes."""

    forget_after: Duration = Duration("1h")
    """How long keys stay on young nodes and during a freeze, taints on nodes that are not known, and how long a
    resource that not every node has is missed."""

    interval: Annotated[Duration, Positive] | None = None
    """Time between two rounds of writing; unset: the telemetry interval."""

    jitter: Share = 0.1
    """Share of the interval over which writes are spread."""

    refresh: Annotated[Duration, Positive] = Duration("1h")
    """Time after which a node is written even if no label changed."""

    low: LoadLimit = 0.3
    """Load below which the class is low: a number for cpu and memory, or a map such as {"cpu": 0.3, "gpu": 0.2}; the
    class is low where all of these are."""

    high: LoadLimit = 0.8
    """Load from which the class is high, as low: where one of these is."""

    overloaded: LoadLimit = 0.9
    """Load from which the taint is set, as high."""

    class_hysteresis: Share = 0.05
    """How far a load must pass a threshold to change the class."""

    def every(self, telemetry: TelemetrySettings) -> Duration:
        """Time between two rounds of writing: `interval`, or the telemetry interval."""
        return self.interval or telemetry.interval
