"""Public series of sun and of carbon intensity, read from a folder; none of them is part of Ballast.

* `power/sun_greensboro_tmy3.csv.gz`: `date,time,ghi_w_m2,…`, a typical year by the hour (NREL TMY3, as shipped with
  pvlib-python, BSD-3-Clause).
* `power/carbon-2022-COUNTRY.parquet`: `timestamp`, `carbon_intensity` (g/kWh) every 15 minutes (GitHub
  atlarge-research/opendc, MIT).
"""

from __future__ import annotations

import csv
import gzip
import zlib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ballast.base.errors import UsageError
from ballast_lab.experiments.power.signals import CLOUD_PEAK, Signal, of_series

QUARTER = 900.0
LOWEST, HIGHEST = 100.0, 600.0
"""Carbon intensities (g/kWh) that allow all watts, and none; in proportion between them."""


def public_signals(data: Path | None) -> tuple[list[Signal], list[str]]:
    """The series in `data`/power, and one sentence for each that is not there or cannot be read here.

    Raises UsageError where the folder is missing, and for a file that is damaged.
    """
    if data is None:
        return [], ["Public series are left out: --data DIR names a folder with them."]
    folder = data / "power"
    if not folder.is_dir():
        raise UsageError(f"--data {data}: there is no folder power in it. Give the folder that has power/.")
    found, missing = [], []
    sun = folder / "sun_greensboro_tmy3.csv.gz"
    if sun.exists():
        found.append(of_series("a year of sun", QUARTER, _sun(sun)))
    else:
        missing.append(f"A year of sun is left out: {sun.name} is not in {folder}.")
    carbon = sorted(folder.glob("carbon-*.parquet"))
    for path in carbon:
        try:
            found.append(of_series(path.stem.replace("-", " "), QUARTER, _carbon(path)))
        except ModuleNotFoundError as error:
            missing.append(
                f"{path.stem} is left out: {error.name} is not installed. Install it with: pip install '.[experiments]'"
            )
    if not carbon:
        missing.append(f"Carbon intensities are left out: there is no carbon-*.parquet in {folder}.")
    return found, missing


def carbon_days(data: Path | None) -> dict[str, list[tuple[float, float]]]:
    """(Unix seconds, g/kWh) of each country's series in `data`/power, where they can be read here."""
    rows = {}
    for path in sorted((data / "power").glob("carbon-*.parquet")) if data is not None else ():
        with suppress(ModuleNotFoundError):
            times, intensity = _intensities(path)
            seconds = times.astype("datetime64[s]").astype(float)
            rows[path.stem.replace("-", " ")] = list(zip(seconds.tolist(), intensity.tolist(), strict=True))
    return rows


def _sun(path: Path) -> list[float]:
    """Watts every quarter of an hour, in proportion to the global radiation."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
            rows = list(csv.DictReader(text))
            hourly = [float(row["ghi_w_m2"]) for row in rows]
            seen = [(row["date"], row["time"]) for row in rows]
    except (OSError, EOFError, zlib.error, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: {error!r}. Fetch it again; measurements/experiments.md says where from.") from None
    if len(set(seen)) < len(seen):
        raise _damaged(path, "an hour is there twice")
    if len(hourly) < 2 or not np.isfinite(hourly).all() or min(hourly) < 0 or not max(hourly) > 0:
        raise _damaged(path, "ghi_w_m2 has to hold two hours, numbers from 0 on, and some sun")
    times = np.arange(len(hourly)) * 4.0
    values = np.interp(np.arange(4 * (len(hourly) - 1) + 1), times, hourly)
    return [float(each) for each in CLOUD_PEAK * values / max(hourly)]


def _carbon(path: Path) -> list[float]:
    """Watts every quarter of an hour: all at LOWEST, none at HIGHEST."""
    _, intensity = _intensities(path)
    share = np.clip((HIGHEST - intensity) / (HIGHEST - LOWEST), 0.0, 1.0)
    return [float(each) for each in CLOUD_PEAK * share]


def _intensities(path: Path) -> tuple[Any, Any]:
    """Times, and g/kWh. Raises UsageError for a file that is damaged, ModuleNotFoundError where parquet is unknown."""
    parquet = import_module("pyarrow.parquet")
    arrow = import_module("pyarrow")
    try:
        table = parquet.read_table(path)
        intensity = table["carbon_intensity"].to_numpy()
        times = table["timestamp"].to_numpy() if "timestamp" in table.column_names else np.arange(len(intensity))
    except (OSError, KeyError, ValueError, arrow.ArrowException) as error:
        raise UsageError(f"{path}: {error}. Fetch it again; measurements/experiments.md says where from.") from None
    if not (times[1:] > times[:-1]).all():
        raise _damaged(path, "its times do not rise")
    if intensity.dtype.kind not in "fiu" or len(intensity) < 2 or not np.isfinite(intensity).all():
        raise _damaged(path, "carbon_intensity has to hold two numbers or more")
    return times, intensity


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(f"{path}: {why}. Fetch it again; measurements/experiments.md says where from.")
