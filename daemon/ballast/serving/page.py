"""The page: static files, with a Content-Security-Policy under which the browser contacts this daemon alone."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ballast.serving.document import Document

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
SCRIPTS = (
    *(
        "page",
        "early",
        "common",
        "fleet",
        "wall",
        "drawing",
        "incident",
        "overview",
        "nodes",
        "node",
        "pods",
        "plans",
        "evictions",
    ),
    *("power", "chart", "uplot"),
)
ICONS = ("icon", "icon-warn", "icon-bad")
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/page/{name}.svg": (f"{name}.svg", "image/svg+xml") for name in ICONS},
    "/page/uplot.LICENSE.txt": ("uplot.LICENSE.txt", "text/plain; charset=utf-8"),
    **{f"/page/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in SCRIPTS},
}


def routes() -> list[BaseRoute]:
    """The page at `/` and its files under `/page`."""
    return [Route(path, _File(name, media_type).answer) for path, (name, media_type) in FILES.items()]


class _File:
    def __init__(self, name: str, media_type: str) -> None:
        self._document = Document((files("ballast.serving") / "page" / name).read_bytes, media_type)

    async def answer(self, request: Request) -> Response:
        response = await self._document.response(request)
        response.headers.update(HEADERS)
        return response
