"""A writer whose rights the test turns, and hooks that make its API server fail."""

from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any

from ballast.base.metrics import Metrics
from ballast.cluster.write import WriteOutcome
from ballast.cluster.writer import Pace, Writer
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi


def writer_on(
    api: Any, clock: Any, metrics: Metrics | None = None, *, qps: float = 1000.0, burst: int = 1000, **more: Any
) -> Writer:
    """A writer of a leader that nobody pauses, unless told otherwise."""
    rights = {"paused": lambda part: None, "leading": lambda: True} | more
    return Writer(api, clock, metrics or Metrics(), pace=Pace(clock, qps, burst), **rights)


class WriterRig:
    """`pauses` are by part; `reported` has what became events."""

    def __init__(self, api: Any = None, *, modes: Mapping[str, str], **pace: Any) -> None:
        self.api: Any = FakeApi() if api is None else api
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.pauses: dict[str, str] = {}
        self.leads = True
        self.reported: list[WriteOutcome] = []
        self.writer = writer_on(
            self.api,
            self.clock,
            self.metrics,
            modes=modes,
            paused=self.pauses.get,
            leading=lambda: self.leads,
            events=self,
            **pace,
        )

    def report(self, outcome: WriteOutcome) -> None:
        self.reported.append(outcome)

    def counted(self, kind: str, result: str) -> float | None:
        return self.metrics.registry.get_sample_value("ballast_writes_total", {"kind": kind, "result": result})


def raising(error: BaseException, *times: int) -> Callable[..., None]:
    """A hook that raises an error, always or so many times."""
    left = repeat(error, *times)

    def hook(*_: object) -> None:
        for each in left:
            raise each

    return hook
