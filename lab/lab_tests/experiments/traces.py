"""Small traces in the formats of the public ones."""

import gzip
from pathlib import Path

import numpy as np

from ballast_lab.experiments.load_traces import SAMPLES


def write_lines(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return path


def percents(nodes: int, seed: int = 0, count: int = SAMPLES) -> list[list[int]]:
    """Nodes with a level of their own, and noise."""
    g = np.random.default_rng(seed)
    levels = np.linspace(10, 80, nodes)
    return np.clip(levels[:, None] + g.normal(0, 5, (nodes, count)), 0, 100).astype(int).tolist()


def write_planetlab(data: Path, nodes: int = 6, seed: int = 0) -> Path:
    rows = percents(nodes, seed)
    lines = [",".join([f"vm{number}", *map(str, row)]) for number, row in enumerate(rows)]
    return write_lines(data / "load" / "planetlab_20110303.csv.gz", lines)
