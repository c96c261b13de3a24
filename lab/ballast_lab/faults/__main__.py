"""`python -m ballast_lab.faults`: runs cells of the matrix and judges what the API server's audit log tells."""

from __future__ import annotations

import argparse
import queue
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ballast_lab.faults import counts
from ballast_lab.faults.cells import Cell, all_cells, chosen
from ballast_lab.faults.faults import FAULTS, Shared, Upgrade
from ballast_lab.faults.history import History, Outcome, judge, keep, kept
from ballast_lab.faults.judge import Broken
from ballast_lab.faults.lane import Lane, Outage
from ballast_lab.faults.parts.registry import PARTS
from ballast_lab.faults.versions import fetch
from ballast_lab.faults.world import World, world

Queues: TypeAlias = dict[str, queue.SimpleQueue[Cell]]
"""By part."""
_LANES = 2
"""Of each part."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    folder: Path = options.judge or _hurt(options)
    histories = kept(folder)
    broken, writes = judge(folder, histories)
    outcomes = sorted((each for history in histories for each in history.outcomes), key=lambda each: each.began)
    if options.record:
        _record(options.record, outcomes, broken, options.seed)
    return _report(outcomes, broken, writes, folder)


def _hurt(options: argparse.Namespace) -> Path:
    """Runs the cells; returns the folder with what happened."""
    folder = Path(tempfile.mkdtemp(prefix="ballast-faults-"))
    Upgrade.source = fetch(options.other, folder)
    cells = [cell for cell in all_cells() if _wanted(cell, options)]
    for name in sorted({cell.fault for cell in cells}):
        if (why := FAULTS[name].possible()) is not None:
            print(f"left out: {name}, {why}")
            cells = [cell for cell in cells if cell.fault != name]
    cells = chosen(cells, options.seed, options.sample, options.rounds)
    print(f"seed {options.seed}: {len(cells)} cells, {len(set(cells))} different ones", flush=True)
    parts = [name for name in PARTS if any(cell.part == name for cell in cells) for _ in range(options.lanes)]
    with world(folder, parts, options.seed) as made:
        histories: list[History] = []
        try:
            _run(made, cells, time.monotonic() + 60 * options.minutes)
            _each(made.lanes, lambda lane: histories.append(lane.end()))
        finally:
            keep(folder, histories)
    return folder


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ballast_lab.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--sample", type=int, help="so many cells; without it all of them")
    parser.add_argument("--rounds", type=int, default=1, help="how often each cell is run")
    parser.add_argument("--minutes", type=float, default=60.0, help="no cell begins later")
    parser.add_argument("--lanes", type=int, default=_LANES, help="worlds of each part that run at the same time")
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="only these")
    parser.add_argument("--part", action="append", choices=[*PARTS], help="only these")
    parser.add_argument("--kind", action="append", help="only these kinds of writes")
    parser.add_argument("--other", metavar="REVISION", help="the other version; the last tag unless given")
    parser.add_argument("--judge", type=Path, metavar="FOLDER", help="judges an earlier run again")
    parser.add_argument("--record", type=Path, help="adds what was found to this file")
    return parser.parse_args(arguments)


def _wanted(cell: Cell, options: argparse.Namespace) -> bool:
    asked = ((options.fault, cell.fault), (options.part, cell.part), (options.kind, cell.kind))
    return all(not names or value in names for names, value in asked)


def _run(made: World, cells: Sequence[Cell], until: float) -> None:
    """For a third of the time cells that hit all lanes at once, then those of single lanes, then the rest."""
    shared = {name: _queues(cell for cell in cells if cell.fault == name) for name in _shared(cells)}
    alone = _queues(cell for cell in cells if cell.fault not in shared)
    now = time.monotonic()
    _rounds(made, shared, now + (until - now) / 3)
    _each(made.lanes, lambda lane: _work(lane, alone, until))
    _rounds(made, shared, until)


def _shared(cells: Sequence[Cell]) -> list[str]:
    return [name for name, fault in FAULTS.items() if isinstance(fault, Shared) and name in {x.fault for x in cells}]


def _rounds(made: World, shared: Mapping[str, Queues], until: float) -> None:
    """One round of each in turn."""
    while any(not each.empty() for queues in shared.values() for each in queues.values()):
        for name, queues in shared.items():
            if time.monotonic() > until:
                return
            fault = FAULTS[name]
            assert isinstance(fault, Shared)
            _together(made, fault, [(lane, cell) for lane in made.lanes if (cell := _next(queues, lane)) is not None])


def _queues(cells: Iterable[Cell]) -> Queues:
    found: Queues = {name: queue.SimpleQueue() for name in PARTS}
    for cell in cells:
        found[cell.part].put(cell)
    return found


def _next(queues: Queues, lane: Lane) -> Cell | None:
    try:
        return queues[lane.part.name].get_nowait()
    except queue.Empty:
        return None


def _work(lane: Lane, queues: Queues, until: float) -> None:
    while time.monotonic() < until and (cell := _next(queues, lane)) is not None:
        _tell(lane.run(cell))


def _together(made: World, fault: Shared, taken: Sequence[tuple[Lane, Cell]]) -> None:
    outage = Outage(len(taken), threading.Event())
    fault.hold = outage.hold
    threads = [threading.Thread(target=lambda lane=lane, cell=cell: _tell(lane.run(cell))) for lane, cell in taken]
    for thread in threads:
        thread.start()
    outage.wait(60)
    made.happen(fault)
    outage.over.set()
    for thread in threads:
        thread.join()


def _each(lanes: Sequence[Lane], work: Callable[[Lane], object]) -> None:
    threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _tell(outcome: Outcome) -> None:
    how = "ok" if outcome.reached and not outcome.problem else "NOT REACHED" if not outcome.problem else "PROBLEM"
    again = "" if outcome.again is None else f", acts again in {outcome.again:.1f} s"
    print(f"{outcome.cell}: {how}, {outcome.ended - outcome.began:.1f} s{again} {outcome.problem}", flush=True)


def _record(path: Path, outcomes: Sequence[Outcome], broken: Sequence[Broken], seed: int) -> None:
    """Adds counts by cell to those that are there."""
    known = counts.read(path)
    known["seeds"].append(seed)
    known["kills"] += sum(each.kills for each in outcomes)
    known["broken"] += len(broken)
    for each in outcomes:
        row = known["cells"].setdefault(str(each.cell), counts.Count(runs=0, kills=0, broken=0))
        row["runs"] += each.reached
        row["kills"] += each.kills
        row["broken"] += len(each.broken)
    counts.write(path, known)


def _report(outcomes: Sequence[Outcome], broken: Sequence[Broken], events: int, folder: Path) -> int:
    reached = {each.cell for each in outcomes if each.reached}
    problems = [each for each in outcomes if each.problem or not each.reached]
    print(
        f"{len(outcomes)} runs of {len(reached)} cells, {sum(each.kills for each in outcomes)} kills, "
        f"{events} writes judged, {len(broken)} broken promises, {len(problems)} without an end; "
        f"{sum(each.again is not None for each in outcomes)} acted again, the slowest after "
        f"{max((each.again or 0.0 for each in outcomes), default=0.0):.0f} s; {folder}"
    )
    for each in broken:
        print(f"BROKEN {each.promise}: {each.what}")
    for outcome in problems:
        print(f"PROBLEM {outcome.cell}: {outcome.problem or 'the write did not come'}")
    return 1 if broken or problems else 0


if __name__ == "__main__":
    sys.exit(main())
