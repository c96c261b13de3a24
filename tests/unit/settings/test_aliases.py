from pathlib import Path

import pytest

from ballast.base.errors import SettingsError
from ballast.settings import examine, explain, load
from ballast.settings import sources as aliases


def row(name: str, environ: dict[str, str]) -> dict[str, object]:
    return next(row for row in explain(environ) if row["name"] == name)


@pytest.mark.parametrize(
    ("name", "source"),
    [("Prometheus", "prometheus"), ("KubernetesMetricsServer", "metrics-server"), ("prometheus", "prometheus")],
)
def test_load_watchers_provider_is_our_source(name: str, source: str) -> None:
    assert load({"METRICS_PROVIDER_NAME": name}).telemetry.source == source


@pytest.mark.parametrize("name", ["SignalFx", "Datadog", "DATADOG"])
def test_signalfx_and_datadog_are_refused_by_name(name: str) -> None:
    with pytest.raises(SettingsError, match=f'METRICS_PROVIDER_NAME is "{name}".*(SignalFx|Datadog) is not supported'):
        load({"METRICS_PROVIDER_NAME": name})
    assert load({"METRICS_PROVIDER_NAME": name, "BALLAST_TELEMETRY__SOURCE": "prometheus"})
    with pytest.raises(SettingsError, match=r"BALLAST_TELEMETRY__SOURCE.*is not supported: its service.*PromQL"):
        load({"BALLAST_TELEMETRY__SOURCE": name})


def test_an_unknown_provider_names_what_is_allowed() -> None:
    with pytest.raises(SettingsError, match="alias METRICS_PROVIDER_NAME"):
        load({"METRICS_PROVIDER_NAME": "Graphite"})


def test_aliases_are_read_and_their_origin_is_shown(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("")
    environ = {
        "METRICS_PROVIDER_ADDRESS": "http://prometheus-k8s:9090",
        "METRICS_PROVIDER_TOKEN": "hunter2",
        "INSECURE_SKIP_VERIFY": "True",
        "KUBE_CONFIG": str(kubeconfig),
        "LOG_LEVEL": "trace",
    }
    settings = load(environ)
    assert settings.prometheus.url == "http://prometheus-k8s:9090"
    assert settings.prometheus.token is not None
    assert settings.prometheus.token.get_secret_value() == "hunter2"
    assert settings.prometheus.insecure_skip_verify
    assert settings.cluster.kubeconfig == kubeconfig
    assert settings.log.level == "debug"
    assert row("BALLAST_PROMETHEUS__URL", environ)["origin"] == "alias METRICS_PROVIDER_ADDRESS"
    assert row("METRICS_PROVIDER_TOKEN", environ) == {
        "name": "METRICS_PROVIDER_TOKEN",
        "value": "********",
        "origin": "alias METRICS_PROVIDER_TOKEN",
    }


def test_a_name_of_our_own_beats_them() -> None:
    environ = {
        "METRICS_PROVIDER_NAME": "KubernetesMetricsServer",
        "METRICS_PROVIDER_ADDRESS": "nonsense",
        "INSECURE_SKIP_VERIFY": "true",
        "LOG_LEVEL": "debug",
        "BALLAST_TELEMETRY__SOURCE": "prometheus",
        "BALLAST_PROMETHEUS__URL": "http://own:9090",
        "BALLAST_PROMETHEUS__INSECURE_SKIP_VERIFY": "false",
        "BALLAST_LOG__LEVEL": "error",
    }
    settings = load(environ)
    assert settings.telemetry.source == "prometheus"
    assert settings.prometheus.url == "http://own:9090"
    assert not settings.prometheus.insecure_skip_verify
    assert settings.log.level == "error"


def test_skip_verify_is_true_only_for_true() -> None:
    assert not load({"INSECURE_SKIP_VERIFY": "1"}).prometheus.insecure_skip_verify


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("c")
    monkeypatch.setattr(aliases, "SERVICE_ACCOUNT", str(tmp_path))
    return tmp_path


def test_openshift_authentication_is_the_service_accounts(service_account: Path) -> None:
    prometheus = load({"ENABLE_OPENSHIFT_AUTH": ""}).prometheus
    assert (prometheus.token_file, prometheus.ca_file) == (service_account / "token", service_account / "ca.crt")


def test_an_inline_token_takes_the_place_of_the_service_accounts(service_account: Path) -> None:
    prometheus = load({"ENABLE_OPENSHIFT_AUTH": "1", "METRICS_PROVIDER_TOKEN": "x"}).prometheus
    assert prometheus.token_file is None
    assert prometheus.token is not None
    assert prometheus.ca_file == service_account / "ca.crt"


@pytest.mark.usefixtures("service_account")
def test_our_own_authentication_takes_the_place_of_theirs(tmp_path: Path) -> None:
    for name in ("own", "password"):
        (tmp_path / name).write_text("x")
    aliases_ = {"ENABLE_OPENSHIFT_AUTH": "", "METRICS_PROVIDER_TOKEN": "x"}
    prometheus = load({**aliases_, "BALLAST_PROMETHEUS__TOKEN_FILE": str(tmp_path / "own")}).prometheus
    assert (prometheus.token, prometheus.token_file) == (None, tmp_path / "own")
    basic = {"BALLAST_PROMETHEUS__USERNAME": "u", "BALLAST_PROMETHEUS__PASSWORD_FILE": str(tmp_path / "password")}
    prometheus = load({**aliases_, **basic}).prometheus
    assert (prometheus.token, prometheus.token_file, prometheus.username) == (None, None, "u")


def test_a_service_account_that_is_not_there_is_named() -> None:
    with pytest.raises(SettingsError, match=r"BALLAST_PROMETHEUS__TOKEN_FILE is .* \(alias ENABLE_OPENSHIFT_AUTH\)"):
        load({"ENABLE_OPENSHIFT_AUTH": "true"})


def test_what_has_no_effect_is_a_warning() -> None:
    findings = examine({"METRICS_PROVIDER_APP_KEY": "hunter2", "DATADOG_CLUSTER_NAME": "x", "LOG_LEVEL": "loud"})
    assert not findings.problems
    assert len(findings.warnings) == 3
    assert "hunter2" not in str(findings.warnings)


def test_they_beat_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ballast.yaml"
    path.write_text("prometheus: {url: 'http://file:9090'}")
    environ = {"BALLAST_CONFIG_FILE": str(path), "METRICS_PROVIDER_ADDRESS": "http://alias:9090"}
    assert load(environ).prometheus.url == "http://alias:9090"
