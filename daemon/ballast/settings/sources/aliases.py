"""The variables of load-watcher as aliases of settings (load-watcher pkg/watcher/internal/metricsprovider)."""

from __future__ import annotations

from collections.abc import Container, Mapping

from ballast.settings.sources.source import SettingsSource

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SOURCES = {"prometheus": "prometheus", "kubernetesmetricsserver": "metrics-server"}
_REFUSED = {"signalfx": "SignalFx", "datadog": "Datadog"}
_LEVELS = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "fatal": "error",
    "panic": "error",
}
_IGNORED = (
    "METRICS_PROVIDER_APP_KEY",
    "SIGNALFX_HOST_NAME_SUFFIX",
    "SIGNALFX_CLUSTER_NAME",
    "DATADOG_HOST_NAME_SUFFIX",
    "DATADOG_CLUSTER_NAME",
)


class AliasSource(SettingsSource):
    """The values of load-watcher's variables, which `BALLAST_` variables beat.

    They set a way to authenticate only if no setting in `own` does; an inline token beats a token file.
    """

    def __init__(self, environ: Mapping[str, str], own: Container[tuple[str, str]]) -> None:
        super().__init__()
        given = {name: text.strip() for name, text in environ.items()}

        def alias(name: str, part: str, field: str, value: object = None) -> None:
            if value is not None or given.get(name):
                self.give(part, field, given[name] if value is None else value, f"alias {name}")

        if name := given.get("METRICS_PROVIDER_NAME"):
            if name.lower() not in _REFUSED:
                alias("METRICS_PROVIDER_NAME", "telemetry", "source", _SOURCES.get(name.lower(), name))
            elif not environ.get("BALLAST_TELEMETRY__SOURCE"):
                self.problems.append(
                    f'METRICS_PROVIDER_NAME is "{name}": {_REFUSED[name.lower()]} is not supported, expected '
                    "Prometheus or KubernetesMetricsServer. Correct it, or set BALLAST_TELEMETRY__SOURCE to prometheus "
                    "or metrics-server."
                )
        alias("METRICS_PROVIDER_ADDRESS", "prometheus", "url")
        if skip := given.get("INSECURE_SKIP_VERIFY"):
            alias("INSECURE_SKIP_VERIFY", "prometheus", "insecure_skip_verify", skip.lower() == "true")
        authenticated = ("prometheus", "token_file") in own or ("prometheus", "username") in own
        if not authenticated:
            alias("METRICS_PROVIDER_TOKEN", "prometheus", "token")
        if "ENABLE_OPENSHIFT_AUTH" in given:
            if not authenticated and ("prometheus", "token") not in self.values:
                alias("ENABLE_OPENSHIFT_AUTH", "prometheus", "token_file", f"{SERVICE_ACCOUNT}/token")
            alias("ENABLE_OPENSHIFT_AUTH", "prometheus", "ca_file", f"{SERVICE_ACCOUNT}/ca.crt")
        alias("KUBE_CONFIG", "cluster", "kubeconfig")
        if level := given.get("LOG_LEVEL", "").lower():
            if level in _LEVELS:
                alias("LOG_LEVEL", "log", "level", _LEVELS[level])
            elif not environ.get("BALLAST_LOG__LEVEL"):
                self.warnings.append(f'LOG_LEVEL is "{level}", which is not a level of load-watcher; it is ignored.')
        self.warnings.extend(
            f"{name} has no effect in Ballast and is ignored." for name in _IGNORED if environ.get(name)
        )
