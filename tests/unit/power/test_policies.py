"""Policies as they are written: exact, and refused with the key and the rule."""

import re
from fractions import Fraction
from typing import Any

import pytest
import yaml

from ballast.base.errors import SettingsError
from ballast.power.feed_spec import FeedSpec, remaining
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import hidden_exporters, not_to_run, read, remarks, unusable_at
from ballast.power.sections import Rounding
from ballast.power.values import exact, seconds
from tests.worlds.power import policy

KEYS = [
    *("share", "window", "members", "maxStep", "weight", "tolerance"),
    *("semantics", "floorWatts", "deadband", "groups", "nominal", "replicas"),
]
ONE = "independents: [{ref: a/b, max: 3}]"


def parsed(text: str) -> PowerPolicy:
    return read([yaml.safe_load(text)])[0]


def refusal(*texts: str) -> str:
    with pytest.raises(SettingsError) as refused:
        read([yaml.safe_load(text) for text in texts])
    return str(refused.value)


def test_numbers_are_the_decimals_that_were_written() -> None:
    one = parsed(
        "deadband: 0.1\nincrease: {tolerance: '0.07', window: 1m30s}\nindependents: [{ref: a/b, max: 3, weight: 0.3}]"
    )
    assert one.deadband == Fraction(1, 10)
    assert one.increase.tolerance == Fraction(7, 100)
    assert one.increase.window == 90
    assert one.places["a/b"].member.weight == Fraction(3, 10)
    assert (exact(1e3), exact("1e-2"), seconds("0.5s"), seconds("1h5ms"), seconds(15)) == (
        1000,
        Fraction(1, 100),
        Fraction(1, 2),
        Fraction("3600.005"),
        15,
    )


def test_what_is_not_written_has_the_documented_default() -> None:
    one = parsed(ONE)
    assert (one.name, one.deadband, one.increase.window, one.decrease.window) == ("power", Fraction(1, 20), 60, 120)
    assert (one.increase.tolerance, one.decrease.tolerance) == (Fraction(4, 100), Fraction(5, 100))
    assert (one.rounds, one.fallback.after, one.fallback.policy, one.floor) == (Rounding.SAFE, 300, "hold", 1)
    assert one.restore_first
    assert one.emergency_drop is None
    member = one.places["a/b"].member
    assert (member.kind, member.name, member.min, member.start) == ("deployments.apps", "a/b", 1, 3)
    assert list(remarks(one)) == []


def test_a_target_may_be_of_any_kind() -> None:
    one = parsed("independents: [{ref: statefulsets.apps/a/b, max: 3}, {ref: things.example.com/a/c, max: 3}]")
    assert {name: place.member.kind for name, place in one.places.items()} == {
        "a/b": "statefulsets.apps",
        "a/c": "things.example.com",
    }


@pytest.mark.parametrize(
    "place", ["{}", "increase: {{{}}}", "groups: [{{{}}}]", "independents: [{{{}}}]", "feed: {{{}}}"]
)
@pytest.mark.parametrize("key", KEYS)
def test_a_proposed_key_is_allowed_where_it_is_proposed(place: str, key: str) -> None:
    def complaint(name: str) -> str:
        with pytest.raises(SettingsError) as raised:
            parsed(place.format(f"{name}: x"))
        return next((text for text in str(raised.value).splitlines() if f"{name} is no key" in text), "")

    proposal = re.search(r"Did you mean (\w+)\?", complaint(key[:2] + key[3:]))
    assert proposal is None or complaint(proposal[1]) == ""


def test_an_empty_key_counts_as_unset() -> None:
    assert parsed(f"deadband:\nname: ''\n{ONE}").deadband == Fraction(1, 20)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dryRun: true", "BALLAST_POWER__MODE"),
        ("deadband: 1", "deadband is 1: expected a fraction above 0 and below 1"),
        ("deadband: .nan", "deadband is nan"),
        ("deadband: true", "deadband is true"),
        ("increase: {window: 5x}", 'increase.window is "5x": expected a duration'),
        ("increase: {window: -5}", "not a negative one"),
        ("increase: {tolerance: 5}", "increase.tolerance is 5"),
        ("increase: 5", "increase is 5: expected a mapping"),
        ("increase: {shares: 5}", "shares is no key of a policy. Allowed are auto, maxStep, tolerance, window."),
        (
            "groups: [{name: a, shares: 1}]",
            "groups[0].shares is no key of a policy. Allowed are members, name, priority.",
        ),
        ("increase: {wndow: 5}", "increase.wndow is no key of a policy. Did you mean window?"),
        ("members: [{ref: a/b, max: 3}]", "members is no key of a policy. members belongs under groups."),
        ("increase: {margin: 5}", "increase.margin is no key of a policy. margin belongs under the policy itself."),
        ("groups: [{name: a, share: 1}]", "no key of a policy. share belongs under independents or members."),
        ("increase: {maxStep: {}}", "increase.maxStep: expected either percent or pods"),
        ("emergencyDrop: {relative: 0.5, samples: 1}", "emergencyDrop.samples is 1"),
        (f"emergencyDrop: {{relative: 0.05}}\n{ONE}", "emergencyDrop.relative is 0.05, deadband 0.05"),
        ("stability: windows", "expected 'window' or 'endpoint'"),
        ("restoreFirst: 1", "expected true or false"),
        ("groups: [{name: a/b, members: [{ref: a/b, max: 3}]}]", "groups[0].name"),
        ("groups: [{name: g, members: []}]", "groups[0].members: expected at least one"),
        ("groups: [{name: g, members: [{ref: a/b, max: 1}]}, {name: g, members: [{ref: a/c, max: 1}]}]", "g exists 2"),
        ("groups: [{name: g, members: [{ref: a/b, max: 1, weight: 0}]}]", "all weights of g are 0"),
        ("groups: [{name: g, members: [{ref: a/b, max: 1, weight: -1}]}]", "weight is -1"),
        (f"groups: [{{name: g, members: [{{ref: a/b, max: 1}}]}}]\n{ONE}", "(group g, independents)"),
        ("independents: [{ref: a/b, max: 3.5}]", "max is 3.5: expected a whole number"),
        ("independents: [{ref: a/b, max: 99999999999}]", "expected a whole number between 0 and 2147483647"),
        ("independents: [{ref: a/b}]", "independents[0].max is missing"),
        ("independents: [{ref: b, max: 1}]", "expected namespace/name"),
        ("independents: [{ref: a/b, min: 4, max: 3}]", "min is 4, max 3"),
        ("{}", "nothing to scale"),
        (f"basePower: 100\nnominal: {{watts: 100, replicas: 4}}\n{ONE}", "nominal.watts is 100, basePower 100"),
        ("nominal: {watts: 100, replicas: 0}", "nominal.replicas is 0"),
        ("feed: {}", "expected one of watts, query, url, csv and limit"),
        ("feed: {query: x, semantics: consumption}", "can be no budget"),
        ("feed: {query: x, semantics: carbon-intensity}", "expected a map"),
        ("feed: {query: x, floorWatts: 0}", "feed.floorWatts is 0"),
        ("feed: {query: x, semantics: limit-minus-consumption}", "expected limit and consumption"),
        (
            f"feed: {{semantics: limit-minus-consumption, limit: {{watts: 900}}, consumption: {{query: x}}}}\n{ONE}",
            "replicas would swing for ever",
        ),
        (f"feed: {{query: x, maxAge: 61s}}\n{ONE}", "expected at most the shorter window, 60s"),
        (f"fallback: {{policy: replicas}}\n{ONE}", "expected a map of fallback.replicas"),
        (f"fallback: {{policy: replicas, replicas: {{a/c: 1}}}}\n{ONE}", "a/c is not a target"),
        (f"fallback: {{policy: replicas, replicas: {{a/b: 9}}}}\n{ONE}", "a/b is 9"),
    ],
)
def test_a_wrong_policy_is_refused_with_the_key_and_the_rule(text: str, told: str) -> None:
    refused = refusal(text)
    assert told in refused
    assert all(line.startswith("power: ") for line in refused.splitlines())


def test_all_problems_are_told_at_once_each_with_its_policy() -> None:
    refused = refusal(f"name: one\ndeadband: 2\nfeed: {{}}\n{ONE}", f"name: two\n{ONE}", f"name: two\n{ONE}", ONE)
    assert "power policy one: deadband is 2" in refused
    assert "power policy one: feed: expected one of" in refused
    assert "power policy two exists twice" in refused
    assert "number 4 has no name" in refused
    assert "a/b is a target of the power policies two and power" in refused


def test_several_policies_stand_side_by_side() -> None:
    found = read([yaml.safe_load(f"name: rack-{i}\nindependents: [{{ref: r{i}/b, max: 3}}]") for i in (1, 2)])
    assert [one.name for one in found] == ["rack-1", "rack-2"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            {"increase": {"tolerance": 0.05}},
            "increase.tolerance is 0.05: expected less than deadband/(1 + deadband) = 0.047619",
        ),
        (
            {"decrease": {"tolerance": 0.06}},
            "decrease.tolerance is 0.06: expected less than deadband/(1 - deadband) = 0.052631",
        ),
    ],
)
def test_tolerances_that_allow_a_change_of_sign_are_warned_of(keys: dict[str, Any], told: str) -> None:
    assert told in "".join(remarks(policy(**keys)))
    named = {"feed": {"query": "x", "semantics": "available"}}
    assert list(not_to_run(policy(**named, **keys))) == []
    assert told in "".join(not_to_run(policy(stability="endpoint", **named, **keys)))


def test_a_window_is_held_against_the_tick() -> None:
    one = policy(increase={"window": 20}, decrease={"window": 0})
    assert "increase.window is 20s, shorter than one tick: INTERVAL is 30s" in "".join(
        unusable_at(one, Fraction(30), "INTERVAL")
    )
    assert list(unusable_at(one, Fraction(20), "INTERVAL")) == []
    assert "less than two ticks" in "".join(remarks(one, Fraction(15)))
    assert list(remarks(one, Fraction(10))) == []


def test_to_run_a_feed_has_to_say_what_it_means() -> None:
    assert "feed is missing" in "".join(not_to_run(policy()))
    assert "feed.semantics is missing" in "".join(not_to_run(policy(feed={"query": "x"})))
    assert list(not_to_run(policy(feed={"url": "http://x", "jsonPath": "$.watts"}))) == []


def test_replicas_out_of_bounds_and_half_given_watts_are_warned_of() -> None:
    members = [{"ref": "a/b", "max": 3, "replicas": 5}, {"ref": "a/c", "max": 3, "wattsPerReplica": 5}]
    told = "".join(remarks(policy(independents=members)))
    assert "replicas is 5, outside min 1 and max 3" in told
    assert "wattsPerReplica is given for some members only" in told


def test_a_feed_becomes_watts() -> None:
    assert FeedSpec(query="x", unit="kW").budget(Fraction(3, 2)) == 1500
    carbon = FeedSpec(query="x", semantics="carbon-intensity", map=[[100, 2000], [300, 800]])
    assert [carbon.budget(Fraction(g)) for g in (0, 100, 101, 301)] == [2000, 2000, 800, 0]
    assert remaining(Fraction(900), Fraction(700), Fraction(500)) == 700
    assert remaining(Fraction(900), Fraction(1700), Fraction(500)) == 0


@pytest.mark.parametrize(
    ("feed", "key"),
    [
        ({"query": "sum(inverter_watts)", "semantics": "available"}, "feed.query is sum(inverter_watts)"),
        ({"query": "sum by (site) (inverter_watts)", "semantics": "available"}, "feed.query"),
        (
            {
                "limit": {"watts": 100},
                "consumption": {"query": "SUM(rate(joules_total[5m]))", "of": "others"},
                "semantics": "limit-minus-consumption",
            },
            "feed.consumption.query",
        ),
    ],
)
def test_a_sum_over_exporters_is_warned_of(feed: dict[str, Any], key: str) -> None:
    [told] = hidden_exporters(policy(feed=feed))
    assert told.startswith(key)
    assert "expectSeries" in told


def test_what_only_looks_like_a_sum_is_not() -> None:
    for query in ("inverter_watts", "sum_of_watts", "avg_over_time(checksum_watts[1m])", "max(x)"):
        assert list(hidden_exporters(policy(feed={"query": query, "semantics": "available"}))) == []


def test_the_charge_of_a_battery_is_spent_down_to_its_reserve() -> None:
    battery = {"kWh": 10, "over": "4h", "reserve": 0.25, "watts": 1500, "full": 100}
    feed = FeedSpec.model_validate({"query": "soc", "semantics": "state-of-charge", "battery": battery})
    watts = [float(feed.budget(Fraction(charge))) for charge in (100, 65, 45, 25, 10, 0)]
    assert watts == [1500, 1000, 500, 0, 0, 0]
    for wrong in ({"semantics": "available", "battery": battery}, {"semantics": "state-of-charge"}):
        with pytest.raises(SettingsError, match="expected battery"):
            policy(feed={"query": "soc", **wrong})


def test_two_policies_spend_one_feed_only_where_one_is_within_the_other() -> None:
    feed = {"query": "site_watts", "semantics": "available"}

    def of(name: str, **keys: Any) -> dict[str, Any]:
        return {
            "name": name,
            "feed": feed,
            "independents": [{"ref": f"ns/{name}", "max": 9, "wattsPerReplica": 5}],
            **keys,
        }

    with pytest.raises(SettingsError, match="site and rack have one feed"):
        read([of("site"), of("rack")])
    assert read([of("site"), of("rack", within="site")])[1].part_of == "site"
    for wrong in ("rack", "hall"):
        with pytest.raises(SettingsError, match=f"within is {wrong}"):
            read([of("site"), of("rack", within=wrong)])
