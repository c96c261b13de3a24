"""Reads power policies from a file and checks them as the daemon does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from ballast.base.errors import SettingsError, UsageError
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import read, remarks, unusable_at
from ballast.settings.model import CONFIG_FILE
from ballast.settings.secrets import mask_urls
from ballast.settings.sources import FileSource

_GAP = "the median gap between rows of the feed"


def policies(path: Path) -> tuple[PowerPolicy, ...]:
    """The policies of a file. Raises UsageError if it does not exist, SettingsError if it is invalid."""
    if not path.is_file():
        raise UsageError(f"--policy {path}: there is no such file.")
    source = FileSource(path)
    if source.problems:
        raise SettingsError(*(text.replace(f"{CONFIG_FILE} is ", "--policy ") for text in source.problems))
    given = source.values.get(("power", "policies"))
    raws = given.value if given else None
    if not isinstance(raws, list) or not raws or not all(isinstance(raw, Mapping) for raw in raws):
        raise SettingsError(
            f"{path.name} has no power policy; expected power: {{feed: ..., groups: ...}} or "
            "power: {policies: [...]}."
        )
    try:
        return read(raws)
    except SettingsError as error:
        raise SettingsError(*map(mask_urls, error.problems)) from None


def choose(found: Sequence[PowerPolicy], name: str | None) -> PowerPolicy:
    """The policy with this name, or the only policy. Raises UsageError if there is none or more than one."""
    named = [policy for policy in found if name in (None, policy.name)]
    names = ", ".join(policy.name for policy in found)
    if not named:
        raise UsageError(f"--name {name}: there is no such policy. The file has {names}.")
    if len(named) > 1:
        raise UsageError(f"The file has several policies. Choose one with --name: {names}.")
    return named[0]


def starting(policy: PowerPolicy, given: Sequence[str]) -> dict[str, int]:
    """Initial replicas by namespace/name, from `--replicas`, else from the policy. Raises UsageError."""
    counts = {name: place.member.start for name, place in policy.places.items()}
    for text in given:
        name, _, count = text.partition("=")
        name = name.strip()
        if name not in counts:
            raise UsageError(f"--replicas {text}: expected NS/NAME=N with a target of the policy: {', '.join(counts)}.")
        if not count.strip().isascii() or not count.strip().isdigit():
            raise UsageError(f"--replicas {text}: expected NS/NAME=N with a whole number of at least 0.")
        counts[name] = int(count)
    return counts


def check(policy: PowerPolicy, gap: Fraction | None = None) -> Iterator[str]:
    """Yields warnings. Raises SettingsError if the windows do not fit `gap`, the seconds between two rows."""
    problems = [] if gap is None else [f"power: {text}" for text in unusable_at(policy, gap, _GAP)]
    if problems:
        raise SettingsError(*problems)
    yield from (f"power: {text}" for text in remarks(policy, gap))
