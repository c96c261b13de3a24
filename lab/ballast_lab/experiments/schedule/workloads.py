"""What arrives: pods with recorded series of use, requests by a model, and nodes to place them on.

All is drawn from a seed before anybody places a pod, so every contestant sees the same pods at the same times.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from ballast.base.errors import UsageError
from ballast.model.sample import Floats, Ints
from ballast_lab.experiments.load_traces import LoadTrace

DAY, HOUR = 86_400.0, 3600.0
START = 2 * HOUR
"""In the first hours the nodes are filled; hot minutes count from `WARM` on."""
WARM = HOUR
COVER = 1.7
"""Requests per mean use in the models that are right on average: at 85 % of requests the nodes are half loaded."""
BUSIEST = 0.5 / 0.85
"""Expected load per fill: models that request too little would otherwise ask for several clusters."""
MEAN_LIFE, SHORTEST = 8 * HOUR, HOUR / 2
SIZES, SIZE_SHARES = (1.0, 2.0, 4.0, 8.0), (0.4, 0.3, 0.2, 0.1)
"""Cores that a pod can use at most: the recorded series are shares of these."""
MEMORY_PER_CORE = 4 * 2.0**30
MEAN_BURST, LARGEST_BURST = 30, 300
FEW_SERIES = 200
"""Of fewer recorded series each pod takes one from another time of the day."""
DRAWN = 20_000
KNOWN_SHARE = 0.3
SEEN_DAYS = 8

REQUESTS = ("sized", "right", "wrong", "tenth", "triple", "none")
"""By the pod's size alone; 1.7 x its own use; the same, wrong by up to 3 x; a tenth; three times; none at all."""
ARRIVALS = ("steady", "diurnal", "bursts")
SHARING = ("alike", "1:2:4", "pools")


@dataclass(frozen=True)
class Nodes:
    """[node]: cores, bytes, and the number of the pool."""

    cpu: Floats
    memory: Floats
    pool: Ints

    def __len__(self) -> int:
        return len(self.cpu)


@dataclass(frozen=True)
class Workload:
    """[pod], in the order of arrival; times in seconds of the day."""

    nodes: Nodes
    series: Floats
    """[series, sample]: shares of a pod's size, over a day."""
    start: Floats
    end: Floats
    size: Floats
    row: Ints
    shift: Ints
    cpu: Floats
    """Requested cores."""
    memory: Floats
    """Requested bytes, all of which it uses."""
    owner: Ints
    pool: Ints

    def use(self, pods: Ints, time: float) -> Floats:
        """[of `pods`]: cores at a time, interpolated between samples."""
        samples = self.series.shape[1]
        position = time / DAY * samples
        before = (int(position) + self.shift[pods]) % samples
        after = (before + 1) % samples
        weight = position - int(position)
        shares = (1 - weight) * self.series[self.row[pods], before] + weight * self.series[self.row[pods], after]
        return np.asarray(shares * self.size[pods])


def days_of(trace: LoadTrace) -> Iterator[tuple[str, Floats]]:
    """(name, [series, sample]) of each whole day, without holes."""
    samples = round(DAY / trace.step)
    for part, load in enumerate(trace.parts):
        for day in range(load.shape[1] // samples):
            series = load[:, day * samples : (day + 1) * samples]
            series = series[np.isfinite(series).mean(axis=1) > KNOWN_SHARE]
            if len(series) >= 3:
                means = np.nanmean(series, axis=1, keepdims=True)
                yield f"{part}.{day}", np.clip(np.where(np.isfinite(series), series, means), 0.0, 1.0)


def nodes_of(sharing: str) -> Nodes:
    """14 nodes of 16 cores; 16 of 8, 16 and 32 cores; or two pools of which a pod may use one."""
    kinds = {"alike": [(14, 16, 0)], "1:2:4": [(8, 8, 0), (5, 16, 0), (3, 32, 0)], "pools": [(7, 16, 0), (4, 32, 1)]}
    if sharing not in kinds:
        raise UsageError(f"sharing {sharing}: choose one of {', '.join(SHARING)}.")
    rows = [(cores, pool) for count, cores, pool in kinds[sharing] for _ in range(count)]
    cpu = np.array([cores for cores, _ in rows], float)
    return Nodes(cpu, cpu * MEMORY_PER_CORE, np.array([pool for _, pool in rows]))


def draw(
    series: Floats,
    seed: int,
    *,
    fill: float = 0.85,
    requests: str = "sized",
    arrivals: str = "steady",
    sharing: str = "alike",
) -> Workload:
    """A day of pods whose requests are `fill` of what the nodes have, or whose use would be as much of half of it.

    Half of them come in the first two hours; they live for 8.5 hours on average.
    """
    random, nodes = np.random.default_rng([seed, 7]), nodes_of(sharing)
    size = random.choice(SIZES, DRAWN, p=SIZE_SHARES)
    row = random.integers(0, len(series), DRAWN)
    few = len(series) < FEW_SERIES
    shift = random.integers(0, series.shape[1], DRAWN) if few else np.zeros(DRAWN, np.int64)
    owner = np.arange(DRAWN)
    wrong = 3.0 ** random.uniform(-1, 1, DRAWN)
    if arrivals == "bursts":
        counts = np.minimum(1 + random.geometric(1 / MEAN_BURST, DRAWN), LARGEST_BURST)
        owner = np.repeat(np.arange(DRAWN), counts)[:DRAWN]
        size, wrong = size[owner], wrong[owner]
    life = SHORTEST + random.exponential(MEAN_LIFE, DRAWN)
    cpu = np.minimum(_requests(requests, series, size, row, wrong), 0.9 * nodes.cpu.max())
    expected = size * series.mean()
    capacity = nodes.cpu.sum()
    most_requested, most_used = fill * capacity, BUSIEST * fill * capacity
    concurrent = min(most_requested / max(cpu.mean(), 1e-9), most_used / expected.mean())
    start = _times(random, arrivals, owner, concurrent, concurrent / life.mean())
    order = np.argsort(start, kind="stable")
    order = order[start[order] < DAY]
    admitted = order[_admit(start[order], life[order], cpu[order], expected[order], most_requested, most_used)]
    memory = np.maximum(cpu, 0.1) * MEMORY_PER_CORE / 2
    pool = random.integers(0, nodes.pool.max() + 1, DRAWN)
    at = admitted
    return Workload(
        nodes,
        series,
        start[at],
        start[at] + life[at],
        size[at],
        row[at],
        shift[at],
        cpu[at],
        memory[at],
        owner[at],
        pool[at],
    )


def _requests(model: str, series: Floats, size: Floats, row: Ints, wrong: Floats) -> Floats:
    own = series.mean(axis=1)[row] * size
    models = {
        "sized": COVER * series.mean() * size,
        "right": COVER * own,
        "wrong": COVER * own * wrong,
        "tenth": 0.1 * own,
        "triple": 3 * own,
        "none": 0 * own,
    }
    if model not in models:
        raise UsageError(f"requests {model}: choose one of {', '.join(REQUESTS)}.")
    return np.asarray(models[model] if model == "none" else np.maximum(models[model], 0.01))


def _times(random: np.random.Generator, model: str, owner: Ints, concurrent: float, rate: float) -> Floats:
    """[pod]: seconds; `rate` pods a second after the start."""
    if model == "bursts":
        bursts = owner[-1] + 1
        first = max(1, int(concurrent / MEAN_BURST))
        begins = np.concatenate(
            [
                np.sort(random.uniform(0, START, first)),
                START + np.cumsum(random.exponential(MEAN_BURST / rate, bursts - first)),
            ]
        )
        place = np.arange(len(owner)) - np.searchsorted(owner, owner)
        return np.asarray(begins[owner] + 0.05 * place)
    first = int(concurrent)
    begins = np.sort(random.uniform(0, START, first))
    if model == "steady":
        return np.concatenate([begins, START + np.cumsum(random.exponential(1 / rate, DRAWN - first))])
    if model != "diurnal":
        raise UsageError(f"arrivals {model}: choose one of {', '.join(ARRIVALS)}.")
    later = START + np.cumsum(random.exponential(1 / (1.8 * rate), DRAWN - first))
    kept = random.uniform(0, 1.8, len(later)) < 1 + 0.8 * np.sin(2 * np.pi * later / DAY)
    return np.concatenate([begins, np.where(kept, later, np.inf)])


def _admit(start: Floats, life: Floats, cpu: Floats, expected: Floats, most_requested: float, most_used: float) -> Ints:
    """The pods that arrive: those that would make the requests or the expected use too many do not come at all."""
    running: list[tuple[float, float, float]] = []
    requested = used = 0.0
    admitted = []
    for pod in range(len(start)):
        while running and running[0][0] <= start[pod]:
            _, ended, expectation = heapq.heappop(running)
            requested, used = requested - ended, used - expectation
        if requested + cpu[pod] <= most_requested and used + expected[pod] <= most_used:
            requested, used = requested + cpu[pod], used + expected[pod]
            heapq.heappush(running, (start[pod] + life[pod], cpu[pod], expected[pod]))
            admitted.append(pod)
    return np.array(admitted, np.int64)


def combinations() -> Iterator[dict[str, str]]:
    """Each model alone beside the first of the others, then the pairs that are hard together."""
    yield {"requests": REQUESTS[0], "arrivals": ARRIVALS[0], "sharing": SHARING[0]}
    for requests in REQUESTS[1:]:
        yield {"requests": requests, "arrivals": ARRIVALS[0], "sharing": SHARING[0]}
    for arrivals, sharing in product(ARRIVALS, SHARING):
        if (arrivals, sharing) != (ARRIVALS[0], SHARING[0]) and arrivals != "diurnal":
            yield {"requests": REQUESTS[0], "arrivals": arrivals, "sharing": sharing}
    yield {"requests": "sized", "arrivals": "diurnal", "sharing": "1:2:4"}
    yield {"requests": "none", "arrivals": "bursts", "sharing": "alike"}
