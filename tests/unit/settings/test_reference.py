import json
from pathlib import Path

from ballast.settings import explain
from ballast.settings.model import VARIABLES
from ballast_lab.pages.settings import json_schema, markdown

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_is_in_step_with_the_settings() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m ballast_lab.pages.settings > docs/settings.md"


def test_the_page_and_the_explanation_have_every_variable() -> None:
    page, names = markdown(), [row["name"] for row in explain({})]
    assert names == ["BALLAST_CONFIG_FILE", *VARIABLES]
    assert not [name for name in VARIABLES if f"| `{name}` |" not in page]


def test_a_newcomer_meets_about_forty_settings() -> None:
    common, expert = markdown().split("\n## Expert\n")
    assert 35 <= common.count("| `BALLAST_") <= 50
    assert "`BALLAST_PROMETHEUS__URL`" in common
    for name in ("EVICTION__KAPPA", "EVICTION__PRICE", "PUBLISHING__JITTER", "WINDOWS__MIN_SAMPLES", "CLUSTER__BURST"):
        assert f"| `BALLAST_{name}` |" in expert


def test_the_schema_has_every_setting_and_stands_alone() -> None:
    schema = json_schema()
    described = {(part, field) for part, sub in schema["properties"].items() for field in sub["properties"]}
    assert described == set(VARIABLES.values())
    assert all(field["description"] for part in schema["properties"].values() for field in part["properties"].values())
    assert "$ref" not in json.dumps(schema)


def test_every_value_of_the_explanation_is_plain() -> None:
    assert json.loads(json.dumps(explain({}))) == explain({})
    assert {row["origin"] for row in explain({})} == {"default"}
    unset = {row["name"] for row in explain({}) if row["value"] is None}
    assert {"BALLAST_PROMETHEUS__URL", "BALLAST_PROMETHEUS__HEADERS", "BALLAST_WINDOWS__MAX_AGE"} <= unset
