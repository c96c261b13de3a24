"""What a policy is told that can hardly be right: watts of another unit, and a feed that stands still."""

from collections.abc import Iterator
from fractions import Fraction

from ballast.power.feed_spec import DAY, Schedule, Semantics, Unit
from ballast.power.policy import PowerPolicy

ZERO = Fraction(0)

FACTOR = 100
"""Times what all targets can draw, more or less, that no site has for them; units differ by 1,000."""

FROZEN = 21_600
"""Seconds after which measured watts have moved."""

SOON = 3600
"""Seconds after which the highest watts so far say something."""

ENDS_WITHIN = 7200
"""Seconds ahead from which on a schedule should have a row."""

MUCH = f"the feed gives more than {FACTOR} times what all targets can draw; check its unit"
SUDDEN = "the feed gives more than ten times the most of a day; nothing rises by it. Check its unit, or give feed.max"
ABOVE = "the feed gives more than feed.max; nothing rises by it. Check its unit, or give a higher one"
IMPOSSIBLE = frozenset((MUCH, SUDDEN, ABOVE))
"""Doubts about a sample that is no ground for a rise."""
LITTLE = f"the feed gives less than a part in {FACTOR} of what all targets can draw; check its unit"
STILL = "the feed has shown the very same watts for six hours; see whether its exporter still measures"
ENDS = "the schedule has no row later than two hours from now; its last one holds for ever"


def drawn_at_most(policy: PowerPolicy) -> Fraction:
    """The watts of all targets at their maxima, with the base power."""
    return policy.base_power + policy.drawn({name: place.member.max for name, place in policy.places.items()})


def far_off(policy: PowerPolicy, watts: Fraction) -> str | None:
    """Whether these watts of the feed are far from what the targets can draw; None where that is not known."""
    most = drawn_at_most(policy) if policy.absolute else ZERO
    if watts > FACTOR * most > 0:
        return MUCH
    return LITTLE if 0 < watts < most / FACTOR else None


class Plausibility:
    """Watches the samples of one policy's feed."""

    def __init__(self, policy: PowerPolicy) -> None:
        feed = policy.feed
        self._policy = policy
        self._enough = drawn_at_most(policy) if policy.absolute else ZERO
        self._most = None if feed is None or feed.max is None else feed.max * feed.unit.watts
        self._moves = feed is not None and feed.csv is None and (feed.semantics or Semantics.AVAILABLE).measured
        self._begun: float | None = None
        self._highest = self._day_before = ZERO
        self._last: Fraction | None = None
        self._moved = 0.0

    def see(self, at: float, watts: Fraction) -> str | None:
        """What cannot be right of valid `watts` at `at` (Unix seconds), as a sentence without numbers that change."""
        if self._begun is None or not 0 <= at - self._begun <= DAY:
            self._begun, self._day_before, self._highest = at, self._highest, watts
        high = max(self._highest, self._day_before)
        # A morning is many times its night: what all targets can draw is never sudden.
        known = high > 0 if self._policy.absolute else self._day_before > 0
        sudden = self._most is None and known and watts > max(10 * high, self._enough)
        if not sudden:
            self._highest = max(self._highest, watts)
        if watts != self._last or at < self._moved:
            self._last, self._moved = watts, at
        if self._most is not None and watts > self._most:
            return ABOVE
        if self._most is None and far_off(self._policy, watts) is MUCH:
            return MUCH
        if sudden:
            return SUDDEN
        # At night a site has little, and that is right: the highest watts of a day count.
        if at - self._begun >= SOON or self._day_before:
            little = far_off(self._policy, max(self._highest, self._day_before))
            if little is LITTLE:
                return LITTLE
        return STILL if self._moves and watts and at - self._moved >= FROZEN else None


def doubts(policy: PowerPolicy, schedule: Schedule | None, now: float | None) -> Iterator[str]:
    """One sentence for each thing about a policy's schedule that can hardly be meant; `now` in Unix seconds."""
    spec, feed = policy.schedule, policy.feed
    if spec is None:
        return
    if spec.priced_as is None and feed is not None and feed.unit is not Unit.WATT and spec.unit is Unit.WATT:
        yield f"feed.unit is {feed.unit}, schedule.unit W: the schedule does not take the feed's unit. Give its own."
    if schedule is None:
        return
    if small := small_rows(policy, schedule):
        yield f"{small}. Give schedule.unit."
    if now is not None and schedule.rows and schedule.rows[-1].time <= now + ENDS_WITHIN:
        yield f"{ENDS}. Write the next rows."


def small_rows(policy: PowerPolicy, schedule: Schedule) -> str | None:
    """Whether even the highest row is far below what the targets can draw, as with kilowatts taken for watts."""
    highest = max((row.watts for row in schedule.rows), default=ZERO)
    if schedule.priced or not policy.absolute or not 0 < highest < drawn_at_most(policy) / FACTOR:
        return None
    return f"the schedule's highest row is less than a part in {FACTOR} of what all targets can draw; check its unit"
