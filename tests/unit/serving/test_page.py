import re

from ballast.serving.board import Board
from ballast.serving.page_api import FILES, WORDS
from tests.unit.serving.client import ask
from tests.worlds.board import serving


def test_the_page_talks_to_this_daemon_alone() -> None:
    with serving(Board()) as port:
        page = ask(port, "/")
        text = page.body.decode()
        linked = re.findall(r'(?:src|href)="([^"#]+)"', text)
        scripts = [path for path in (*FILES, WORDS) if path.endswith(".js")]
        imported = {name for path in scripts for name in _loaded(ask(port, path).body.decode())}
        files = [ask(port, path) for path in (*FILES, WORDS) if path != "/page/uplot.LICENSE.txt"]
        assert {path for path in linked if ask(port, path).status == 404} == set()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert all(path.startswith("/") and not path.startswith("//") for path in linked)
    assert not re.search(r"<script>|<style>|\sstyle=|\son\w+=", text)
    assert imported | {path for path in linked if path.endswith(".js")} == set(scripts)
    for file in files:
        assert file.headers["x-content-type-options"] == "nosniff"
        outside = file.body.replace(b"http://www.w3.org/2000/svg", b"").replace(UPLOT, b"")
        assert b"http://" not in outside
        assert b"https://" not in outside
        assert b"innerHTML" not in outside


UPLOT = b"/*! https://github.com/leeoniya/uPlot (v1.6.32) */"


def _loaded(script: str) -> set[str]:
    """What a script imports, at once or later, and what it puts into the page."""
    return {f"/page/{name}" for name in re.findall(r'"(?:\./|/page/)([a-z]+\.js)"', script)}


def test_the_chart_library_comes_with_its_licence() -> None:
    with serving(Board()) as port:
        assert ask(port, "/page/uplot.js").body.startswith(UPLOT)
        assert "MIT License" in ask(port, "/page/uplot.LICENSE.txt").body.decode()


def test_without_javascript_the_page_says_where_the_facts_are() -> None:
    with serving(Board()) as port:
        text = ask(port, "/").body.decode()
    spoken = text[text.index("<noscript>") : text.index("</noscript>")]
    assert "/readyz?verbose" in spoken
    for path in ("nodes", "power", "plans", "evictions"):
        assert f"/api/v1/{path}" in spoken


def test_an_unchanged_page_is_304() -> None:
    with serving(Board()) as port:
        etag = ask(port, "/").headers["etag"]
        assert ask(port, "/", if_none_match=etag).status == 304


def test_what_is_loaded_first_is_small() -> None:
    with serving(Board()) as port:
        text = ask(port, "/").body.decode()
        first = ["/", *re.findall(r'(?:src|href)="(/page/[^"]+)"', text)]
        sizes = {path: len(ask(port, path, accept_encoding="gzip").body) for path in first}
    assert sum(sizes.values()) < 45_000
    assert not any("uplot" in path for path in sizes)
