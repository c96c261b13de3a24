from pathlib import Path

import pytest

from ballast.base.errors import SettingsError
from ballast.settings import Settings, TelemetrySettings, check_run, examine, load


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "file"
    path.write_text("x")
    return str(path)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            {"PROMETHEUS__TOKEN_FILE": "FILE", "PROMETHEUS__USERNAME": "u", "PROMETHEUS__PASSWORD_FILE": "FILE"},
            "one of them",
        ),
        ({"PROMETHEUS__URL": "http://u:p@x", "PROMETHEUS__TOKEN_FILE": "FILE"}, "one of them"),
        ({"PROMETHEUS__HEADERS": '{"authorization": "x"}', "PROMETHEUS__TOKEN_FILE": "FILE"}, "one of them"),
        ({"PROMETHEUS__USERNAME": "u"}, "BALLAST_PROMETHEUS__PASSWORD_FILE is not set"),
        ({"PROMETHEUS__PASSWORD_FILE": "FILE"}, "BALLAST_PROMETHEUS__USERNAME is not set"),
        ({"PROMETHEUS__CERT_FILE": "FILE"}, "BALLAST_PROMETHEUS__KEY_FILE is not set"),
        ({"PROMETHEUS__KEY_FILE": "FILE"}, "BALLAST_PROMETHEUS__CERT_FILE is not set"),
        ({"HTTP__TLS_CERT_FILE": "FILE"}, "BALLAST_HTTP__TLS_KEY_FILE is not set"),
        ({"HTTP__CLIENT_CA_FILE": "FILE"}, "client certificates need TLS"),
        ({"WINDOWS__LENGTHS": "5m,300s"}, "each length once"),
        ({"WINDOWS__LENGTHS": "15m,1m"}, "The window 1m of BALLAST_WINDOWS__LENGTHS can never be known"),
        ({"WINDOWS__MIN_SAMPLES": "11"}, "The window 5m of BALLAST_WINDOWS__LENGTHS can never be known"),
        ({"PUBLISHING__LOW": "0.8"}, "LOW < HIGH <= OVERLOADED"),
        ({"PUBLISHING__OVERLOADED": "0.7"}, "LOW < HIGH <= OVERLOADED"),
        ({"EVICTION__LOW": "0.9"}, "HIGH = 0.8: expected LOW < HIGH"),
        ({"EVICTION__LOW": '{"disk": 0.9}', "EVICTION__HIGH": '{"disk": 0.8}'}, "expected LOW < HIGH"),
        ({"PUBLISHING__HIGH": '{"cpu": 0.95, "gpu": 0.9}'}, "LOW < HIGH <= OVERLOADED"),
        ({"PUBLISHING__HIGH": "{}"}, "at least one resource"),
        ({"SCORING__RESOURCES": '{"cpu": 2}'}, "a weight between 0 and 1 for cpu"),
        ({"SCORING__RESOURCES": '{"cpu": 0}'}, "at least one weight above 0"),
        ({"METRICS__NODES": "some"}, "primary"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(names: dict[str, str], said: str, file: str) -> None:
    environ = {f"BALLAST_{name}": file if value == "FILE" else value for name, value in names.items()}
    with pytest.raises(SettingsError) as raised:
        load(environ)
    assert said in str(raised.value)
    assert "u:p" not in str(raised.value)


def test_overloaded_may_equal_high() -> None:
    assert load({"BALLAST_PUBLISHING__HIGH": "0.9"})


@pytest.mark.parametrize("interval", ["1s", "60s", "5m", "0.5"])
def test_any_interval_is_legal(interval: str) -> None:
    assert load({"BALLAST_TELEMETRY__INTERVAL": interval}).telemetry.interval.text == interval


def test_an_interval_that_leaves_default_windows_unknown_is_a_warning() -> None:
    assert "The window 5m" in examine({"BALLAST_TELEMETRY__INTERVAL": "2m"}).warnings[0]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"PROMETHEUS__CA_FILE": "FILE", "PROMETHEUS__INSECURE_SKIP_VERIFY": "true"}, "has no effect"),
        ({"PROMETHEUS__CA_FILE": "FILE", "PROMETHEUS__URL": "http://x"}, "Use https://"),
        ({"PUBLISHING__CRANE_POLICY_FILE": "FILE"}, "has no effect"),
        ({"EVICTION__MODES": '{"consolidate": "on"}'}, "on for consolidate, which may do no more than MODE = dry-run"),
        ({"TELEMETRY__SOURCE": "metrics-server", "TELEMETRY__RESOURCES": "cpu,disk"}, "knows only cpu and memory"),
    ],
)
def test_what_will_not_do_what_it_seems_to_is_a_warning(names: dict[str, str], said: str, file: str) -> None:
    findings = examine({f"BALLAST_{name}": file if value == "FILE" else value for name, value in names.items()})
    assert not findings.problems
    assert said in findings.warnings[0]


def test_run_needs_an_address_of_prometheus_and_metrics_server_none() -> None:
    with pytest.raises(SettingsError, match="BALLAST_PROMETHEUS__URL is not set"):
        check_run(Settings())
    check_run(load({"BALLAST_PROMETHEUS__URL": "http://x"}))
    check_run(Settings(telemetry=TelemetrySettings(source="metrics-server")))


def test_the_defaults_can_run() -> None:
    check_run(load({"BALLAST_PROMETHEUS__URL": "http://prometheus:9090"}))


def test_a_resource_that_decides_nothing_is_warned_about() -> None:
    def warned(**more: str) -> list[str]:
        given = {f"BALLAST_{name}": value for name, value in more.items()}
        return [text for text in examine(given).warnings if "decides" in text]

    resources = {"TELEMETRY__RESOURCES": "cpu,memory,disk"}
    [text] = warned(**resources)
    assert "disk" in text
    assert "BALLAST_SCORING__RESOURCES" in text
    assert warned(**resources, SCORING__RESOURCES='{"cpu": 1, "memory": 1, "disk": 0.5}') == []
    assert warned(**resources, EVICTION__HIGH='{"cpu": 0.8, "memory": 0.8, "disk": 0.9}') == []
    weighed = '{"load-variation": {"resources": {"cpu": 1, "disk": 0.5}}}'
    assert warned(**resources, SCORING__KEYS=weighed) == []
    [text] = warned(SCORING__RESOURCES='{"cpu": 1, "network": 1}')
    assert text.startswith("network has a weight")


def test_limits_are_numbers_or_maps() -> None:
    given = {
        "BALLAST_EVICTION__TARGET_HIGH": '{"cpu": "70%", "disk": 0.5}',
        "BALLAST_PUBLISHING__OVERLOADED": "95%",
        "BALLAST_METRICS__NODES": "all",
    }
    settings = examine(given).settings
    assert settings.eviction.target_high == {"cpu": 0.7, "disk": 0.5}
    assert settings.publishing.overloaded == 0.95
    assert settings.metrics.nodes == "all"
    assert settings.scoring.resources == {"cpu": 1, "memory": 1}


def test_what_a_strategy_reads_decides_and_is_missed_where_it_is_not_measured() -> None:
    keys = {"BALLAST_SCORING__KEYS": '{"load-variation": {"resources": {"cpu": 1, "network": 1}}}'}
    measured = keys | {"BALLAST_TELEMETRY__RESOURCES": "cpu,memory,network"}
    requests = {f"BALLAST_{part}__STRATEGY": "least-allocated" for part in ("PUBLISHING", "EXTENDER")}
    [text] = examine(keys).warnings
    assert "reads network, but BALLAST_TELEMETRY__RESOURCES does not have it" in text
    assert examine(measured).warnings == ()
    [text] = examine(measured | requests).warnings
    assert "network, which is measured and shown, but decides nothing" in text


@pytest.mark.parametrize(
    ("mode", "modes", "running"),
    [
        ("on", "", {"relieve": "on", "rebalance": "on"}),
        ("on", '{"consolidate": "dry-run"}', {"relieve": "on", "rebalance": "on", "consolidate": "dry-run"}),
        ("on", '{"relieve": "off", "rebalance": "dry-run"}', {"rebalance": "dry-run"}),
        ("dry-run", '{"relieve": "on"}', {"relieve": "dry-run", "rebalance": "dry-run"}),
    ],
)
def test_a_planner_has_a_mode_within_that_of_evictions(mode: str, modes: str, running: dict[str, str]) -> None:
    names = {"MODE": mode, "PLANNERS": "relieve,rebalance", **({"MODES": modes} if modes else {})}
    eviction = examine({f"BALLAST_EVICTION__{name}": value for name, value in names.items()}).settings.eviction
    assert eviction.running == running
    assert eviction.acting == {name for name, may in running.items() if may == "on"}
    acts = eviction.beside("relieve") if "relieve" in eviction.acting else eviction.acting
    assert acts == eviction.acting, "who acts counts on nobody who is in dry-run"


@pytest.mark.parametrize("modes", ['{"conslidate": "on"}', '{"relieve": "sometimes"}', "relieve", "[]"])
def test_modes_that_mean_nothing_are_refused(modes: str) -> None:
    [problem] = examine({"BALLAST_EVICTION__MODES": modes}).problems
    assert problem.startswith("BALLAST_EVICTION__MODES")
    assert "expected" in problem
