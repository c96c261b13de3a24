"""The usage of nodes by their pods, at any time, including the past.

Usage of a node = usage of its system + sum of the usage of its pods + noise. The usage of a pod follows its workload's
profile: a daily wave and a shorter one. The noise is a circular first-order autoregression, a function of node and time
only. So the placement of a pod changes the load of its node, and a range query returns the same values as an instant
query did at the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ballast.model.sample import Floats, Ints

DAY = 86_400.0
NOISE_STEP = 30.0
"""Seconds between two knots of the noise."""

NOISE_KNOTS = 512
NOISE_CORRELATION = 300.0
"""Seconds in which the noise's correlation falls by 1/e."""

MOST_MOVES = 50_000
"""Starts and ends of pods that are kept; beyond it the older half is dropped."""

RESOURCES = ("cpu", "memory", "disk", "receive", "transmit")


class UsageProfile(NamedTuple):
    """The mean usage of one pod of a workload, and how it varies."""

    cpu: float
    """Cores."""

    memory: float
    """Bytes."""

    disk: float = 0.01
    """Share of a disk's time."""

    network: float = 2e5
    """Bytes received per second; 70 % as many are sent."""

    day: float = 0.3
    """Amplitude of the daily wave, as a share of the mean."""

    wave: float = 0.2
    """Amplitude of the shorter wave, as a share of the mean."""

    period: float = 600.0
    """Period of the shorter wave in seconds."""

    phase: float = 0.0
    """Phase in radians."""


class Usage:
    """The usage of all nodes. Capacities `cores`, `memory` (bytes) and `speed` (bytes/s) are [node].

    Not thread-safe: the world holds a lock.
    """

    def __init__(
        self, generator: np.random.Generator, cores: Floats, memory: Floats, speed: Floats, *, breathing: bool
    ) -> None:
        self.cores, self.memory, self.speed = cores, memory, speed
        self._breathing = breathing
        self._profiles: list[UsageProfile] = []
        self._table: Floats | None = None
        self._counts: Floats = np.zeros((len(cores), 64))
        self._moves: list[tuple[float, int, int, int]] = []
        self._system = {"cpu": 0.02 * cores + 0.05, "memory": 0.04 * memory + 4e8}
        self._knots = _circular_noise(generator, len(cores)) if breathing else None

    def add(self, profile: UsageProfile) -> int:
        """Registers a workload; its index is the `profile` of the other methods."""
        self._profiles.append(profile)
        self._table = None
        if len(self._profiles) > self._counts.shape[1]:
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)], axis=1)
        return len(self._profiles) - 1

    def fill(self, nodes: Ints, profiles: Ints) -> None:
        """Adds pods that have always run; `nodes` and `profiles` are [pod]."""
        np.add.at(self._counts, (nodes, profiles), 1.0)

    def move(self, time: float, node: int, profile: int, delta: int) -> None:
        """A pod of that workload starts (+1) or ends (-1) on a node at a Unix time."""
        self._counts[node, profile] += delta
        self._moves.append((time, node, profile, delta))
        if len(self._moves) > MOST_MOVES:
            del self._moves[: MOST_MOVES // 2]

    def per_pod(self, resource: str, times: Floats) -> Floats:
        """[workload, time]: the usage of one pod, in the units of UsageProfile."""
        table = self._columns()
        base = table[:, ("cpu", "memory", "disk", "receive", "transmit").index(resource)][:, None]
        if not self._breathing:
            return np.repeat(base, len(times), axis=1)
        day, wave, period, phase = (table[:, column][:, None] for column in (5, 6, 7, 8))
        damping = 0.15 if resource == "memory" else 1.0
        slow = day * np.sin(2 * np.pi * times[None, :] / DAY + phase)
        fast = wave * np.sin(2 * np.pi * times[None, :] / period + 3 * phase)
        moved: Floats = base * np.maximum(1.0 + damping * (slow + fast), 0.02)
        return moved

    def ratio(self, resource: str, times: Floats) -> Floats:
        """[node, time], 0..1: share of capacity (cpu, memory), of time (disk) or of link speed (receive, transmit)."""
        each = self.per_pod(resource, times)
        used: Floats = self._counts[:, : len(self._profiles)] @ each
        self._undo_later_moves(used, each, times)
        if resource in self._system:
            capacity = self.cores if resource == "cpu" else self.memory
            used = (used + self._system[resource][:, None]) / capacity[:, None]
        elif resource in ("receive", "transmit"):
            used = used / self.speed[:, None]
        if self._knots is not None:
            scale = {"cpu": 0.02, "memory": 0.004, "disk": 0.01}.get(resource, 0.005)
            used = used + scale * self._noise(RESOURCES.index(resource), times)
        ceiling = 0.98 if resource == "memory" else 1.0
        return np.clip(used, 0.002, ceiling, out=used)

    def _undo_later_moves(self, used: Floats, each: Floats, times: Floats) -> None:
        # The counts are those of now; at earlier times the later moves had not happened yet.
        earliest = float(times.min()) if len(times) else 0.0
        for time, node, profile, delta in reversed(self._moves):
            if time <= earliest:
                break
            before = times < time
            used[node, before] -= delta * each[profile, before]

    def _columns(self) -> Floats:
        if self._table is None or len(self._table) != len(self._profiles):
            rows = [
                (p.cpu, p.memory, p.disk, p.network, 0.7 * p.network, p.day, p.wave, p.period, p.phase)
                for p in self._profiles
            ]
            self._table = np.array(rows, dtype=np.float64).reshape(len(rows), 9)
        return self._table

    def _noise(self, shift: int, times: Floats) -> Floats:
        assert self._knots is not None
        at = times / NOISE_STEP + 97.0 * shift
        whole = np.floor(at).astype(np.int64)
        part = at - whole
        low, high = whole % NOISE_KNOTS, (whole + 1) % NOISE_KNOTS
        mixed: Floats = self._knots[:, low] * (1.0 - part) + self._knots[:, high] * part
        return mixed


def _circular_noise(generator: np.random.Generator, nodes: int) -> Floats:
    """[node, knot]: a periodic AR(1) process of unit variance; the correlation falls by 1/e in NOISE_CORRELATION s.

    White noise is filtered in the frequency domain, so the last knot joins the first without a jump.
    """
    keep = np.exp(-NOISE_STEP / NOISE_CORRELATION)
    white = generator.standard_normal((nodes, NOISE_KNOTS))
    frequency = np.exp(-2j * np.pi * np.arange(NOISE_KNOTS // 2 + 1) / NOISE_KNOTS)
    response = np.sqrt(1 - keep**2) / (1 - keep * frequency)
    noise: Floats = np.fft.irfft(np.fft.rfft(white, axis=1) * response, n=NOISE_KNOTS, axis=1)
    return noise
