"""The parts of Ballast, each with a small world of its own, something to do again and again, and what is promised."""
