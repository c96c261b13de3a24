"""More than 24 hours of one node, from a Prometheus that scrapes Ballast itself."""

import json

import msgspec

from ballast.answers.views import NodeHistory
from ballast.base.clock import Clock
from ballast.model.duration import DAY
from ballast.settings import Settings
from ballast.telemetry.prometheus_client import Grid, PrometheusClient

POINTS = 288
"""Of one answer, however many days it spans."""


class LongHistory:
    """Asks at each call, in the thread of the caller."""

    def __init__(self, settings: Settings, clock: Clock, window: str) -> None:
        self._settings, self._clock, self._window = settings, clock, window

    def __call__(self, node: str, days: int) -> NodeHistory | None:
        """The last days; None where Prometheus has nothing. Raises SourceUnavailable."""
        if self._settings.prometheus.url is None:
            return None
        step = days * DAY / POINTS
        end = self._clock.wall() // step * step
        grid = Grid(end - (POINTS - 1) * step, step, POINTS)
        named = f"node={json.dumps(node, ensure_ascii=False)}"
        client = PrometheusClient(self._settings)
        try:
            load = client.ask(f'max by (resource) (ballast_node_load_mean{{{named},window="{self._window}"}})', grid)
            score = client.ask(f"max(ballast_node_score{{{named}}})", grid)
        finally:
            client.close()
        loads = {name: values for name, values in _columns(load, grid).items() if name}
        if not loads:
            return None
        scores = _columns(score, grid).get("", [None] * POINTS)
        times = [grid.time(index) for index in range(POINTS)]
        return NodeHistory(node, step, times, loads, scores)


def _columns(body: bytes, grid: Grid) -> dict[str, list[float | None]]:
    """{resource: values on the grid}, None where there is none."""
    columns: dict[str, list[float | None]] = {}
    for series in msgspec.json.decode(body)["data"]["result"]:
        column = columns.setdefault(series["metric"].get("resource", ""), [None] * grid.count)
        for time, text in series["values"]:
            place = round((time - grid.start) / grid.step)
            if 0 <= place < grid.count:
                column[place] = round(float(text), 4)
    return columns
