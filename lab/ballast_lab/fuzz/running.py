"""Runs the targets and names what escapes."""

from __future__ import annotations

import hashlib
import random
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ballast_lab.fuzz.mutation import mutated
from ballast_lab.fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Escape:
    """An exception that a target may not raise, and the bytes that raise it."""

    target: str
    body: bytes
    error: str

    def keep(self) -> Path:
        """Writes the bytes to the corpus."""
        folder = CORPUS / self.target.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / hashlib.sha256(self.body).hexdigest()[:16]
        path.write_bytes(self.body)
        return path


def tried(name: str, body: bytes) -> Escape | None:
    """What escapes when the target reads these bytes."""
    target = TARGETS[name]
    try:
        target.run(body)
    except target.refusals:
        return None
    except Exception:
        return Escape(name, body, traceback.format_exc(limit=-4))
    return None


def known(name: str) -> list[bytes]:
    """What the corpus has for a target."""
    return [path.read_bytes() for path in sorted((CORPUS / name.replace(" ", "-")).glob("*")) if path.is_file()]


def escapes(cases: int, seed: int, names: Sequence[str] = tuple(TARGETS)) -> Iterator[Escape]:
    """Tries about `cases` in all; the expensive targets get fewer of them. The first escape of each target alone."""
    shares = {name: 1 / TARGETS[name].cost for name in names}
    for name in names:
        count = max(1, round(cases * shares[name] / sum(shares.values())))
        if found := _first(name, TARGETS[name], count, seed):
            yield found


def _first(name: str, target: Target, count: int, seed: int) -> Escape | None:
    draw = random.Random(f"{seed} {name}")
    examples = [*target.examples, *known(name)]
    for _ in range(count):
        if found := tried(name, mutated(draw, examples)):
            return found
    return None
