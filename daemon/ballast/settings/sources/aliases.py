"""The variables of load-watcher as aliases of settings (load-watcher pkg/watcher/internal/metricsprovider)."""

from __future__ import annotations

from collections.abc import Mapping

from ballast.settings.sources.layer import Layer

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


def read_aliases(environ: Mapping[str, str]) -> Layer:
    """The values of load-watcher's variables; `BALLAST_` variables take precedence when the layers are merged."""
    layer = Layer()

    def alias(name: str, part: str, field: str, value: object = None) -> None:
        layer.give(part, field, environ[name].strip() if value is None else value, f"alias {name}")

    if name := environ.get("METRICS_PROVIDER_NAME", "").strip():
        if name.lower() in _REFUSED and not environ.get("BALLAST_TELEMETRY__SOURCE"):
            layer.problems.append(
                f'METRICS_PROVIDER_NAME is "{name}": {_REFUSED[name.lower()]} is not supported, expected Prometheus or '
                "KubernetesMetricsServer. Correct it, or set BALLAST_TELEMETRY__SOURCE to prometheus or metrics-server."
            )
        elif name.lower() not in _REFUSED:
            alias("METRICS_PROVIDER_NAME", "telemetry", "source", _SOURCES.get(name.lower(), name))
    if environ.get("METRICS_PROVIDER_ADDRESS", "").strip():
        alias("METRICS_PROVIDER_ADDRESS", "prometheus", "url")
    if environ.get("METRICS_PROVIDER_TOKEN", "").strip():
        alias("METRICS_PROVIDER_TOKEN", "prometheus", "token")
    if environ.get("INSECURE_SKIP_VERIFY", "").strip():
        skip = environ["INSECURE_SKIP_VERIFY"].strip().lower() == "true"
        alias("INSECURE_SKIP_VERIFY", "prometheus", "insecure_skip_verify", skip)
    if "ENABLE_OPENSHIFT_AUTH" in environ:
        alias("ENABLE_OPENSHIFT_AUTH", "prometheus", "token_file", f"{SERVICE_ACCOUNT}/token")
        alias("ENABLE_OPENSHIFT_AUTH", "prometheus", "ca_file", f"{SERVICE_ACCOUNT}/ca.crt")
    if environ.get("KUBE_CONFIG", "").strip():
        alias("KUBE_CONFIG", "cluster", "kubeconfig")
    if level := environ.get("LOG_LEVEL", "").strip().lower():
        if level in _LEVELS:
            alias("LOG_LEVEL", "log", "level", _LEVELS[level])
        elif not environ.get("BALLAST_LOG__LEVEL"):
            layer.warnings.append(f'LOG_LEVEL is "{level}", which is not a level of load-watcher; it is ignored.')
    layer.warnings.extend(f"{name} has no effect in Ballast and is ignored." for name in _IGNORED if environ.get(name))
    return layer
