"""`/watcher` and `/watcher/health`, as load-watcher answers them (pkg/watcher/watcher.go)."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ballast.serving.board import Board
from ballast.serving.cached_document import JSON
from ballast.serving.rendering import Rendered


class Watcher:
    """The handlers over one board."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def metrics(self, request: Request) -> Response:
        """The load of the nodes.

        `?host=` selects one node, `?window=` a length as in the settings; `?resources=all` adds what Trimaran ignores.
        500 with an empty body when nothing is known, cycles stopped or publishing is frozen; 404 for an unknown host.
        """
        rendered = self._current()
        if rendered is None:
            return Response(status_code=500, media_type=JSON)
        windows = list(rendered.known)
        window = request.query_params.get("window", windows[0])
        if window not in rendered.known:
            return _refuse("window", window, windows)
        resources = request.query_params.get("resources", "")
        if resources not in ("", "all"):
            return _refuse("resources", resources, ["all"])
        if not rendered.known[window]:
            return Response(status_code=500, media_type=JSON)
        host = request.query_params.get("host", "")
        if not host:
            return await rendered.watcher[window, resources == "all"].response(request)
        wire = await run_in_threadpool(rendered.wire, window, resources == "all")
        body = wire.host(host)
        if body is None:
            return Response(f"No metrics found for host {host}", status_code=404, media_type=JSON)
        return Response(body, media_type=JSON)

    async def health(self, request: Request) -> Response:
        """200 when `/watcher` would answer 200, else 503; both empty."""
        rendered = self._current()
        healthy = rendered is not None and next(iter(rendered.known.values()))
        return Response(status_code=200 if healthy else 503)

    def _current(self) -> Rendered | None:
        rendered = self._board.current()
        return None if rendered is None or rendered.frozen or self._board.frozen else rendered


def _refuse(parameter: str, value: str, allowed: list[str]) -> Response:
    text = f"{parameter}={value}: not one of {', '.join(allowed)}"
    return Response(text, status_code=400, media_type=JSON)
