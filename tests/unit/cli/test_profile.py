import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ballast.base.errors import UsageError
from ballast.cli.main import main
from ballast.cli.output import Output
from ballast.cli.profile import PROFILES, profile
from ballast.publishing.scheduler_profiles import labels_profile


def terms(document: dict) -> list[dict]:  # type: ignore[type-arg]
    (entry,) = document["profiles"][0]["pluginConfig"]
    assert entry["name"] == "NodeAffinity"
    return list(entry["args"]["addedAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"])


def met(term: dict, score: int) -> bool:  # type: ignore[type-arg]
    (expression,) = term["preference"]["matchExpressions"]
    assert expression["operator"] == "Gt"
    (bound,) = expression["values"]
    assert isinstance(bound, str)
    return score > int(bound)


def test_the_terms_a_node_meets_add_up_to_its_score() -> None:
    found = terms(yaml.safe_load(labels_profile("ballast.dev", "ballast-labels")))
    assert {term["preference"]["matchExpressions"][0]["key"] for term in found} == {"ballast.dev/score"}
    for score in range(11):
        assert sum(term["weight"] for term in found if met(term, score)) == score


def test_all_terms_together_weigh_less_than_a_preference_of_50() -> None:
    assert sum(term["weight"] for term in terms(yaml.safe_load(labels_profile("p.io", "s")))) < 50


def test_only_weights_change() -> None:
    document = yaml.safe_load(labels_profile("ballast.dev", "ballast-labels"))
    assert document["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert document["kind"] == "KubeSchedulerConfiguration"
    score = document["profiles"][0]["plugins"]["score"]
    weights = {plugin["name"]: plugin["weight"] for plugin in score.pop("enabled")}
    assert weights == {"NodeAffinity": 1, "NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1}
    assert score == {}


def test_a_second_scheduler_elects_beside_the_clusters_own() -> None:
    second = yaml.safe_load(labels_profile("ballast.dev", "ballast-labels"))
    assert second["leaderElection"] == {"resourceName": "ballast-labels"}
    own = yaml.safe_load(labels_profile("ballast.dev", "default-scheduler"))
    assert "leaderElection" not in own
    assert own["profiles"][0]["schedulerName"] == "default-scheduler"


def test_the_prefix_of_the_settings_is_the_prefix_of_the_label(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BALLAST_PUBLISHING__PREFIX", "example.org")
    profile("labels")
    text = capsys.readouterr().out
    assert "example.org/score" in text
    assert "ballast.dev/score" not in text


def test_json_says_the_same_as_the_yaml_and_how_far_labels_go(capsys: pytest.CaptureFixture[str]) -> None:
    profile("labels")
    printed = yaml.safe_load(capsys.readouterr().out)
    profile("labels", output=Output.JSON)
    assert json.loads(capsys.readouterr().out) == {**printed, "scoreMax": len(terms(printed))}


def test_lines_fit_a_terminal_and_explain_the_weights() -> None:
    text = labels_profile("ballast.dev", "ballast-labels")
    assert max(map(len, text.splitlines())) <= 120
    assert "preferences still win" in text
    assert "herds more" in text


def printed(capsys: pytest.CaptureFixture[str], *arguments: object, **options: object) -> tuple[str, Any]:
    profile(*arguments, **options)  # type: ignore[arg-type]
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 120
    return text, yaml.safe_load(text)


def test_the_extender_is_asked_with_names_alone_and_may_fail(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = printed(capsys, "extender", "http://ballast-extender.ops.svc:2020/")
    assert document["extenders"] == [
        {
            "urlPrefix": "http://ballast-extender.ops.svc:2020/scheduler",
            "prioritizeVerb": "prioritize",
            "filterVerb": "filter",
            "weight": 10,
            "nodeCacheCapable": True,
            "ignorable": True,
            "httpTimeout": "250ms",
        }
    ]
    [only] = document["profiles"]
    assert only["schedulerName"] == "ballast-extender"
    disabled = {plugin["name"] for plugin in only["plugins"]["score"]["disabled"]}
    assert disabled == {"NodeResourcesBalancedAllocation", "ImageLocality"}
    [fit] = only["pluginConfig"]
    strategy = fit["args"]["scoringStrategy"]
    assert (fit["name"], strategy["type"]) == ("NodeResourcesFit", "RequestedToCapacityRatio")
    points = [each["score"] for each in strategy["requestedToCapacityRatio"]["shape"]]
    assert 10 * max(points) < 10 * document["extenders"][0]["weight"], "it cannot outvote 10 against 9"
    assert "filter" not in only["plugins"]


def test_the_extender_filters_unless_it_is_told_not_to(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = printed(capsys, "extender", "https://10.0.0.1:2020")
    [only] = document["extenders"]
    assert (only["filterVerb"], only["enableHTTPS"], only["tlsConfig"]) == ("filter", True, {})
    assert "BALLAST_EXTENDER__FILTER_THRESHOLD" in text
    _, document = printed(capsys, "extender", filtering=False)
    assert "filterVerb" not in document["extenders"][0]
    with pytest.raises(UsageError, match="--filter is for the profile extender"):
        profile("labels", filtering=True)


def test_without_an_address_it_is_that_of_the_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    _, extender = printed(capsys, "extender")
    assert extender["extenders"][0]["urlPrefix"] == "http://ballast-extender.ops.svc:2020/scheduler"
    _, trimaran = printed(capsys, "trimaran")
    [plugin] = trimaran["profiles"][0]["pluginConfig"]
    assert plugin["args"]["watcherAddress"] == "http://ballast.ops.svc:2020"
    assert plugin["name"] == trimaran["profiles"][0]["plugins"]["score"]["enabled"][0]["name"]


def test_bin_packing_needs_no_daemon_and_weights_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = printed(capsys, "bin-packing")
    [plugin] = document["profiles"][0]["pluginConfig"]
    strategy = plugin["args"]["scoringStrategy"]
    assert strategy["type"] == "MostAllocated"
    assert all(1 <= resource["weight"] <= 100 for resource in strategy["resources"])
    assert "extenders" not in document


PACKED = "intel.com/foo=3,intel.com/bar=3"


def test_bin_packing_with_resources_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The first configuration in the Kubernetes documentation of bin packing."""
    _, document = printed(capsys, "bin-packing", strategy="MostAllocated", resources=f"cpu=1,memory,{PACKED}")
    [plugin] = document["profiles"][0]["pluginConfig"]
    assert plugin["name"] == "NodeResourcesFit"
    assert plugin["args"]["scoringStrategy"] == {
        "type": "MostAllocated",
        "resources": [
            {"name": "cpu", "weight": 1},
            {"name": "memory", "weight": 1},
            {"name": "intel.com/foo", "weight": 3},
            {"name": "intel.com/bar", "weight": 3},
        ],
    }


@pytest.mark.parametrize("shape", ["0:0,100:10", None])
def test_bin_packing_by_a_curve(capsys: pytest.CaptureFixture[str], shape: str | None) -> None:
    """The second configuration in the Kubernetes documentation of bin packing."""
    _, document = printed(capsys, "bin-packing", strategy="RequestedToCapacityRatio", resources=PACKED, shape=shape)
    [plugin] = document["profiles"][0]["pluginConfig"]
    assert plugin["args"]["scoringStrategy"] == {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "intel.com/foo", "weight": 3}, {"name": "intel.com/bar", "weight": 3}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "LeastAllocated"}, "--strategy LeastAllocated: choose MostAllocated or RequestedToCapacityRatio"),
        ({"resources": "cpu=-1"}, "--resources cpu=-1: .*weight of cpu.*1 to 100"),
        ({"resources": "cpu,,memory"}, "--resources cpu,,memory: "),
        ({"resources": ""}, "--resources : "),
        ({"resources": "gpu"}, "--resources gpu: .*no resource the scheduler scores"),
        ({"shape": "0:0,100:10"}, "MostAllocated has no shape. Add --strategy RequestedToCapacityRatio"),
        ({"strategy": "RequestedToCapacityRatio", "shape": "100:10,0:0"}, "--shape .*increasing.*0:0,100:10"),
        ({"strategy": "RequestedToCapacityRatio", "shape": "half"}, "--shape half: "),
    ],
)
def test_packing_that_the_scheduler_would_refuse_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        profile("bin-packing", **options)


def test_packing_is_for_bin_packing() -> None:
    with pytest.raises(UsageError, match="--resources is for the profile bin-packing; labels does not pack"):
        profile("labels", resources="cpu")


@pytest.mark.parametrize(
    "url", ["http://a b:2020", "ballast:2020", "ftp://x", "http://", "http://x:port", "http://x/?a=b"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"--url .* is not an address"):
        profile("extender", url)


def test_an_unknown_profile_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"'lables'.*labels"):
        profile("lables")


def test_a_scheduler_name_that_kubernetes_would_refuse_is_refused() -> None:
    with pytest.raises(UsageError, match="--scheduler-name 'My Scheduler'"):
        profile("labels", scheduler_name="My Scheduler")


def test_the_command_exits_2_for_an_unknown_profile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ballast", "profile", "extendr"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "labels" in capsys.readouterr().err


def test_crane_s_plugin_filters_and_scores_by_the_policy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BALLAST_PUBLISHING__CRANE_TIMEZONE", "Europe/Berlin")
    text, document = printed(capsys, "crane")
    [only] = document["profiles"]
    assert only["plugins"] == {
        "filter": {"enabled": [{"name": "Dynamic"}]},
        "score": {"enabled": [{"name": "Dynamic", "weight": 3}]},
    }
    [plugin] = only["pluginConfig"]
    assert plugin == {"name": "Dynamic", "args": {"policyConfigPath": "/etc/kubernetes/policy.yaml"}}
    assert "here Europe/Berlin" in text
    assert "v1beta3" in text


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_profile_is_a_configuration_with_comments(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, document = printed(capsys, name)
    assert document["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert [profile["schedulerName"] for profile in document["profiles"]] == [f"ballast-{name}"]
    assert text.startswith("# ")


def test_the_extender_s_token_and_certificates_stand_in_its_profile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    profile("extender", tls=True)
    (extender,) = yaml.safe_load(capsys.readouterr().out)["extenders"]
    assert extender["urlPrefix"].startswith("https://ballast-extender.")
    assert extender["enableHTTPS"] is True
    assert set(extender["tlsConfig"]) == {"caFile", "certFile", "keyFile"}
    (tmp_path / "token").write_text("to/ken 1\n")
    monkeypatch.setenv("BALLAST_EXTENDER__TOKEN_FILE", str(tmp_path / "token"))
    profile("extender", tls=True)
    (extender,) = yaml.safe_load(capsys.readouterr().out)["extenders"]
    assert extender["urlPrefix"].endswith(".svc:2020/scheduler/to%2Fken%201")
    assert set(extender["tlsConfig"]) == {"caFile"}
    profile("extender")
    told = capsys.readouterr().out
    assert "use --tls" in told
    assert "tlsConfig" not in told


def test_tls_is_for_the_extender_and_an_https_address() -> None:
    with pytest.raises(UsageError, match="--tls is for the profile extender"):
        profile("labels", tls=True)
    with pytest.raises(UsageError, match="https://"):
        profile("extender", url="http://here:1", tls=True)
