import re
from pathlib import Path

from ballast.eviction.gate import ROWS
from ballast.settings import explain
from ballast.settings.model import VARIABLES, variable

PAGE = Path(__file__).parents[3] / "docs" / "evictions.md"
FIELDS = {field.upper(): variable(part, field) for part, field in VARIABLES.values() if part == "eviction"}


def rows() -> list[list[str]]:
    """Number, check, what it refuses, default, what lifts it."""
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_lists_every_check_in_its_order() -> None:
    assert [(number, name) for number, name, *_ in rows()] == [
        (f"{n}", f"`{row.name}`") for n, row in enumerate(ROWS, 1)
    ]


def test_the_page_says_which_checks_an_annotation_lifts() -> None:
    assert [row[1] for row in rows() if row[4] == "`evict`"] == [f"`{row.name}`" for row in ROWS if row.liftable]


def test_the_page_has_the_defaults_of_the_settings() -> None:
    defaults = {row["name"]: row["value"] for row in explain({})}
    told = [pair for row in rows() for pair in re.findall(r"`([A-Z_]+)` ([^ `]+?)(?:, (?=`)|$)", row[3])]
    assert len(told) > 20
    for field, value in told:
        assert value == _text(defaults[FIELDS[field]]), field


def test_every_setting_that_the_page_names_exists() -> None:
    page = PAGE.read_text()
    assert set(re.findall(r"BALLAST_[A-Z]+__[A-Z_]+", page)) <= set(VARIABLES)
    short = set(re.findall(r"`([A-Z][A-Z_]{2,})\b", page))
    assert {name for name in short if not name.startswith("BALLAST_")} <= set(FIELDS)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "unset"
    return "unset" if value is None else str(value)
