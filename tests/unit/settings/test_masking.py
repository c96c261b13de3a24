import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.errors import SettingsError
from ballast.settings import examine, explain, load, mask_urls
from ballast.settings.secrets import mask_address


def everything(environ: dict[str, str]) -> str:
    findings = examine(environ)
    return f"{explain(environ)} {findings.problems} {findings.warnings} {findings.settings!r}"


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@prometheus:9090",
        "https://hunter2@prometheus",
        "http://user:hunter2/x@prometheus:9090",
        "http://user:hunter2@x@prometheus",
        "user:hunter2@prometheus:9090",
        "ftp://user:hunter2@prometheus",
        "http://user:hunter2@prometheus:port",
        "http://user:hunter2@",
    ],
)
def test_the_user_info_of_an_address_is_never_shown(url: str) -> None:
    assert "hunter2" not in everything({"BALLAST_PROMETHEUS__URL": url})
    assert "hunter2" not in everything({"METRICS_PROVIDER_ADDRESS": url})


@pytest.mark.parametrize(
    "url",
    [
        "http://prometheus:9090/?token=hunter2",
        "http://prometheus:9090?hunter2",
        "http://prometheus:9090/x?token=a@hunter2",
        "http://user:x?hunter2@prometheus:9090",
        "http://user@prometheus/?token=hunter2 hunter2",
        "http://prometheus/#hunter2",
        "prometheus:9090/?token=hunter2",
    ],
)
def test_the_query_of_an_address_is_never_shown(url: str, tmp_path: Path) -> None:
    assert "hunter2" not in everything({"BALLAST_PROMETHEUS__URL": url})
    assert "hunter2" not in everything({"METRICS_PROVIDER_ADDRESS": url})
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({"prometheus": {"url": url}}))
    assert "hunter2" not in everything({"BALLAST_CONFIG_FILE": str(file)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BALLAST_TELEMETRY__SOURCE", "http://x/?k=hunter2"),
        ("BALLAST_TELEMETRY__RESOURCES", '{"gpu": {"query": "http://x/?k=hunter2"}}'),
        ("BALLAST_TELEMETRY__RESOURCES", '{"gpu": "http://x/?k=hunter2"}'),
        ("BALLAST_PROMETHEUS__MATCHERS", 'a="http://x/?k=hunter2"'),
        ("BALLAST_PROMETHEUS__MATCHERS", "http://x/?k=hunter2"),
    ],
)
def test_an_address_anywhere_is_masked(name: str, value: str) -> None:
    findings = examine({name: value})
    assert "hunter2" not in f"{explain({name: value})} {findings.problems} {findings.warnings}"


def test_a_yaml_error_does_not_quote_what_is_secret(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("prometheus: {url: http://u:hunter2@x/?hunter2 : [}")
    assert "hunter2" not in everything({"BALLAST_CONFIG_FILE": str(file)})


@pytest.mark.parametrize(
    "headers",
    ['{"X-Token": "hunter2"}', '{"X-Token": "hunter2"', "X-Token: hunter2", '["hunter2"]', '{"X-Token": "hunter2\\n"}'],
)
def test_the_values_of_headers_are_never_shown(headers: str) -> None:
    assert "hunter2" not in everything({"BALLAST_PROMETHEUS__HEADERS": headers})


def test_the_names_of_headers_are() -> None:
    rows = {row["name"]: row["value"] for row in explain({"BALLAST_PROMETHEUS__HEADERS": '{"X-Token": "hunter2"}'})}
    assert rows["BALLAST_PROMETHEUS__HEADERS"] == {"X-Token": "********"}


def test_an_inline_token_is_never_shown() -> None:
    assert "hunter2" not in everything({"METRICS_PROVIDER_TOKEN": "hunter2"})
    assert "hunter2" not in everything({"METRICS_PROVIDER_TOKEN": "hunter2", "BALLAST_HTTP__PORT": "x"})


def test_a_message_with_a_url_is_masked() -> None:
    text = 'GET "https://u:hunter2@x/api": refused; http://y@z:1 too, mail me@example.org'
    assert mask_urls(text) == 'GET "https://********@x/api": refused; http://********@z:1 too, mail me@example.org'
    assert mask_urls("http://x/y?a=b&c, http://z? and http://x/y") == "http://x/y?******** http://z? and http://x/y"


@given(st.from_regex(r"[a-z0-9:%/@]{1,12}", fullmatch=True))
def test_whatever_stands_before_the_last_at_is_hidden(secret: str) -> None:
    assert mask_address(f"http://{secret}@host") == "http://********@host"


def test_an_address_that_is_used_keeps_its_user() -> None:
    assert load({"BALLAST_PROMETHEUS__URL": "http://u:p@x"}).prometheus.url == "http://u:p@x"
    with pytest.raises(SettingsError):
        load({"BALLAST_PROMETHEUS__URL": "u:p@x"})
