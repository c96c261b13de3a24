"""The run in which nothing is done: what history says itself."""

from __future__ import annotations

from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.measures import Measures
from ballast_lab.rehearse.recording import Use


class AsItWas:
    """One run."""

    name = "as-it-was"

    def __init__(self, course: Course, step: float) -> None:
        self.course, self.measures = course, Measures(step)

    def lead(self, use: Use) -> None:
        """Nothing is known of the time before."""

    def advance(self, use: Use) -> None:
        """One step of time."""
        self.course.advance(use)
        self.measures.observe(self.course.load(), self.course.present, self.course.empty())

    def finish(self) -> None:
        """The end of time."""
        self.measures.concentration = self.course.most_of_one()
