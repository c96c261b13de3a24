from pathlib import Path

import pytest

from ballast.base.errors import SettingsError
from ballast.settings import Mode, examine, explain, load


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "ballast.yaml"


def environ(path: Path, content: str, **more: str) -> dict[str, str]:
    path.write_text(content)
    return {"BALLAST_CONFIG_FILE": str(path), **more}


CONTENT = """
prometheus:
  url: http://file:9090
  matchers: ['cluster="a"']
  headers: {X-Scope-OrgID: 7}
  username:
telemetry:
  interval: 15
  resources: {cpu: , gpu: {query: g}}
publishing:
  mode: on
  jitter: 5%
eviction:
  mode: off
  rate: 5
"""


def test_the_file_has_the_same_keys_in_lower_case(config: Path) -> None:
    settings = load(environ(config, CONTENT))
    assert settings.prometheus.url == "http://file:9090"
    assert settings.prometheus.headers == {"X-Scope-OrgID": "7"}
    assert settings.prometheus.username is None
    assert settings.telemetry.interval == 15
    assert [resource.query for resource in settings.telemetry.resources] == [None, "g"]
    assert settings.publishing.jitter == 0.05
    assert settings.eviction.rate[0].count.of(100) == 5


def test_on_and_off_mean_what_they_say(config: Path) -> None:
    settings = load(environ(config, CONTENT))
    assert (settings.publishing.mode, settings.eviction.mode) == (Mode.ON, Mode.OFF)


def test_the_environment_wins(config: Path) -> None:
    given = environ(config, CONTENT, BALLAST_PROMETHEUS__URL="http://environment:9090")
    assert load(given).prometheus.url == "http://environment:9090"
    rows = {row["name"]: row for row in explain(given)}
    assert rows["BALLAST_PROMETHEUS__URL"]["origin"] == "environment"
    assert rows["BALLAST_TELEMETRY__INTERVAL"] == {
        "name": "BALLAST_TELEMETRY__INTERVAL",
        "value": "15",
        "origin": "file ballast.yaml",
    }
    assert rows["BALLAST_PUBLISHING__MODE"]["value"] == "on"


@pytest.mark.parametrize("content", ["", "# nothing\n", "prometheus:\n", "prometheus: {}\n"])
def test_an_empty_file_says_nothing(config: Path, content: str) -> None:
    assert load(environ(config, content)) == load({})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("promtheus: {url: x}", "promtheus is not a setting of Ballast. Did you mean prometheus?"),
        ("prometheus: {uri: x}", "prometheus.uri is not a setting of Ballast. Did you mean prometheus.url?"),
        ("prometheus: {URL: x}", "prometheus.URL is not a setting of Ballast. Did you mean prometheus.url?"),
        ("prometheus: {token: x}", "Did you mean prometheus.token_file?"),
        ("whatever: 1", "`ballast config show` lists all settings"),
        ("prometheus: http://x", "expected a mapping for prometheus"),
        ("- prometheus", "expected a mapping for the file"),
        ("prometheus: {", "expected YAML"),
        ("http: {port: 1}\nhttp: {port: 2}", "the key http is given twice"),
        ("http: {port: x}", 'BALLAST_HTTP__PORT is "x" (file ballast.yaml): expected a whole number'),
        ("http: {port: [1]}", "BALLAST_HTTP__PORT is [1] (file ballast.yaml): expected a whole number"),
        ("power: {policies: 5}", "power.policies"),
        ("power: {policies: [], deadband: 0.1}", "power has policies and also deadband"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(config: Path, content: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(environ(config, content))
    assert said in str(raised.value)


def test_a_missing_file_is_named(config: Path) -> None:
    with pytest.raises(SettingsError, match=r'BALLAST_CONFIG_FILE is ".*ballast\.yaml": expected a readable YAML file'):
        load({"BALLAST_CONFIG_FILE": str(config)})


def test_power_holds_one_policy_beside_the_mode_or_several(config: Path) -> None:
    one = load(environ(config, "power: {mode: off, deadband: 0.05, feed: {query: x}}")).power
    assert one.mode is Mode.OFF
    assert one.policies == ({"deadband": 0.05, "feed": {"query": "x"}},)
    several = load(environ(config, "power: {policies: [{name: a}, {name: b}]}")).power
    assert [policy["name"] for policy in several.policies] == ["a", "b"]
    assert load(environ(config, "power: {mode: on}")).power.policies == ()


def test_a_value_that_cannot_be_used_is_shown_as_written(config: Path) -> None:
    given = environ(config, "http: {port: x}")
    assert examine(given).settings.http.port == 2020
    assert {"name": "BALLAST_HTTP__PORT", "value": "x", "origin": "file ballast.yaml"} in explain(given)


POLICIES = '[{"name": "sun", "feed": {"query": "x"}}]'


def test_power_policies_are_a_list_in_the_environment_too(config: Path) -> None:
    assert load({"BALLAST_POWER__POLICIES": POLICIES}).power.policies == ({"name": "sun", "feed": {"query": "x"}},)
    both = {**environ(config, "power: {policies: [{name: a}]}"), "BALLAST_POWER__POLICIES": POLICIES}
    assert [policy["name"] for policy in load(both).power.policies] == ["sun"]


@pytest.mark.parametrize("name", ["BALLAST_POWER__POLICY", "BALLAST_POWER__FEED", "BALLAST_POWER_BUDGET"])
def test_a_wrong_name_for_policies_points_to_the_list_and_to_the_file(name: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({name: POLICIES})
    assert "BALLAST_POWER__POLICIES" in str(refused.value)
    assert "BALLAST_CONFIG_FILE" in str(refused.value)


@pytest.mark.parametrize("value", ["sun", "{}", "[1, 2", "5"])
def test_policies_that_are_no_list_are_refused_with_the_value(value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load({"BALLAST_POWER__POLICIES": value})
    assert "BALLAST_POWER__POLICIES is " in str(refused.value)


def test_annotations_of_operators_stand_beside_the_mode_of_power(tmp_path: Path) -> None:
    path = tmp_path / "ballast.yaml"
    path.write_text("power: {mode: 'off', operator_only: [exclude-power], name: sun}\n")
    found = load({"BALLAST_CONFIG_FILE": str(path), "BALLAST_PROMETHEUS__URL": "http://p"})
    assert found.power.operator_only == ("exclude-power",)
    assert found.power.policies == ({"name": "sun"},)


def test_a_value_that_stands_within_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ballast.yaml"
    path.write_text("telemetry:\n  resources: &r [{name: cpu}, *r]\n")
    with pytest.raises(SettingsError, match=r"\*r stands within &r itself"):
        load({"BALLAST_CONFIG_FILE": str(path)})
