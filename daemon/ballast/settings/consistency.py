"""Rules between settings: contradictions, settings without effect, and what `ballast run` needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from ballast.base.errors import SettingsError, UsageError
from ballast.settings.eviction import EvictionSettings
from ballast.settings.model import Settings, variable
from ballast.settings.part import Mode
from ballast.settings.plain_parts import ExtenderSettings, PublishingSettings
from ballast.settings.prometheus import BUILT_IN_PRESETS

if TYPE_CHECKING:
    from ballast.scoring.protocol import Strategy

Limit: TypeAlias = float | Mapping[str, float]

_UNCHANGED = (PublishingSettings().strategy, ExtenderSettings().strategy)

CRANE_MEAN = 300.0
"""Seconds over which crane-scheduler averages its metrics."""


def contradictions(settings: Settings) -> Iterator[str]:
    """One sentence for each contradiction between settings."""
    yield from _authentication(settings)
    yield from _presets(settings)
    yield from _pairs(settings)
    yield from _windows(settings)
    yield from _thresholds(settings)
    yield from _batch(settings)


def remarks(settings: Settings) -> Iterator[str]:
    """One sentence for each setting that is valid but does not do what it seems to."""
    prometheus, publishing = settings.prometheus, settings.publishing
    if prometheus.insecure_skip_verify and prometheus.ca_file:
        yield (
            "BALLAST_PROMETHEUS__CA_FILE has no effect while BALLAST_PROMETHEUS__INSECURE_SKIP_VERIFY is true. "
            "Unset one of them."
        )
    if prometheus.url and prometheus.url.lower().startswith("http://") and (prometheus.ca_file or prometheus.cert_file):
        yield (
            "BALLAST_PROMETHEUS__CA_FILE, CERT_FILE and KEY_FILE have no effect, BALLAST_PROMETHEUS__URL begins with "
            "http://. Use https://, or unset them."
        )
    if settings.telemetry.source == "metrics-server":
        extra = [resource.name for resource in settings.telemetry.resources if resource.name not in ("cpu", "memory")]
        if extra and prometheus.url is None:
            yield (
                f"BALLAST_TELEMETRY__RESOURCES has {', '.join(extra)}, but metrics-server knows only cpu and memory. "
                "Remove them, or set BALLAST_TELEMETRY__SOURCE to prometheus."
            )
    if publishing.crane and publishing.mode is Mode.OFF:
        yield "BALLAST_PUBLISHING__CRANE has no effect while BALLAST_PUBLISHING__MODE is off. Change one of them."
    if publishing.crane and CRANE_MEAN not in settings.windows.lengths:
        yield (
            "BALLAST_WINDOWS__LENGTHS has no 5m, the time over which crane-scheduler averages its metrics: the nearest "
            "length is used instead. Add 5m."
        )
    if publishing.crane_policy_file and not publishing.crane and publishing.strategy != "dynamic":
        yield (
            "BALLAST_PUBLISHING__CRANE_POLICY_FILE has no effect while BALLAST_PUBLISHING__CRANE is false. "
            "Set CRANE to true, or unset the file."
        )
    yield from _of_evictions(settings.eviction)
    yield from _undecided(settings)


def _of_evictions(eviction: EvictionSettings) -> Iterator[str]:
    filled = {
        name: (target, high)
        for name, target, high in _common(eviction.target_high, eviction.high)
        if eviction.deviation is None and target > high
    }
    if filled:
        target, high = _shown(filled, eviction.target_high, eviction.high)
        yield (
            f"BALLAST_EVICTION__TARGET_HIGH = {target} is above HIGH = {high}, up to which "
            "relieve fills its targets: the other planners may fill nodes that relieve then has to empty. "
            "Lower TARGET_HIGH."
        )
    for name, mode in eviction.modes.items():
        if eviction.mode is not Mode.OFF and mode is not eviction.mode_of(name):
            yield (
                f"BALLAST_EVICTION__MODES has {mode.value} for {name}, which may do no more than MODE = "
                f"{eviction.mode.value}. Change one of them."
            )
    if "kappa" in eviction.model_fields_set:
        yield (
            f"BALLAST_EVICTION__KAPPA = {eviction.kappa:g} decides nothing any more: what room is worth is learned. "
            "Unset it."
        )


def _undecided(settings: Settings) -> Iterator[str]:
    """Resources that are measured and decide nothing, and those that are to decide and are not measured."""
    publishing, eviction = settings.publishing, settings.eviction
    weights = {name for name, weight in settings.scoring.resources.items() if weight > 0}
    limits = (publishing.high, publishing.overloaded, eviction.high, eviction.target_high)
    limited = {name for limit in limits if isinstance(limit, Mapping) for name in limit}
    measured = [resource.name for resource in settings.telemetry.resources]
    read = dict(_read(settings))
    for name in measured:
        if name not in ("cpu", "memory") and name not in weights | limited | read.keys():
            yield (
                f"BALLAST_TELEMETRY__RESOURCES has {name}, which is measured and shown, but decides nothing. Give it a "
                f'weight, such as BALLAST_SCORING__RESOURCES={{"cpu": 1, "memory": 1, "{name}": 0.5}}, or a limit in '
                "BALLAST_PUBLISHING__HIGH or BALLAST_EVICTION__HIGH."
            )
    for name in sorted((weights | limited) - {"cpu", "memory"} - set(measured)):
        yield (
            f"{name} has a weight or a limit, but BALLAST_TELEMETRY__RESOURCES does not have it, so it decides "
            "nothing. Add it there."
        )
    for name in sorted(read.keys() - weights - limited - {"cpu", "memory"} - set(measured)):
        yield (
            f"The strategy {read[name]} reads {name}, but BALLAST_TELEMETRY__RESOURCES does not have it, so no node's "
            f"{name} is known. Add it there."
        )


def _read(settings: Settings) -> Iterator[tuple[str, str]]:
    """(resource, strategy) of each that a strategy of these settings reads; those that cannot be made are left out."""
    chosen = (settings.publishing.strategy, settings.extender.strategy)
    if chosen == _UNCHANGED and not settings.scoring.keys:
        return
    from ballast.scoring.protocol import reads  # numpy is slow to import, and most commands need no strategy
    from ballast.scoring.strategy import strategy

    def part(name: str, keys: Mapping[str, object]) -> Strategy:
        return strategy(name, {**keys, **settings.scoring.keys.get(name, {})}, part)

    for name in chosen:
        with suppress(UsageError):
            yield from ((resource, name) for resource in reads(part(name, {})))


def impossible_windows(settings: Settings) -> Iterator[str]:
    """One sentence for each window that can never hold enough samples to be known."""
    for length in settings.windows.lengths:
        needed = settings.telemetry.interval * settings.windows.min_samples
        if length < needed:
            yield (
                f"The window {length.text} of BALLAST_WINDOWS__LENGTHS can never be known: "
                f"BALLAST_WINDOWS__MIN_SAMPLES = {settings.windows.min_samples} samples at "
                f"BALLAST_TELEMETRY__INTERVAL = {settings.telemetry.interval.text} take {needed:g}s. "
                "Lengthen the window, or lower one of the others."
            )


def check_run(settings: Settings) -> None:
    """Raises SettingsError for what `ballast run` cannot do without."""
    if problems := tuple(needed_to_run(settings)):
        raise SettingsError(*problems)


def needed_to_run(settings: Settings) -> Iterator[str]:
    """One sentence for each setting that `ballast run` cannot work with, or that it needs and that has no default."""
    if settings.telemetry.source == "prometheus" and settings.prometheus.url is None:
        yield (
            "BALLAST_PROMETHEUS__URL is not set, and BALLAST_TELEMETRY__SOURCE is prometheus: expected the address of "
            "Prometheus, such as http://prometheus-k8s.monitoring:9090. Set it, or set BALLAST_TELEMETRY__SOURCE to "
            "metrics-server."
        )


def _authentication(settings: Settings) -> Iterator[str]:
    prometheus = settings.prometheus
    ways = {
        variable("prometheus", "token_file"): prometheus.token_file,
        "METRICS_PROVIDER_TOKEN": prometheus.token,
        variable("prometheus", "username"): prometheus.username,
        "an Authorization header in BALLAST_PROMETHEUS__HEADERS": "authorization" in map(str.lower, prometheus.headers),
        "a user in BALLAST_PROMETHEUS__URL": prometheus.url and "@" in urlsplit(prometheus.url).netloc,
    }
    chosen = [name for name, value in ways.items() if value]
    if len(chosen) > 1:
        yield f"{' and '.join(chosen)} are different ways to authenticate: expected one of them. Unset the others."
    yield from _together(settings, "prometheus", "username", "password_file")


def _presets(settings: Settings) -> Iterator[str]:
    chosen = settings.prometheus.presets
    if settings.telemetry.source != "prometheus" or any(name not in BUILT_IN_PRESETS for name in chosen):
        return
    for resource in settings.telemetry.resources:
        name = resource.name
        if resource.query is None and not any(name in BUILT_IN_PRESETS[preset] for preset in chosen):
            having = next(preset for preset, resources in BUILT_IN_PRESETS.items() if name in resources)
            yield (
                f"BALLAST_TELEMETRY__RESOURCES: {name!r} needs a query, since BALLAST_PROMETHEUS__PRESET = "
                f"{settings.prometheus.preset} does not measure it. Give a query for {name}, or set "
                f"BALLAST_PROMETHEUS__PRESET={settings.prometheus.preset},{having}."
            )


def _pairs(settings: Settings) -> Iterator[str]:
    yield from _together(settings, "prometheus", "cert_file", "key_file")
    yield from _together(settings, "http", "tls_cert_file", "tls_key_file")
    if settings.http.client_ca_file and not settings.http.tls_cert_file:
        yield (
            f'BALLAST_HTTP__CLIENT_CA_FILE is "{settings.http.client_ca_file}": client certificates need TLS. '
            "Set BALLAST_HTTP__TLS_CERT_FILE and BALLAST_HTTP__TLS_KEY_FILE too, or unset it."
        )
    own, everybody = settings.extender.client_ca_file, settings.http.client_ca_file
    if own and not settings.http.tls_cert_file:
        yield (
            f'BALLAST_EXTENDER__CLIENT_CA_FILE is "{own}": client certificates need TLS. '
            "Set BALLAST_HTTP__TLS_CERT_FILE and BALLAST_HTTP__TLS_KEY_FILE too, or unset it."
        )
    if own and everybody and own != everybody and settings.http.extender_bind is None:
        yield (
            f'BALLAST_EXTENDER__CLIENT_CA_FILE is "{own}" and BALLAST_HTTP__CLIENT_CA_FILE "{everybody}": one port '
            "asks for certificates of one CA. Give the extender an address of its own in BALLAST_HTTP__EXTENDER_BIND, "
            "or unset one of them."
        )


def _together(settings: Settings, part: str, first: str, second: str) -> Iterator[str]:
    one, other = getattr(getattr(settings, part), first), getattr(getattr(settings, part), second)
    if (one is None) != (other is None):
        present, absent = (first, second) if other is None else (second, first)
        value = one if other is None else other
        yield (
            f'{variable(part, present)} is "{value}", but {variable(part, absent)} is not set: '
            "expected both or neither. Set the other one, or unset it."
        )


def _windows(settings: Settings) -> Iterator[str]:
    lengths = settings.windows.lengths
    doubled = [length.text for i, length in enumerate(lengths) if length in lengths[:i]]
    if doubled:
        yield (
            f"BALLAST_WINDOWS__LENGTHS is {','.join(length.text for length in lengths)}: expected each length once, "
            f"{', '.join(doubled)} is given again. Remove it."
        )


def _batch(settings: Settings) -> Iterator[str]:
    batch = settings.batch
    for name in ("gather", "interval"):
        duration = getattr(batch, name)
        if duration > batch.timeout / 6:
            yield (
                f"{variable('batch', name)} = {duration.text} is more than a sixth of "
                f"BALLAST_BATCH__TIMEOUT = {batch.timeout.text}, after which no pod may be gated any more. "
                f"Lower it to {batch.timeout / 6:g}s, or raise TIMEOUT."
            )


def _thresholds(settings: Settings) -> Iterator[str]:
    low, high, overloaded = settings.publishing.low, settings.publishing.high, settings.publishing.overloaded
    if any(not below < above for _, below, above in _common(low, high)) or any(
        not below <= above for _, below, above in _common(high, overloaded)
    ):
        yield (
            f"BALLAST_PUBLISHING__LOW = {_text(low)}, HIGH = {_text(high)}, OVERLOADED = {_text(overloaded)}: expected "
            "LOW < HIGH <= OVERLOADED. Correct them."
        )
    low, high = settings.eviction.low, settings.eviction.high
    if any(not below < above for _, below, above in _common(low, high)):
        yield (f"BALLAST_EVICTION__LOW = {_text(low)}, HIGH = {_text(high)}: expected LOW < HIGH. Correct them.")


def _common(one: Limit, other: Limit) -> list[tuple[str, float, float]]:
    """(resource, limit, other limit) of each that both count for."""
    first, second = (
        limit if isinstance(limit, Mapping) else dict.fromkeys(("cpu", "memory"), limit) for limit in (one, other)
    )
    return [(name, value, second[name]) for name, value in first.items() if name in second]


def _shown(found: Mapping[str, tuple[float, float]], one: Limit, other: Limit) -> tuple[str, str]:
    if not isinstance(one, Mapping) and not isinstance(other, Mapping):
        return _text(one), _text(other)
    firsts, seconds = ({name: pair[part] for name, pair in found.items()} for part in (0, 1))
    return _text(firsts), _text(seconds)


def _text(limit: Limit) -> str:
    return json.dumps(dict(limit)) if isinstance(limit, Mapping) else f"{limit:g}"
