"""`/livez` and `/readyz`: plain text; `?verbose` lists the checks, how fresh the data is, and the conditions."""

from collections.abc import Callable

import numpy as np
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ballast.model.snapshot import Snapshot
from ballast.serving.board import Board, Check, DaemonAnswers

PROBES = ("/livez", "/readyz")


def is_verbose(request: Request) -> bool:
    """Whether this request for a probe wants details."""
    return request.query_params.get("verbose", "false") != "false"


class HealthRoutes:
    """The handlers of probes. Stale data never makes a replica unready; it is reported here and in conditions."""

    def __init__(self, board: Board, answers: DaemonAnswers) -> None:
        self._board, self._answers = board, answers

    async def livez(self, request: Request) -> Response:
        """Whether the daemon's threads are alive; 503 when one is not."""
        return self._answer("livez", self._answers.alive, request)

    async def readyz(self, request: Request) -> Response:
        """Whether the daemon can serve; 503 when it cannot."""
        return self._answer("readyz", self._answers.ready, request)

    def _answer(self, name: str, checks: Callable[[], list[Check]], request: Request) -> Response:
        results = checks()
        passed = all(check.ok for check in results)
        if not is_verbose(request):
            failing = ", ".join(check.name for check in results if not check.ok)
            text = "ok\n" if passed else f"failing: {failing}\n"
        else:
            lines = [f"[{'+' if check.ok else '-'}] {check.name}: {check.message or _word(check)}" for check in results]
            lines += freshness(self._board.snapshot, self._board.clock.wall(), self._board.frozen)
            lines += [_condition(**condition) for condition in self._board.conditions()]
            lines.append(f"{name} {'passed' if passed else 'failed'}")
            text = "\n".join(lines) + "\n"
        return PlainTextResponse(text, status_code=200 if passed else 503, headers={"cache-control": "no-store"})


def freshness(snapshot: Snapshot | None, now: float, frozen: bool) -> list[str]:
    """Lines about the age of the data, its share of the cluster, and the source of each resource."""
    if snapshot is None:
        return ["data: none yet"]
    lines = [
        f"data: {max(0.0, now - snapshot.time):.0f} s old, "
        f"{len(snapshot.nodes) - snapshot.unknown} of {len(snapshot.nodes)} nodes known"
        + (", frozen: too much of the cluster is silent" if frozen else "")
    ]
    for row, resource in enumerate(snapshot.resources):
        newest = snapshot.newest[row][np.isfinite(snapshot.newest[row])]
        source = snapshot.sources.get(resource, "no source")
        ages = f"samples {now - newest.max():.0f} to {now - newest.min():.0f} s old" if len(newest) else "no samples"
        known = int(np.count_nonzero(snapshot.primary.known[row]))
        lines.append(f"data {resource}: known on {known} nodes, {ages}, from {source}")
    return lines


def _condition(*, type: str, status: str, reason: str = "", message: str = "", **_: object) -> str:  # noqa: A002
    return f"condition {type}: {status} {reason} {message}".rstrip()


def _word(check: Check) -> str:
    return "ok" if check.ok else "failed"
