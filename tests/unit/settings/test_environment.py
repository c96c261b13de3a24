from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.errors import SettingsError
from ballast.settings import Duration, Mode, ResourceSetting, Settings, examine, load
from ballast.settings.model import VARIABLES, injected, suggestion


def problems(**environ: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as raised:
        load({f"BALLAST_{name}": value for name, value in environ.items()})
    return raised.value.problems


def service(name: str, ports: dict[str, int], host: str = "10.96.0.7") -> dict[str, str]:
    """What the kubelet injects for one Service (kubernetes pkg/kubelet/envvars/envvars.go)."""
    prefix = name.upper().replace("-", "_")
    first = next(iter(ports.values()))
    variables = {
        f"{prefix}_SERVICE_HOST": host,
        f"{prefix}_SERVICE_PORT": str(first),
        f"{prefix}_PORT": f"tcp://{host}:{first}",
    }
    for port, number in ports.items():
        variables[f"{prefix}_SERVICE_PORT_{port.upper().replace('-', '_')}"] = str(number)
        start = f"{prefix}_PORT_{number}_TCP"
        variables |= {
            start: f"tcp://{host}:{number}",
            f"{start}_PROTO": "tcp",
            f"{start}_PORT": str(number),
            f"{start}_ADDR": host,
        }
    return variables


def test_nothing_set_gives_the_defaults() -> None:
    settings = load({})
    assert settings == Settings()
    assert settings.prometheus.preset == "node-exporter"
    assert settings.prometheus.timeout == 10
    assert settings.telemetry.interval == 30
    assert [resource.name for resource in settings.telemetry.resources] == ["cpu", "memory"]
    assert [length.text for length in settings.windows.lengths] == ["15m", "10m", "5m"]
    assert settings.publishing.mode is settings.power.mode is settings.eviction.mode is Mode.DRY_RUN
    assert settings.publishing.every(settings.telemetry) == 30
    assert settings.http.port == 2020


def test_an_environment_that_is_given_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALLAST_LOG__LEVEL", "debug")
    monkeypatch.setenv("BALLAST_HTTP__PORT", "1")
    assert load({}) == Settings()
    assert load({"BALLAST_LOG__LEVEL": "error"}).log.level == "error"
    assert load().log.level == "debug"
    assert (Settings().log.level, Settings().http.port) == ("info", 2020)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load({}).http.port = 1  # type: ignore[misc]


def test_variables_are_read() -> None:
    settings = load(
        {
            "BALLAST_PROMETHEUS__URL": "http://prometheus:9090/prefix/",
            "BALLAST_PROMETHEUS__MATCHERS": 'cluster="a,b",job=~"node.*"',
            "BALLAST_PROMETHEUS__HEADERS": '{"X-Scope-OrgID": "team"}',
            "BALLAST_TELEMETRY__INTERVAL": "1s",
            "BALLAST_WINDOWS__LENGTHS": '["1h30m", "90"]',
            "BALLAST_PUBLISHING__MODE": "on",
            "BALLAST_PUBLISHING__JITTER": "20%",
            "BALLAST_PUBLISHING__TAINT": "true",
            "BALLAST_PUBLISHING__INTERVAL": "2m",
            "BALLAST_EVICTION__LIMIT_WORKLOAD": "25%",
            "BALLAST_HTTP__PORT": "",
            "BALLAST_LOG__LEVEL": "WARN",
            "HOME": "/",
        }
    )
    assert settings.prometheus.url == "http://prometheus:9090/prefix"
    assert settings.prometheus.matchers == ('cluster="a,b"', 'job=~"node.*"')
    assert settings.prometheus.headers == {"X-Scope-OrgID": "team"}
    assert settings.telemetry.interval == Duration("1s")
    assert [length.text for length in settings.windows.lengths] == ["1h30m", "90"]
    assert settings.publishing.mode is Mode.ON
    assert (settings.publishing.jitter, settings.publishing.taint) == (0.2, True)
    assert settings.publishing.every(settings.telemetry) == 120
    assert settings.eviction.limit_workload.of(8) == 2
    assert settings.http.port == 2020
    assert settings.log.level == "warning"


def test_resources_are_a_list_of_known_names() -> None:
    found = load({"BALLAST_TELEMETRY__RESOURCES": "cpu,disk"}).telemetry.resources
    assert found == (ResourceSetting(name="cpu"), ResourceSetting(name="disk"))
    assert load({"BALLAST_TELEMETRY__RESOURCES": '["cpu","disk"]'}).telemetry.resources == found


def test_resources_are_a_map_with_queries() -> None:
    text = '{"cpu": {}, "memory": {"query": "m"}, "gpu": {"query": "g", "freshness": "f", "node_label": "Hostname"}}'
    assert load({"BALLAST_TELEMETRY__RESOURCES": text}).telemetry.resources == (
        ResourceSetting(name="cpu"),
        ResourceSetting(name="memory", query="m"),
        ResourceSetting(name="gpu", query="g", freshness="f", node_label="Hostname"),
    )


@pytest.mark.parametrize("text", ["cpu,gpu", '{"gpu": {}}'])
def test_a_resource_of_a_preset_that_is_not_chosen_is_explained(text: str) -> None:
    (problem,) = problems(TELEMETRY__RESOURCES=text)
    assert problem == (
        "BALLAST_TELEMETRY__RESOURCES: 'gpu' needs a query, since BALLAST_PROMETHEUS__PRESET = node-exporter does not "
        "measure it. Give a query for gpu, or set BALLAST_PROMETHEUS__PRESET=node-exporter,dcgm."
    )
    mended = {"BALLAST_TELEMETRY__RESOURCES": text, "BALLAST_PROMETHEUS__PRESET": "node-exporter,dcgm"}
    assert load(mended).telemetry.resources[-1].name == "gpu"


def test_presets_node_labels_and_names_beyond_ascii_are_lists() -> None:
    found = load(
        {
            "BALLAST_PROMETHEUS__PRESET": "node-exporter, kubelet",
            "BALLAST_PROMETHEUS__MATCHERS": 'k8s.cluster.name="a","k8s.node.name"!="b"',
            "BALLAST_TELEMETRY__NODE_LABEL": '["k8s.node.name", "instance"]',
        }
    )
    assert found.prometheus.presets == ("node-exporter", "kubelet")
    assert found.prometheus.matchers == ('"k8s.cluster.name"="a"', '"k8s.node.name"!="b"')
    assert found.telemetry.node_label == "k8s.node.name,instance"


@pytest.mark.parametrize(
    "text",
    ["a", "!a", "x.io/a=b", "a==b,c!=d", "a=", "a in (b, c),d notin (e)", "node-role.kubernetes.io/control-plane="],
)
def test_selectors_are_those_of_kubectl(text: str) -> None:
    assert load({"BALLAST_CLUSTER__NODE_SELECTOR": text}).cluster.node_selector == text


@pytest.mark.parametrize(
    ("text", "explanation"),
    [
        ("cpu,fpga", "'fpga' needs a query"),
        ('["cpu", {"gpu": {"query": "g"}}]', "a list cannot hold maps"),
        ('{"fpga": {}}', "a query for fpga"),
        ('{"gpu": "g"}', 'a map for gpu, such as {"gpu": {"query": "..."}}'),
        ('{"gpu": {"queri": "g"}}', "queri is not one of them"),
        ('{"gpu": {"query": 5}}', "text for query of gpu"),
        ("cpu,cpu", "cpu is given more than once"),
        ("[]", "at least one resource"),
        ('{"gpu"', "does not parse"),
        ('{"v": {"query": "g"}}', "v cannot be a resource: it is a key of the window annotation"),
        ('{"end": {"query": "g"}}', "end cannot be a resource"),
        ('{"length": {"query": "g"}}', "length cannot be a resource"),
        ('{"": {"query": "g"}}', "beginning with a letter"),
        ('{"GPU": {"query": "g"}}', "'GPU' does not match"),
        ('{"a b": {"query": "g"}}', "'a b' does not match"),
        ('{"nvidia.com/gpu": {"query": "g"}}', "names of a-z, 0-9, _ and -"),
        ('{"gpu": {"query": "g"}, "cpu": {}, "gpu": {"query": "h"}}', "expected each key once; gpu is given more than"),
        ('{"gpu": {"query": "g", "query": "h"}}', "expected each key once; query is given more than once"),
    ],
)
def test_resources_that_cannot_be_read_are_explained(text: str, explanation: str) -> None:
    (problem,) = problems(TELEMETRY__RESOURCES=text)
    assert problem.startswith("BALLAST_TELEMETRY__RESOURCES is ")
    assert explanation in problem


@pytest.mark.parametrize(
    ("text", "speeds"), [("8bit", (1, 1)), ('{"a": "16bit", "*": "8bit"}', (2, 1)), ('{"a": "8bit"}', (1, None))]
)
def test_link_speed_is_one_for_all_or_a_map(text: str, speeds: tuple[float, float | None]) -> None:
    telemetry = load({"BALLAST_TELEMETRY__NETWORK_SPEED": text}).telemetry
    assert (telemetry.speed_of("a"), telemetry.speed_of("b")) == speeds


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("PROMETHEUS__URL", "prometheus:9090", "http:// or https://"),
        ("PROMETHEUS__URL", "ftp://prometheus", "http:// or https://"),
        ("PROMETHEUS__URL", "http://", "a host"),
        ("PROMETHEUS__URL", "http://p:99999", "http or https address"),
        ("PROMETHEUS__URL", "http://p?x=1", "without ?"),
        ("PROMETHEUS__PRESET", "node", "'node-exporter', 'kube-prometheus', 'kubelet'"),
        ("PROMETHEUS__MATCHERS", "cluster=a", 'cluster="a"'),
        ("PROMETHEUS__MATCHERS", 'cluster="a', 'cluster="a"'),
        ("PROMETHEUS__MATCHERS", '1a="a"', 'cluster="a"'),
        ("PROMETHEUS__HEADERS", "X-A: b", "JSON map"),
        ("PROMETHEUS__HEADERS", '{"X A": "b"}', "header names"),
        ("PROMETHEUS__HEADERS", '{"X-A": "b\\nc"}', "one line"),
        ("PROMETHEUS__TIMEOUT", "0", "larger than 0"),
        ("PROMETHEUS__TOKEN_FILE", "/nowhere/token", "a readable file"),
        ("TELEMETRY__SOURCE", "graphite", "'prometheus' or 'metrics-server'"),
        ("TELEMETRY__INTERVAL", "0s", "larger than 0"),
        ("TELEMETRY__INTERVAL", "5x", "15s, 5m, 1h"),
        ("TELEMETRY__NETWORK_SPEED", "10", "10Gbit"),
        ("WINDOWS__LENGTHS", "5m,x", "15s, 5m, 1h"),
        ("WINDOWS__LENGTHS", "5m,0", "larger than 0"),
        ("WINDOWS__LENGTHS", "[]", "at least one"),
        ("WINDOWS__MIN_COVERAGE", "1.5", "between 0 and 1"),
        ("WINDOWS__MIN_SAMPLES", "0", "at least 1"),
        ("WINDOWS__MIN_SAMPLES", "2.5", "whole number"),
        ("CLUSTER__QPS", "nan", "finite number"),
        ("CLUSTER__QPS", "0", "above 0"),
        ("CLUSTER__NODE_SELECTOR", "a=b,c in d", "c in d is not a requirement"),
        ("CLUSTER__POOL_LABEL", "a b", "the key of a label"),
        ("TELEMETRY__NODE_LABEL", "node-name", "a Prometheus label"),
        ("LEASE__ENABLED", "maybe", "true or false"),
        ("LEASE__NAME", "My_Lease", "DNS subdomain"),
        ("LEASE__NAMESPACE", "a.b", "lower-case letters"),
        ("PUBLISHING__MODE", "dry", "'off', 'dry-run' or 'on'"),
        ("PUBLISHING__PREFIX", "ballast.dev/x", "DNS subdomain"),
        ("PUBLISHING__STRATEGY", "random", "target-load"),
        ("PUBLISHING__MAX_UNKNOWN", "20", "did you mean 0.2"),
        ("PUBLISHING__HIGH", "80", "did you mean 0.8"),
        ("PUBLISHING__CRANE_TIMEZONE", "Mars/Base", "Asia/Shanghai"),
        ("EVICTION__PLANNERS", "relieve,defrag", "relieve, redistribute, rebalance"),
        ("EVICTION__LIMIT_NODE", "-1", "a count such as 5"),
        ("EVICTION__RATE", "20/never", "a rate such as 20/1h"),
        ("EVICTION__PVC", "maybe", "'allow' or 'refuse'"),
        ("EXTENDER__STRATEGY", "mix", "blend"),
        ("HTTP__PORT", "70000", "at most 65535"),
        ("HTTP__PORT", "-1", "at least 0"),
        ("HTTP__EXTENDER_BIND", "2021", "HOST:PORT"),
        ("LOG__LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("LOG__FORMAT", "xml", "'text' or 'json'"),
    ],
)
def test_a_value_that_cannot_be_used_names_variable_value_what_is_allowed_and_the_next_step(
    name: str, value: str, allowed: str
) -> None:
    (problem,) = problems(**{name: value})
    assert problem.startswith(f"BALLAST_{name} is ")
    assert allowed in problem
    assert "Correct it, or unset it" in problem
    if name != "PROMETHEUS__HEADERS" and "?" not in value:
        assert value.replace('"', '\\"') in problem


@pytest.mark.parametrize("name", VARIABLES)
def test_bytes_that_are_no_text_are_a_problem_of_their_variable(name: str) -> None:
    assert examine({name: b"a\xff".decode(errors="surrogateescape")}).problems == (
        f"{name}: expected text in UTF-8. Correct or unset it.",
    )


def test_all_problems_are_reported_at_once() -> None:
    found = problems(HTTP__PORT="x", LOG__LEVEL="loud", FOO="1")
    assert [problem.split()[0] for problem in found] == ["BALLAST_FOO", "BALLAST_HTTP__PORT", "BALLAST_LOG__LEVEL"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("BALLAST_PROMETHEUS__URI", "BALLAST_PROMETHEUS__URL"),
        ("BALLAST_PROMETHUES__URL", "BALLAST_PROMETHEUS__URL"),
        ("BALLAST_PROMETHEUS_URL", "BALLAST_PROMETHEUS__URL"),
        ("BALLAST_PROMETHEUS__TOKEN", "BALLAST_PROMETHEUS__TOKEN_FILE"),
        ("BALLAST_TELEMETRY__INTERVALL", "BALLAST_TELEMETRY__INTERVAL"),
        ("BALLAST_Http__Port", "BALLAST_HTTP__PORT"),
        ("BALLAST_TELEMETRY__URL", "BALLAST_PROMETHEUS__URL"),
        ("BALLAST_CONFIG", "BALLAST_CONFIG_FILE"),
    ],
)
def test_an_unknown_variable_gets_a_did_you_mean(name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is not a setting of Ballast. Did you mean {meant}?"):
        load({name: "secret"})


@pytest.mark.parametrize(
    "name", ["BALLAST_FOO", "BALLAST_EVICTION__XYZ", "BALLAST_PUBLISHING__FOO", "BALLAST_", "BALLAST_A__B__C"]
)
def test_where_no_name_is_close_it_points_to_config_show_and_keeps_the_value_to_itself(name: str) -> None:
    with pytest.raises(SettingsError, match="`ballast config show` lists all settings") as raised:
        load({name: "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_what_kubernetes_injects_for_services_is_ignored() -> None:
    environ = {
        **service("ballast", {"http": 2020}),
        **service("ballast-extender", {"http": 2020, "https-alt": 8443}),
        **service("ballast-2-prometheus-http", {"web": 9090}),
    }
    assert len(environ) > 25
    assert load(environ) == Settings()
    assert not examine(environ).warnings


@pytest.mark.parametrize(
    "name", ["BALLAST_HTTP__PORT_9", "BALLAST__SERVICE_HOST", "BALLAST_PORT_x", "BALLAST_SERVICE_HOSTS"]
)
def test_what_only_looks_like_it_is_not_ignored(name: str) -> None:
    assert not injected(name)


def test_a_setting_that_looks_injected_is_ignored_with_a_warning() -> None:
    findings = examine({"BALLAST_HTTP_PORT": "8080"})
    assert not findings.problems
    assert "Did you mean BALLAST_HTTP__PORT?" in findings.warnings[0]


def test_no_setting_is_taken_for_an_injected_variable() -> None:
    assert not [name for name in VARIABLES if injected(name)]


@given(st.sampled_from(sorted(VARIABLES)), st.data())
def test_one_letter_too_many_still_finds_the_setting(name: str, data: st.DataObject) -> None:
    field = name.rindex("__") + 2
    if len(name) - field < 3:
        return
    position = data.draw(st.integers(field, len(name)))
    mistyped = name[:position] + data.draw(st.sampled_from("QXZ")) + name[position:]
    assert suggestion(mistyped) == name


def test_every_variable_is_a_part_and_a_field() -> None:
    for name, (part, field) in VARIABLES.items():
        assert name == f"BALLAST_{part}__{field}".upper()
        assert hasattr(getattr(Settings(), part), field)


def test_files_that_are_there_are_accepted(tmp_path: Path) -> None:
    for name in ("token", "ca"):
        (tmp_path / name).write_text("x")
    settings = load(
        {"BALLAST_PROMETHEUS__TOKEN_FILE": str(tmp_path / "token"), "BALLAST_PROMETHEUS__CA_FILE": str(tmp_path / "ca")}
    )
    assert settings.prometheus.token_file == tmp_path / "token"


def test_every_missing_file_is_named(tmp_path: Path) -> None:
    names = [
        f"{part}__{field}".upper()
        for part, field in VARIABLES.values()
        if field.endswith("_file") or field == "kubeconfig"
    ]
    found = problems(**{name: str(tmp_path / name) for name in names})
    for name, missing in product(names, [found]):
        assert any(f'BALLAST_{name} is "{tmp_path / name}"' in problem for problem in missing)


def test_a_rewrite_is_a_map_of_patterns() -> None:
    settings = load({"BALLAST_TELEMETRY__NODE_REWRITE": '{"(.+)-metal": "$1"}'})
    assert settings.telemetry.node_rewrite == {"(.+)-metal": "$1"}
    with pytest.raises(SettingsError, match=r"NODE_REWRITE.*regular expressions"):
        load({"BALLAST_TELEMETRY__NODE_REWRITE": '{"(": "x"}'})
