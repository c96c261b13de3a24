import json
import pickle
from pathlib import Path
from string import ascii_letters

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.settings import Count, Duration, Rate, examine, explain
from ballast.settings.lists import as_list, as_map, split
from ballast.settings.model import VARIABLES, Settings
from ballast.settings.plain_parts import PublishingSettings
from ballast.settings.written import Speed


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("1d2h3m4s5ms", 93_784.005),
        ("90", 90),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1.5h", 5400),
        ("0", 0),
        (" 10s ", 10),
        (30, 30),
        (0.25, 0.25),
    ],
)
def test_a_duration_reads_what_people_write(text: str | float, seconds: float) -> None:
    assert Duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5x", "m", "5 m", "-5s", "1m1h", "1h1h", "nan", "inf", "1e3", "5M", "1h 30m", "१s", -1, float("nan")]
)
def test_anything_else_is_no_duration_and_the_error_says_what_is_one(text: str | float) -> None:
    with pytest.raises(ValueError, match="15s, 5m, 1h or 1h30m"):
        Duration(text)


@given(st.tuples(*[st.integers(0, 99)] * 4).filter(any))
def test_a_duration_is_the_sum_of_its_parts_and_keeps_its_spelling(parts: tuple[int, int, int, int]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in zip(parts, "dhms", strict=True) if number)
    duration = Duration(text)
    assert duration == sum(n * s for n, s in zip(parts, (86_400, 3_600, 60, 1), strict=True))
    assert duration.text == str(duration) == text
    assert pickle.loads(pickle.dumps(duration)).text == text


@given(st.floats(0, 1e9, allow_nan=False))
def test_a_bare_number_is_seconds(seconds: float) -> None:
    assert Duration(f"{seconds:.6f}") == pytest.approx(seconds, abs=1e-6)


@given(st.lists(st.text(ascii_letters + "0123456789.-_/", min_size=1)))
def test_a_list_is_the_same_comma_separated_and_as_json(items: list[str]) -> None:
    assert as_list(",".join(items)) == as_list(json.dumps(items)) == as_list(items) == items


def test_commas_in_quotes_and_brackets_do_not_cut() -> None:
    assert split('a="x,y",b=~"n{1,3}\\",z",c=\'q,"\',d') == ['a="x,y"', 'b=~"n{1,3}\\",z"', "c='q,\"'", "d"]
    assert split("sum(a, b), {c,d} , e") == ["sum(a, b)", "{c,d}", "e"]
    assert split(" a , , b ") == ["a", "b"]


@given(st.dictionaries(st.text(), st.integers()))
def test_a_map_is_the_same_as_json_and_as_a_mapping(items: dict[str, int]) -> None:
    assert as_map(json.dumps(items)) == as_map(items) == items


@pytest.mark.parametrize("value", ["a=b", "[1]", "{1", 5, True])
def test_anything_else_is_no_map(value: object) -> None:
    with pytest.raises(ValueError, match="JSON map"):
        as_map(value)


@pytest.mark.parametrize(
    ("text", "total", "allowed"),
    [("5", 1000, 5), (5, 3, 5), ("0", 9, None), ("0%", 9, None), ("10%", 25, 2), ("10%", 3, 1), ("1%", 150_000, 1500)],
)
def test_a_count_is_a_number_or_a_share_and_zero_is_no_limit(text: object, total: int, allowed: int | None) -> None:
    assert Count.parse(text).of(total) == allowed


@pytest.mark.parametrize("text", ["", "-1", "1.5", "101%", "five", "5 pods", True, "inf"])
def test_anything_else_is_no_count(text: object) -> None:
    with pytest.raises(ValueError, match="a count such as 5 or a share such as 10%"):
        Count.parse(text)


def test_a_rate_is_a_count_within_a_duration_by_default_an_hour() -> None:
    assert Rate.parse("20") == Rate.parse(20) == Rate(Count(20), Duration("1h"))
    assert Rate.parse("1%/1d") == Rate(Count.parse("1%"), Duration("1d"))
    for text in ("20/0", "20/x", "x/1h"):
        with pytest.raises(ValueError, match="a rate such as 20/1h"):
            Rate.parse(text)


@pytest.mark.parametrize(
    ("text", "share"), [("10%", 0.1), ("0.1", 0.1), (0.1, 0.1), ("0", 0), ("100%", 1), ("2.5 %", 0.025)]
)
def test_a_share_is_a_fraction_or_percent(text: str, share: float) -> None:
    assert PublishingSettings(jitter=text).jitter == share  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "bytes_per_second"), [("8bit", 1), ("10Gbit", 1.25e9), ("1.25GB", 1.25e9), ("100 Mbit/s", 12.5e6)]
)
def test_a_speed_is_in_bytes_a_second(text: str, bytes_per_second: float) -> None:
    assert Speed(text) == bytes_per_second


@pytest.mark.parametrize("text", ["10", "10G", "0Gbit", "-1Gbit", "fast", "10gbit"])
def test_a_speed_needs_its_unit(text: str) -> None:
    with pytest.raises(ValueError, match="10Gbit"):
        Speed(text)


NINES = "9" * 400


def fields(part: str, text: str) -> str:
    return "".join(f"  {field}: {text}\n" for owner, field in VARIABLES.values() if owner == part)


UNITS = ("", "s", "d", "%", "/1h", "%/1d", "TB")


@pytest.mark.slow
@pytest.mark.parametrize("number", [NINES, f"0x{'f' * 5000}"])
def test_no_number_is_too_long_for_a_sentence(number: str, tmp_path: Path) -> None:
    path = tmp_path / "ballast.yaml"
    texts = [number + unit for unit in UNITS] + [f"-{number}", f"[{number}]", f'{{"cpu": {number}}}', f"1/{number}h"]
    for text in texts:
        path.write_text("".join(f"{part}:\n{fields(part, text)}" for part in Settings.model_fields))
        for environ in (dict.fromkeys(VARIABLES, text), {"BALLAST_CONFIG_FILE": str(path)}):
            findings = examine(environ)
            assert explain(environ, findings)
            assert all("expected" in problem for problem in findings.problems)
            assert not [problem for problem in findings.problems if "sys.set_int" in problem or "Unable to" in problem]


@pytest.mark.parametrize("text", [NINES, f"{NINES}s", f"{NINES}d", "100001d", 1e300, 10**30])
def test_a_duration_that_no_timer_takes_is_refused(text: str | float) -> None:
    with pytest.raises(ValueError, match="15s, 5m, 1h or 1h30m"):
        Duration(text)


@pytest.mark.parametrize("value", [NINES, f"{NINES}%", "9" * 5000, "9" * 20, f"{'0' * 400}5"])
def test_a_count_beyond_every_cluster_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="a count such as 5 or a share such as 10%"):
        Count.parse(value)
    with pytest.raises(ValueError, match="a rate such as 20/1h"):
        Rate.parse(f"{value}/1h")


def test_an_infinite_speed_is_refused() -> None:
    with pytest.raises(ValueError, match="a link speed with its unit"):
        Speed(f"{NINES}Gbit")


def test_whole_numbers_that_no_program_counts_to_are_refused() -> None:
    for name in ("BALLAST_WINDOWS__MIN_SAMPLES", "BALLAST_CLUSTER__BURST", "BALLAST_EVICTION__PRIORITY_BELOW"):
        [problem] = examine({name: NINES}).problems
        assert "expected a number of at most 9223372036854775807. Correct it, or unset it" in problem
