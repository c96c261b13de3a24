"""Reads policies from the mappings of a configuration file and checks them; errors are sentences for the user."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ballast.base.errors import SettingsError
from ballast.power import feed_spec, policy, sections
from ballast.power.feed_spec import ConsumptionScope, Semantics
from ballast.power.policy import Group, Member, PowerPolicy
from ballast.power.sections import BudgetKind, PolicySection, Side, Stability, WhenSilent

_SUM = re.compile(r"\bsum\s*(?:(?:by|without)\s*\([^)]*\)\s*)?\(", re.IGNORECASE)
"""A sum in PromQL."""


def contradictions(policy: PowerPolicy) -> Iterator[str]:
    """One sentence for each thing that makes the policy unusable, wherever it is used."""
    yield from _members(policy)
    yield from _absolute(policy)
    yield from _feed(policy)
    yield from _fallback(policy)
    if policy.nominal and policy.nominal.watts <= policy.base_power:
        yield (
            f"nominal.watts is {number(policy.nominal.watts)}, basePower {number(policy.base_power)}: expected more "
            "nominal watts than are used without any replica. Correct them."
        )
    drop = policy.emergency_drop
    if drop and drop.relative <= policy.deadband:
        yield (
            f"emergencyDrop.relative is {number(drop.relative)}, deadband {number(policy.deadband)}: expected an "
            "emergency to be a larger fall than the dead band. Correct them."
        )


def unusable_at(policy: PowerPolicy, interval: Fraction, called: str) -> Iterator[str]:
    """One sentence for each window shorter than a tick of `interval` seconds; `called` names that setting."""
    for name, side in _sides(policy):
        if 0 < side.window < interval:
            yield (
                f"{name}.window is {number(side.window)}s, shorter than one tick: {called} is {number(interval)}s. "
                "Lengthen the window to at least two ticks, or set it to 0."
            )
    if policy.fallback.after < 2 * interval and not policy.paper:
        yield (
            f"fallback.after is {number(policy.fallback.after)}s, shorter than two ticks: {called} is "
            f"{number(interval)}s, so every tick would count as silence. Give at least {number(2 * interval)}s, or "
            "shorten the interval."
        )


def not_to_run(policy: PowerPolicy) -> Iterator[str]:
    """One sentence for each thing that the daemon needs and offline commands do not."""
    bounded = policy.energy is not None or (policy.schedule is not None and policy.schedule.priced_as is None)
    if policy.feed is None and not (bounded and policy.absolute):
        yield (
            "feed is missing: expected where the available watts come from, such as feed: {query: ...} or feed: "
            "{watts: 3300}. Give it; with wattsPerReplica for every member a schedule or an energy is enough."
        )
    elif policy.feed is not None and policy.feed.query is not None and policy.feed.semantics is None:
        yield (
            f"feed.semantics is missing: expected one of {', '.join(Semantics)}. State what feed.query means; "
            "most exporters give consumption, which cannot be a budget."
        )
    if policy.stability is Stability.ENDPOINT:
        for text in _inversions(policy):
            yield f"{text} Lower it, or use stability: window."


def remarks(policy: PowerPolicy, interval: Fraction | None = None) -> Iterator[str]:
    """One sentence for each thing that is legal but does not do what it seems to."""
    for text in _inversions(policy):
        if policy.paper or policy.stability is Stability.ENDPOINT:
            yield f"{text} Then a confirmed increase may take replicas away, and the other way round."
        else:
            yield f"{text} The sign is checked before anything is done, so only time is lost."
    for name, side in _sides(policy):
        if interval is not None and interval <= side.window < 2 * interval:
            yield (
                f"{name}.window is {number(side.window)}s, less than two ticks of {number(interval)}s: it sees only "
                "its two ends. Lengthen it."
            )
    watts = [place.member.watts_per_replica for place in policy.places.values()]
    if None in watts and any(watts):
        yield "wattsPerReplica is given for some members only; the others count as 1 W a replica. Give it for all."
    for place in policy.places.values():
        member = place.member
        if member.replicas is not None and not member.min <= member.replicas <= member.max and member.replicas:
            yield (
                f"{member.name}: replicas is {member.replicas}, outside min {member.min} and max {member.max}; the "
                "first action brings it back."
            )


def hidden_exporters(policy: PowerPolicy) -> Iterator[str]:
    """One sentence for each query for watts that would not show that one of its exporters died."""
    for name, query in _queries(policy):
        if _SUM.search(query):
            yield (
                f"{name} is {query}: sum() hides an exporter that died, and the watts fall or rise by its part. Query "
                "the plain selector and give the number of its series as expectSeries; several series are added up."
            )


def _queries(policy: PowerPolicy) -> Iterator[tuple[str, str]]:
    """The queries for watts, by the key that gives them."""
    feed, consumption = policy.feed, policy.consumption
    parts = {"feed": feed, "consumption": consumption}
    if feed is not None:
        parts |= {f"feed.{key}": getattr(feed, key) for key in ("limit", "consumption", "own")}
    for name, part in parts.items():
        if part is not None and part.query is not None:
            yield f"{name}.query", part.query


def number(value: Fraction) -> str:
    """The number in its shortest decimal form."""
    return f"{float(value):.10g}"


def _sides(policy: PowerPolicy) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("increase", policy.increase), ("decrease", policy.falls)


def _inversions(policy: PowerPolicy) -> Iterator[str]:
    """A window may end on the other side of the reference when it may move by more than the dead band."""
    delta = policy.deadband
    for (name, side), limit, rule in zip(
        _sides(policy), (delta / (1 + delta), delta / (1 - delta)), ("/(1 + ", "/(1 - "), strict=True
    ):
        if side.tolerance >= limit:
            yield (
                f"{name}.tolerance is {number(side.tolerance)}: expected less than deadband{rule}deadband) = "
                f"{number(limit)[:8]}, so that a stable window cannot end on the other side of the reference."
            )


def _members(policy: PowerPolicy) -> Iterator[str]:
    groups = Counter(group.name for group in policy.groups)
    for name, times in groups.items():
        if times > 1:
            yield f"groups: {name} exists {times} times: expected a different name for each group. Rename one."
    homes: dict[str, list[str]] = {}
    for home, member in _everyone(policy):
        homes.setdefault(member.name, []).append(home)
        if member.min > member.max:
            yield f"{member.name}: min is {member.min}, max {member.max}: expected min <= max. Correct them."
    if not homes:
        yield "there is nothing to scale: expected groups or independents. Give at least one member."
    for name, places in homes.items():
        if len(places) > 1:
            yield (
                f"{name} is listed {len(places)} times ({', '.join(places)}): expected each target once, groups do not "
                "overlap. Remove it from all but one."
            )
    for group in policy.groups:
        yield from _group(group)


def _group(group: Group) -> Iterator[str]:
    for member in group.members:
        if member.priority is not None:
            yield (
                f"groups: {member.name} has priority {member.priority}: expected one priority for all of "
                f"{group.name}. Give it to the group."
            )
    if not any(member.weight for member in group.members):
        yield f"groups: all weights of {group.name} are 0: expected at least one above 0. Correct them."


def _absolute(policy: PowerPolicy) -> Iterator[str]:
    measured = [name for name, place in policy.places.items() if place.member.measured]
    if measured and policy.consumption is None:
        yield (
            f"{measured[0]}: wattsPerReplica is measured: expected consumption: {{query: ...}}, the watts drawn by "
            "what the policy governs. Give it."
        )
    if policy.energy is not None and not policy.absolute:
        yield "energy is given: expected an absolute budget, with wattsPerReplica for every member. Give it."
    yield from _planned(policy)
    if policy.increase.auto and not policy.absolute:
        yield "increase is auto: expected an absolute budget, with wattsPerReplica for every member. Give it."
    if policy.budget is not BudgetKind.ABSOLUTE:
        return
    if policy.paper:
        yield "budget is absolute, compat paper: expected one of them, the published model knows no watts of a replica."
    lacking = [name for name, place in policy.places.items() if place.member.watts_per_replica is None]
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        yield (
            f"budget is absolute: expected wattsPerReplica for every member, {', '.join(lacking[:3])}{more} has none. "
            "Give it, or use budget: anchor."
        )


def _planned(policy: PowerPolicy) -> Iterator[str]:
    """Energy follows a schedule, and a schedule of carbon or prices is for energy."""
    energy, schedule = policy.energy, policy.schedule
    if energy is not None and energy.shift and schedule is None:
        yield (
            "energy.shift is true: expected a schedule, whose best hours get the energy first. Give it, such as "
            "schedule: {csv: carbon.csv, as: carbon}."
        )
    if schedule is None or schedule.priced_as is None:
        return
    if energy is None:
        yield f"schedule.as is {schedule.priced_as}: expected energy: {{kWh: ...}}, which the schedule shifts. Give it."
    if schedule.query is not None:
        yield (
            f"schedule.as is {schedule.priced_as}: expected csv or url, with the rows of the hours ahead; a query "
            "tells one number. Correct it."
        )


def _everyone(policy: PowerPolicy) -> Iterator[tuple[str, Member]]:
    for group in policy.groups:
        yield from ((f"group {group.name}", member) for member in group.members)
    yield from (("independents", member) for member in policy.independents)


def _feed(policy: PowerPolicy) -> Iterator[str]:
    feed = policy.feed
    if feed is None:
        return
    windows = (
        s.window for _, s in _sides(policy) if s.window and (not policy.absolute or "window" in s.model_fields_set)
    )
    shortest = min(windows, default=None)
    if feed.max_age is not None and shortest is not None and feed.max_age > shortest:
        yield (
            f"feed.maxAge is {number(feed.max_age)}s: expected at most the shorter window, {number(shortest)}s, or one "
            "old sample would fill it. Correct one of them."
        )
    consumption = feed.consumption
    if consumption is not None and consumption.of is ConsumptionScope.TOTAL and feed.own is None:
        watts = [place.member.watts_per_replica for place in policy.places.values()]
        if None in watts:
            yield (
                "feed.consumption includes that of the targets themselves: without adding it back replicas would swing "
                "for ever. Give feed.own, or wattsPerReplica for every member; or, where the query already leaves the "
                "targets out, consumption: {query: ..., of: others}."
            )


def _fallback(policy: PowerPolicy) -> Iterator[str]:
    fallback = policy.fallback
    if (fallback.policy is WhenSilent.REPLICAS) != (fallback.replicas is not None):
        yield (
            f"fallback.policy is {fallback.policy}: expected a map of fallback.replicas with policy: replicas, and "
            "only with it. Correct one of them."
        )
    for name, count in (fallback.replicas or {}).items():
        place = policy.places.get(name)
        if place is None:
            yield f"fallback.replicas: {name} is not a target of this policy. Correct or remove it."
        elif not place.member.min <= count <= place.member.max:
            yield (
                f"fallback.replicas: {name} is {count}: expected a number between its min {place.member.min} and its "
                f"max {place.member.max}. Correct it."
            )


_EXPECTED = {
    "string_type": "text",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "too_short": "at least one",
    "greater_than": "a number above {gt}",
    "model_type": "a mapping",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
}


def labelled(called: str, name: str | None) -> str:
    """How messages name a policy: by where it stands, and by its name where there are several."""
    if name is None:
        return called
    return f"power policy {name}" if called == "power" else f"{called}: power policy {name}"


def read(raws: Sequence[Mapping[str, Any]], called: str = "power") -> tuple[PowerPolicy, ...]:
    """The policies, each with a name of its own. Raises SettingsError with all problems at once."""
    problems: list[str] = []
    valid: list[PowerPolicy] = []
    for number, raw in enumerate(raws):
        label = labelled(called, _label(raw, number) if len(raws) > 1 else None)
        try:
            one = PowerPolicy.model_validate(_without_empty(raw))
        except ValidationError as error:
            problems.extend(dict.fromkeys(_problem(label, raw, detail) for detail in error.errors()))
        else:
            valid.append(one)
            problems.extend(f"{label}: {text}" for text in contradictions(one))
    if len(raws) > 1:
        problems.extend(_names(raws))
    problems.extend(_find_doubled(valid))
    problems.extend(_find_shared(valid))
    problems.extend(_find_nested(valid))
    if problems:
        raise SettingsError(*problems)
    return tuple(valid)


def _problem(label: str, raw: Mapping[str, Any], error: ErrorDetails) -> str:
    path = [part for part in error["loc"] if part != "function-plain"]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if error["type"] == "extra_forbidden":
        return f"{label}: {key} is no key of a policy. {_hint(path)}"
    if error["type"] == "missing":
        return f"{label}: {key} is missing. Give it."
    if error["type"] == "value_error":
        expectation = str(error["ctx"]["error"])
    else:
        template = _EXPECTED.get(error["type"])
        expectation = f"expected {template.format(**error.get('ctx', {}))}" if template else error["msg"]
    value = error["input"]
    shown = f"{key} is {_show(value)}" if not isinstance(value, Mapping | list | PolicySection) else key
    return f"{label}: {shown}: {expectation}. Correct it." if shown else f"{label}: {expectation}. Correct it."


def _hint(path: Sequence[int | str]) -> str:
    """Names only what is allowed at this path."""
    key, holder = str(path[-1]), next((part for part in reversed(path[:-1]) if isinstance(part, str)), _OUTERMOST)
    if key in ("dryRun", "dry_run", "dryrun"):
        return "BALLAST_POWER__MODE (off, dry-run or on) sets whether anything is changed. Remove it."
    if key in _KEYS:
        return f"{key} belongs under {' or '.join(_KEYS[key])}. Move or remove it."
    allowed = sorted(name for name, holders in _KEYS.items() if holder in holders)
    if near := get_close_matches(key, allowed, n=1, cutoff=0.6):
        return f"Did you mean {near[0]}? Correct or remove it."
    return f"Allowed are {', '.join(allowed)}. Correct or remove it." if allowed else "Correct or remove it."


def _show(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _label(raw: Mapping[str, Any], number: int) -> str:
    name = raw.get("name") if isinstance(raw, Mapping) else None
    return str(name) if name else f"number {number + 1}"


def _without_empty(value: Any) -> Any:
    """An empty value counts as unset."""
    if isinstance(value, Mapping):
        return {str(key): _without_empty(item) for key, item in value.items() if item is not None and item != ""}
    return [_without_empty(item) for item in value] if isinstance(value, list | tuple) else value


def _names(raws: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names: set[str] = set()
    for number, raw in enumerate(raws):
        name = str(raw.get("name") or "")
        if not name:
            yield f"power policy number {number + 1} has no name; several policies need different names. Give it one."
        elif name in names:
            yield f"power policy {name} exists twice: expected a different name for each policy. Rename one."
        names.add(name)


def _find_doubled(policies: Sequence[PowerPolicy]) -> Iterator[str]:
    owners: dict[str, str] = {}
    for one in policies:
        for name in one.places:
            if owners.setdefault(name, one.name) != one.name:
                yield (
                    f"{name} is a target of the power policies {owners[name]} and {one.name}: expected one budget for "
                    "each target. Remove it from one of them."
                )


def _places() -> dict[str, list[str]]:
    """By key the keys of the sections that take it."""
    classes = {
        section
        for module in (policy, feed_spec, sections)
        for section in vars(module).values()
        if isinstance(section, type) and issubclass(section, PolicySection)
    }
    fields = [(info.alias or name, info) for section in classes for name, info in section.model_fields.items()]
    places: dict[str, set[str]] = {}
    for section in classes:
        holders = {key for key, info in fields if re.search(rf"\b{section.__name__}\b", repr(info.annotation))}
        if "groups" in section.model_fields:
            holders = {_OUTERMOST}
        for key in (*(info.alias or name for name, info in section.model_fields.items()), *section.other_names):
            places.setdefault(key, set()).update(holders)
    return {key: sorted(holders) for key, holders in places.items() if holders}


_OUTERMOST = "the policy itself"
_KEYS = _places()


def _find_shared(policies: Sequence[PowerPolicy]) -> Iterator[str]:
    """Two policies on one feed would spend its watts twice."""
    owners: dict[object, PowerPolicy] = {}
    for one in policies:
        spec = one.feed
        if spec is None or spec.watts is not None:
            continue
        other = owners.setdefault((spec.query, spec.url, spec.json_path, spec.csv, spec.limit), one)
        if other is not one and one.part_of != other.name and other.part_of != one.name:
            yield (
                f"the power policies {other.name} and {one.name} have one feed and would spend its watts twice: "
                "expected a feed of its own for each policy. Put all members into one policy, or say "
                f"within: {other.name}."
            )


def _find_nested(policies: Sequence[PowerPolicy]) -> Iterator[str]:
    """A policy is within another absolute one, which is within none."""
    named = {one.name: one for one in policies}
    for one in policies:
        outer = None if one.part_of is None else named.get(one.part_of)
        if one.part_of is None or (outer is not None and outer is not one and outer.absolute and not outer.part_of):
            continue
        yield (
            f"power policy {one.name}: within is {one.part_of}: expected another policy with an absolute budget that "
            f"is within none; there are {', '.join(named)}. Correct it."
        )
