"""The load of a machine from counters of each core's time by modes."""

from dataclasses import dataclass

from ballast.telemetry.exporters.terms import IMPOSSIBLE, Terms

_MOST, _LEAST = 1.05, 0.95
"""Shares of the time lived that the modes of a machine's cores add up to. No load that counts is wrong by more."""


@dataclass(frozen=True)
class CoreTimes:
    """`metric` counts seconds by core and mode; all modes together share out a core's time."""

    metric: str
    core: str
    """The label of cores."""
    modes: tuple[str, ...]
    rest: tuple[str, ...]
    """Modes in which a core does no work."""
    work: str
    """A mode that is stored wherever work is stored at all."""
    stolen: str | None = None
    """The mode of time that the hypervisor gave to others."""
    clock: str | None = None
    """The exporter's clock, seconds."""

    def load(self, terms: Terms) -> str:
        """By exporter, the share of the time left by the hypervisor that is not at rest; else IMPOSSIBLE.

        Where work is stored, the time left is what all modes but the stolen one add up to. So a node that just joined,
        or whose exporter flaps, shows its own load, though `rate` gives less than a second a second.
        """
        whole = f"({self._total(terms, self.modes)} and {self._works(terms)} or {self._lived(terms)})"
        if self.stolen is not None:
            whole = f"({whole} - ({self._total(terms, (self.stolen,))} or 0 * {self._number(terms)}))"
        load = f"1 - {self._total(terms, self.rest)} / {whole}"
        return f"{load} and {self._sound(terms)} or {IMPOSSIBLE:g} * {self._present(terms)}"

    def fell(self, terms: Terms) -> str:
        """IMPOSSIBLE, by exporter with a counter that fell, but for machines that restarted."""
        return f"{IMPOSSIBLE:g} * ({self._fell(terms)} > 0)"

    def taken(self, terms: Terms) -> str:
        """By exporter, the share of time that the hypervisor gave to others."""
        return f"avg without ({self.core}, mode) ({self._rate(terms, (self.stolen or '',))})"

    def lost(self, terms: Terms, *modes: str) -> str:
        """By exporter and mode, the share of time; a core whose counter fell tells no time that can be."""
        return f"avg without ({self.core}) ({self._rate(terms, modes)} < {_MOST:g})"

    def _sound(self, terms: Terms) -> str:
        """Exporters of which no counter fell, and whose modes add up to the time lived.

        `rate` takes a counter that falls for a restart and adds all that is left of it, and cores that were summed up
        add as well: the sum is too large. Modes that are not stored take away. Where all are, a small sum is the time
        of a node that joined, was off or lost ticks to a busy hypervisor.
        """
        number = self._number(terms)
        stored = f"count {self._by} ({self._pick(terms, self.modes)})"
        missing = f"({len(self.modes)} * {number} > bool {stored})"
        # Modes at rest alone add up to nothing known: there no counter may fall, and cores have to be told apart.
        both = f"count {self._by} ({self._pick(terms, (self.rest[0], self.work))}) / {number} - 1"
        nameless = f'{self.core}=""'
        summed = f"group {self._by} ({self._pick(terms, self.rest[:1], nameless)}) unless {self._works(terms)}"
        fewest = f"{_LEAST:g} * ({missing} + 2 * ({self._fell(terms)}) + {both} - 1)"
        return f"({self._total(terms, self.modes)} / {self._lived(terms)} < {_MOST:g} >= {fewest} unless ({summed}))"

    def _fell(self, terms: Terms) -> str:
        """1 for exporters with a counter that fell; 0 for others, and for machines that restarted: there all fall."""
        most, least = (
            f"{of} {self._by} (resets({self._pick(terms, modes)}[{terms.window}]))"
            for of, modes in (("max", self.modes), ("min", (self.rest[0], self.work)))
        )
        return f"{most} > bool {least}"

    def _lived(self, terms: Terms) -> str:
        """By exporter, the time that its cores lived: by its clock; a second a second where none is stored, or set."""
        number = self._number(terms)
        return f"({number} * ({terms.rate(self.clock)} < {_MOST:g}) or {number})" if self.clock else number

    def _number(self, terms: Terms) -> str:
        """By exporter, how many cores it tells of."""
        return f"count {self._by} ({self._pick(terms, self.rest[:1])})"

    def _works(self, terms: Terms) -> str:
        """Exporters of which work is stored."""
        return f"group {self._by} ({self._pick(terms, (self.work,))})"

    def _present(self, terms: Terms) -> str:
        """1 for exporters that are there and were there before: others have no load that could be impossible."""
        kept = self._pick(terms, (self.rest[0], self.work))
        return f"group {self._by} ({kept} and {self._rate(terms, (self.rest[0], self.work))})"

    def _total(self, terms: Terms, modes: tuple[str, ...]) -> str:
        """By exporter, seconds a second that its cores are in these modes."""
        return f"sum {self._by} ({self._rate(terms, modes)})"

    @property
    def _by(self) -> str:
        return f"without ({self.core}, mode)"

    def _rate(self, terms: Terms, modes: tuple[str, ...]) -> str:
        return terms.rate(self.metric, _any(modes))

    def _pick(self, terms: Terms, modes: tuple[str, ...], *more: str) -> str:
        return terms.pick(self.metric, _any(modes), *more)


def _any(modes: tuple[str, ...]) -> str:
    return f'mode="{modes[0]}"' if len(modes) == 1 else f'mode=~"{"|".join(modes)}"'
