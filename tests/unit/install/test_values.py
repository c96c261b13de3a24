"""From values to the daemon's environment, and what the chart refuses."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ballast.extender.strategies import Strategies
from ballast.power.policy_reader import read
from ballast.settings import Mode, Settings, load
from ballast.settings.model import CONFIG_FILE, VARIABLES
from tests.worlds.chart import (
    CHART,
    EVERYTHING,
    MONITORING,
    NAMESPACE,
    POLICIES,
    POWER,
    PUBLISHING,
    Helm,
    Manifest,
    RenderFailed,
    Values,
    environment,
    modes,
    of_kind,
    one,
    pod_templates,
)

pytestmark = pytest.mark.slow


def daemon(manifests: list[Manifest]) -> Manifest:
    box = one(manifests, "Deployment", "ballast")["spec"]["template"]["spec"]["containers"][0]
    assert isinstance(box, dict)
    return box


def loaded(box: Manifest, files: Path, manifests: list[Manifest] | None = None) -> Settings:
    """What Ballast understands of a container's environment; mounted files are put under `files`."""
    environ: dict[str, str] = {}
    for config in of_kind(manifests or (), "ConfigMap"):
        for name, text in config["data"].items():
            (files / name).write_text(text)
    for name, value in environment(box).items():
        if value is None or not name.startswith("BALLAST_"):
            continue
        if name == "BALLAST_CONFIG_FILE":
            value = str(files / "ballast.yaml")
        elif value.startswith("/etc/ballast/"):
            path = files / value.removeprefix("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            value = str(path)
        environ[name] = value
    return load(environ)


@pytest.mark.parametrize("values", [{}, PUBLISHING, EVERYTHING], ids=["default", "publishing", "everything"])
def test_every_variable_of_every_pod_is_a_setting_and_set_once(helm: Helm, values: Values, tmp_path: Path) -> None:
    manifests = helm.template({**values, "cleanup": "always"})
    for pod in pod_templates(manifests).values():
        for box in pod["spec"]["containers"]:
            names = [variable["name"] for variable in box.get("env", [])]
            assert len(names) == len(set(names))
            assert {name for name in names if name.startswith("BALLAST_")} <= {*VARIABLES, CONFIG_FILE}
            if names:
                loaded(box, tmp_path, manifests)


def test_every_part_is_in_dry_run_unless_told_otherwise(helm: Helm, tmp_path: Path) -> None:
    settings = loaded(daemon(helm.template()), tmp_path)
    assert (settings.publishing.mode, settings.power.mode, settings.eviction.mode) == (Mode.DRY_RUN,) * 3
    assert settings.batch.mode is Mode.OFF
    explicit = environment(daemon(helm.template()))
    assert {name: value for name, value in explicit.items() if name.endswith("__MODE")} == {
        "BALLAST_PUBLISHING__MODE": "dry-run",
        "BALLAST_POWER__MODE": "dry-run",
        "BALLAST_EVICTION__MODE": "dry-run",
        "BALLAST_BATCH__MODE": "off",
    }


def test_settings_arrive_as_they_were_written(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.template(EVERYTHING)
    settings = loaded(daemon(manifests), tmp_path, manifests)
    assert settings.prometheus.url == "https://prometheus:9090"
    assert settings.prometheus.headers == {"X-Scope-OrgID": "a"}
    assert [resource.name for resource in settings.telemetry.resources] == ["cpu", "gpu"]
    assert settings.telemetry.resources[1].query == 'max by (node) (DCGM_UTIL{a!="<b>"}) / 100'
    assert [length.text for length in settings.windows.lengths] == ["15m", "5m"]
    assert settings.windows.max_age == 90
    assert settings.cluster.qps == 12.5
    assert settings.publishing.mode is Mode.ON
    assert settings.publishing.taint is True
    assert settings.publishing.max_unknown == 0.05
    assert settings.prometheus.ca_file is not None
    assert settings.prometheus.ca_file.match("etc/ballast/secrets/prometheus/ca_file")


def test_crane_s_policy_may_stand_in_the_values(helm: Helm, tmp_path: Path) -> None:
    policy = {
        "spec": {
            "syncPolicy": [{"name": "cpu_usage_avg_5m", "period": "1m"}],
            "priority": [{"name": "cpu_usage_avg_5m", "weight": 1}],
        }
    }
    values = {"settings": {"publishing": {"crane": True}, "scoring": {"keys": {"dynamic": {"policy": policy}}}}}
    found = Strategies(loaded(daemon(helm.template(values)), tmp_path)).policy
    assert found.keys == ("cpu_usage_avg_5m", "node_hot_value")


@pytest.mark.parametrize(("written", "meant"), [("on", "on"), ("off", "off"), ('"on"', "on"), ("dry-run", "dry-run")])
def test_yaml_booleans_are_modes(helm: Helm, tmp_path: Path, written: str, meant: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(f"settings:\n  publishing:\n    mode: {written}\n")
    found = environment(daemon(helm.template(None, "--values", file)))
    assert found["BALLAST_PUBLISHING__MODE"] == meant


def test_large_numbers_keep_their_digits(helm: Helm) -> None:
    found = environment(daemon(helm.template({"settings": {"cluster": {"burst": 12345678}}})))
    assert found["BALLAST_CLUSTER__BURST"] == "12345678"


def test_null_leaves_a_setting_to_its_default(helm: Helm) -> None:
    elsewhere = {"extraEnvFrom": [{"configMapRef": {"name": "prometheus"}}]}
    values = {"settings": {"power": {"mode": None}, "prometheus": {"url": None}}, **elsewhere}
    found = environment(daemon(helm.template(values)))
    assert not {"BALLAST_POWER__MODE", "BALLAST_PROMETHEUS__URL"} & set(found)


def test_the_pod_knows_its_name_and_namespace(helm: Helm) -> None:
    by_name = {variable["name"]: variable for variable in daemon(helm.template())["env"]}
    assert by_name["POD_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert by_name["POD_NAMESPACE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"


def test_secrets_are_files_that_follow_the_secret(helm: Helm) -> None:
    spec = one(helm.template(EVERYTHING), "Deployment", "ballast")["spec"]["template"]["spec"]
    [mount] = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "secrets"]
    [volume] = [volume for volume in spec["volumes"] if volume["name"] == "secrets"]
    assert mount == {"name": "secrets", "mountPath": "/etc/ballast/secrets", "readOnly": True}
    mounted = {
        f"{mount['mountPath']}/{item['path']}": (source["secret"]["name"], item["key"])
        for source in volume["projected"]["sources"]
        for item in source["secret"]["items"]
    }
    named = {value for value in environment(spec["containers"][0]).values() if value and "/secrets/" in value}
    assert set(mounted) == named
    assert mounted["/etc/ballast/secrets/prometheus/key_file"] == ("prometheus-tls", "tls.key")
    assert volume["projected"]["defaultMode"] == 0o440
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]


def test_power_policies_arrive_through_a_mounted_file(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.template(POWER)
    spec = one(manifests, "Deployment", "ballast")["spec"]["template"]["spec"]
    assert {"name": "config", "configMap": {"name": "ballast-config"}} in spec["volumes"]
    assert environment(spec["containers"][0])["BALLAST_CONFIG_FILE"] == "/etc/ballast/config/ballast.yaml"
    [mount] = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "config"]
    assert mount == {"name": "config", "mountPath": "/etc/ballast/config", "readOnly": True}
    settings = loaded(spec["containers"][0], tmp_path, manifests)
    assert settings.power.mode is Mode.ON
    assert list(settings.power.policies) == POLICIES
    site_a, site_b = read(settings.power.policies)
    assert site_a.floor == 1_234_567
    assert set(site_b.places) == {"batch/reports", "batch/web"}


def test_without_policies_there_is_no_file(helm: Helm) -> None:
    manifests = helm.template()
    assert "BALLAST_CONFIG_FILE" not in environment(daemon(manifests))
    assert not of_kind(manifests, "ConfigMap")


@pytest.mark.parametrize(
    "files", [("tls_cert_file", "tls_key_file"), ("tls_cert_file", "tls_key_file", "client_ca_file")]
)
def test_probes_ask_a_port_of_their_own_without_tls(helm: Helm, files: Sequence[str]) -> None:
    key = {"name": "tls", "key": "x"}
    values: Values = {
        "existingSecrets": {"http": dict.fromkeys(files, key)},
        "settings": {"http": {"health_port": 3021}},
    }
    box = daemon(helm.template(values))
    assert {"name": "health", "containerPort": 3021} in box["ports"]
    for probe, path in {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}.items():
        assert box[f"{probe}Probe"]["httpGet"] == {"path": path, "port": "health"}


SHORT_KIND: Values = {"ref": "deployments/shop/api", "max": 2}


def policy(**keys: object) -> Values:
    return {"settings": {"power": {"policies": [{"independents": [{"ref": "shop/api", "max": 2}], **keys}]}}}


REFUSED: Mapping[str, tuple[Values, str]] = {
    "a setting that does not exist": ({"settings": {"prometheus": {"ulr": "x"}}}, "ulr"),
    "a part that does not exist": ({"settings": {"prometheuss": {}}}, "prometheuss"),
    "a value that does not exist": ({"setings": {}}, "setings"),
    "a mode that does not exist": (modes("perhaps"), "dry-run"),
    "two writers": ({"settings": {"lease": {"enabled": False}}}, "set replicas=1, or keep the Lease"),
    "a target that is none": (
        {"settings": {"power": {"policies": [{"independents": [{"ref": "api", "max": 2}]}]}}},
        'ref "api": expected namespace/name',
    ),
    "a kind without its group": (
        {"settings": {"power": {"policies": [{"groups": [{"name": "a", "members": [SHORT_KIND]}]}]}}},
        "expected namespace/name or kind.group/namespace/name",
    ),
    "two configuration files": (
        {"settings": {"power": {"policies": POLICIES}}, "extraEnv": [{"name": "BALLAST_CONFIG_FILE", "value": "x"}]},
        "BALLAST_CONFIG_FILE is set twice",
    ),
    "rights for the default account": ({"serviceAccount": {"create": False}}, "set serviceAccount.name"),
    "a random port": ({"settings": {"http": {"port": 0}}}, "settings.http.port=0"),
    "a variable twice": (
        {**PUBLISHING, "extraEnv": [{"name": "BALLAST_PROMETHEUS__URL", "value": "x"}]},
        "BALLAST_PROMETHEUS__URL is set twice",
    ),
    "an address without a scheme": ({"settings": {"prometheus": {"url": "p:9090"}}}, "url"),
    "a duration with an unknown unit": ({"settings": {"telemetry": {"interval": "5x"}}}, "interval"),
    "a negative duration": ({"settings": {"telemetry": {"interval": "-5s"}}}, "interval"),
    "a negative number of seconds": ({"settings": {"windows": {"max_age": -5}}}, "max_age"),
    "a watchdog that never wakes": ({"watchdog": {"staleAfter": "bogus"}}, "staleAfter"),
    "a key that no policy has": (policy(feeed={"query": "x"}), "policies"),
    "a key at the wrong level": (policy(members=[]), "policies"),
    "a key that no feed has": (policy(feed={"qurey": "x"}), "policies"),
    "a meaning that no feed has": (policy(feed={"query": "x", "semantics": "watts"}), "policies"),
    "a window without a unit that exists": (policy(increase={"window": "1x"}), "policies"),
    "an unknown pairing": ({"scheduler": {"pairing": "label"}}, "pairing"),
    "the cluster's own scheduler": (
        {"scheduler": {"enabled": True, "name": "default-scheduler"}},
        "scheduler.name=default-scheduler is the cluster's own scheduler",
    ),
    "Trimaran in the stock image": ({"scheduler": {"enabled": True, "pairing": "trimaran"}}, "with its plugins"),
    "an extender that nobody leads": (
        {**modes("off", "off", "off"), "scheduler": {"enabled": True}},
        "scheduler.pairing=extender asks the leader",
    ),
    "a scheduler that cannot show the extender's token": (
        {
            "scheduler": {"enabled": True},
            "existingSecrets": {"extender": {"token_file": {"name": "x", "key": "token"}}},
        },
        "extender.token_file lets in only who shows a secret",
    ),
    "a scheduler that cannot show a certificate": (
        {"scheduler": {"enabled": True}, "settings": {"http": {"client_ca_file": "/ca"}}},
        "http.client_ca_file lets in only",
    ),
    "a random port for the probes": ({"settings": {"http": {"health_port": 0}}}, "settings.http.health_port=0"),
    "a scheduler's configuration that is no YAML": (
        {"scheduler": {"enabled": True, "config": "a: [b"}},
        "scheduler.config is no YAML",
    ),
    "two scrapes of one replica": (
        {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}},
        "would scrape each replica twice",
    ),
    "a page without a host": ({"ingress": {"enabled": True}}, "ingress.hosts is empty"),
    "a planner that is none": ({"settings": {"eviction": {"planners": "relieve,foo"}}}, "planners"),
    "a planner in a list that is none": ({"settings": {"eviction": {"planners": ["relieve", "foo"]}}}, "planners"),
    "two planners in one": ({"settings": {"eviction": {"planners": "relievetidy"}}}, "planners"),
    "two planners in one of a list": ({"settings": {"eviction": {"planners": ["relieve,tidy"]}}}, "planners"),
    "a rate in words": ({"settings": {"eviction": {"rate": "fast"}}}, "rate"),
    "a count with a unit": ({"settings": {"eviction": {"limit_total": "5x"}}}, "limit_total"),
    "memory in words": ({"resources": {"limits": {"memory": "lots"}}}, "memory"),
    "a negative core": ({"resources": {"requests": {"cpu": -1}}}, "cpu"),
    "a scheduler's memory in words": ({"scheduler": {"resources": {"limits": {"memory": "1 Gi"}}}}, "memory"),
    "a core of a job in words": ({"jobResources": {"limits": {"cpu": "many"}}}, "cpu"),
    "a schedule in words": ({"watchdog": {"schedule": "never"}}, "schedule"),
    "a half digest": ({"image": {"digest": "sha256:abc"}}, "digest"),
    "a secret without a key": ({"existingSecrets": {"prometheus": {"token_file": {"name": "x"}}}}, "key"),
    "a secret for a setting that is no file": (
        {"existingSecrets": {"prometheus": {"url": {"name": "x", "key": "y"}}}},
        "url",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_chart_refuses(helm: Helm, case: str) -> None:
    values, said = REFUSED[case]
    with pytest.raises(RenderFailed, match=said):
        helm.template(values)


def test_an_alert_that_does_not_exist_cannot_be_changed(helm: Helm) -> None:
    for key in ({"disabled": ["BallastDwon"]}, {"overrides": {"BallastDwon": {"for": "1h"}}}):
        with pytest.raises(RenderFailed, match="BallastDwon is no alert of Ballast"):
            helm.template({"prometheusRule": {"enabled": True, **key}}, *MONITORING)


def test_policies_may_use_every_key_and_its_second_name(helm: Helm) -> None:
    member = {"ref": "shop/api", "max": 2, "weight": 1, "wattsPerReplica": "measured"}
    values = policy(
        independents=[member],
        baseWatts=100,
        consumption={"query": "x"},
        energy={"kWh": 3, "per": "24h"},
        schedule={"csv": "x", "lead": None},
        increase={"window": "60s", "tolerance": 0.04, "maxStep": {"percent": 20, "period": "15s"}},
        fallback={"policy": "hold", "after": "10m"},
        deadband="0.05",
    )
    assert of_kind(helm.template(values), "ConfigMap")


@pytest.mark.parametrize(("version", "count"), [("1.29.0", 0), ("1.30.0", 7), ("1.36.3", 7)])
def test_admission_policies_stand_where_they_are_served(helm: Helm, version: str, count: int) -> None:
    manifests = helm.template({}, "--kube-version", version)
    assert len(of_kind(manifests, "ValidatingAdmissionPolicy")) == count
    assert len(of_kind(manifests, "ValidatingAdmissionPolicyBinding")) == count


def cleanups(manifests: list[Manifest]) -> list[Manifest]:
    """The Jobs of hooks that release something."""
    return [job for job in of_kind(manifests, "Job") if job["metadata"]["name"] != "ballast-config-check"]


def test_the_watchdog_runs_only_while_labels_are_written(helm: Helm) -> None:
    assert not of_kind(helm.template(), "CronJob")
    [watchdog] = of_kind(helm.template(PUBLISHING), "CronJob")
    spec = watchdog["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert spec["containers"][0]["args"] == ["release", "publishing", "--if-stale", "15m"]
    assert spec["serviceAccountName"] == "ballast-watchdog"
    assert watchdog["spec"]["concurrencyPolicy"] == "Forbid"


def test_labels_go_with_the_release_that_wrote_them(helm: Helm) -> None:
    [job] = cleanups(helm.template(PUBLISHING))
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-delete"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["release", "publishing"]
    assert not cleanups(helm.template())
    assert not cleanups(helm.template({**PUBLISHING, "cleanup": "never"}))


def test_caps_go_with_the_release_that_set_them(helm: Helm) -> None:
    [job] = cleanups(helm.template(POWER))
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-delete"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["release", "power"]


def test_each_part_is_cleaned_up_by_itself(helm: Helm) -> None:
    manifests = helm.template({**modes("on", "dry-run", "on"), "cleanup": "always"})
    jobs = {job["metadata"]["annotations"]["helm.sh/hook"]: job for job in cleanups(manifests)}
    arguments = {hook: job["spec"]["template"]["spec"]["containers"][0]["args"] for hook, job in jobs.items()}
    assert arguments == {"post-delete": ["release", "publishing"], "post-upgrade": ["release", "power", "batch"]}
    assert len({job["metadata"]["name"] for job in jobs.values()}) == 2


def test_labels_can_be_taken_away_when_publishing_is_switched_off(helm: Helm) -> None:
    manifests = helm.template({**modes("dry-run"), "cleanup": "always"})
    hooks = [each for each in manifests if each["metadata"]["name"].startswith("ballast-cleanup")]
    rights = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    assert {each["kind"] for each in hooks} == {"Job", "ServiceAccount", *rights}
    assert {each["metadata"]["annotations"]["helm.sh/hook"] for each in hooks} == {"post-upgrade"}


def test_releasing_looks_where_the_daemon_wrote(helm: Helm, tmp_path: Path) -> None:
    values: Values = {
        "settings": {
            **PUBLISHING["settings"],
            "publishing": {"mode": "on", "prefix": "load.example.org"},
            "cluster": {"node_selector": "pool=a"},
            "lease": {"name": "other", "namespace": "kube-system"},
        }
    }
    [watchdog] = of_kind(helm.template(values), "CronJob")
    settings = loaded(watchdog["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0], tmp_path)
    assert settings.publishing.prefix == "load.example.org"
    assert settings.cluster.node_selector == "pool=a"
    assert (settings.lease.name, settings.lease.namespace) == ("other", "kube-system")


def test_notes_say_in_words_what_is_on_and_what_comes_next(helm4: Helm) -> None:
    assert "publishing is in dry-run: it plans and records, and changes nothing" in helm4.notes()
    ready = helm4.notes({"settings": {"prometheus": {"url": "http://prometheus:9090"}}})
    assert "--set settings.publishing.mode=on" in ready
    assert "Power has no policy, so it does nothing" in ready
    power = helm4.notes({"settings": {**POWER["settings"], **PUBLISHING["settings"]}})
    assert "power is ON: it changes your cluster" in power
    assert "Power changes replicas and caps in batch, shop." in power
    publishing = helm4.notes(PUBLISHING)
    assert "publishing is ON: it changes your cluster" in publishing
    assert "ballast-switches --from-literal=paused=true" in publishing
    off = helm4.notes(modes("off", "off", "off"))
    assert "publishing is off" in off
    assert "no leader is elected" in off
    assert f"namespace {NAMESPACE}" in off


@pytest.mark.parametrize(
    "values", [{}, {"settings": {"prometheus": {"url": ""}}}, {"extraEnv": [{"name": "TZ", "value": "UTC"}]}]
)
def test_no_source_of_load_is_refused_by_the_template_with_the_next_line(helm: Helm, values: Values) -> None:
    with pytest.raises(RenderFailed, match=r"settings.prometheus.url is not set.*--set settings.prometheus.url="):
        helm.run("template", "ballast", CHART, values=values)


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"telemetry": {"source": "metrics-server"}}},
        {"extraEnv": [{"name": "BALLAST_PROMETHEUS__URL", "value": "http://p:9090"}]},
        {"extraEnvFrom": [{"secretRef": {"name": "prometheus"}}]},
    ],
)
def test_a_source_that_is_named_elsewhere_is_enough(helm: Helm, values: Values) -> None:
    assert helm.run("template", "ballast", CHART, values=values)


def test_the_check_of_the_configuration_ends_by_itself_and_says_why(helm: Helm) -> None:
    job = one(helm.template(PUBLISHING), "Job", "ballast-config-check")
    assert job["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] == "hook-failed"
    assert job["spec"]["activeDeadlineSeconds"] + job["spec"]["ttlSecondsAfterFinished"] <= 600
    [box] = job["spec"]["template"]["spec"]["containers"]
    assert box["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"eviction": {"planners": "relieve, consolidate", "rate": "20/1h,1%/1d", "limit_total": "10%"}}},
        {"settings": {"eviction": {"planners": ["tidy"], "rate": 20, "limit_node": 3, "limit_workload": "2.5%"}}},
        {"settings": {"eviction": {"planners": "relieve,,tidy,", "rate": "10 %/1d", "limit_total": "5.0"}}},
        {"settings": {"eviction": {"planners": '["relieve"]', "limit_node": "10 %"}}},
        {"resources": {"requests": {"cpu": "+0.5"}}},
        {"settings": {"eviction": {"planners": "", "rate": "", "limit_namespace": ""}}},
        {"resources": {"limits": {"memory": "1.5Gi", "cpu": 2}, "requests": {"memory": "1e9", "cpu": "100m"}}},
        {"watchdog": {"schedule": "@every 5m"}},
        {"watchdog": {"schedule": "*/5 0-6 1,15 * mon-fri"}},
    ],
)
def test_the_schema_takes_what_daemon_and_kubernetes_take(helm: Helm, values: Values) -> None:
    assert helm.template(values)


@pytest.mark.parametrize(
    "name", ["startupProbe", "livenessProbe", "readinessProbe", "service.extender", "service.annotations", "tls.days"]
)
def test_what_is_null_is_the_chart_s_own(helm: Helm, name: str) -> None:
    values: Values = {"tls": {"enabled": True}}
    assert helm.template(values, "--set", f"{name}=null") == helm.template(values)
