from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ballast.serving.board import Board, CycleRecord
from tests.unit.serving.client import ask
from tests.unit.serving.world import TIME, board_of, serving, snapshot


def test_the_page_talks_to_this_daemon_alone() -> None:
    with serving(Board()) as port:
        page = ask(port, "/")
        text = page.body.decode()
        linked = re.findall(r'(?:src|href)="([^"#]+)"', text)
        files = [ask(port, path) for path in linked if path.startswith("/page/")]
        assert {path for path in linked if ask(port, path).status == 404} == set()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert all(path.startswith("/") and not path.startswith("//") for path in linked)
    assert not re.search(r"<script>|<style>|\sstyle=|\son\w+=", text)
    assert len(files) >= 3
    for file in files:
        assert file.headers["x-content-type-options"] == "nosniff"
        outside = file.body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"http://" not in outside
        assert b"https://" not in outside
        assert b"innerHTML" not in outside


def test_without_javascript_the_page_says_where_the_facts_are() -> None:
    with serving(Board()) as port:
        text = ask(port, "/").body.decode()
    spoken = text[text.index("<noscript>") : text.index("</noscript>")]
    assert "/readyz?verbose" in spoken
    assert "/api/v1/nodes" in spoken


def test_an_unchanged_page_is_304() -> None:
    with serving(Board()) as port:
        etag = ask(port, "/").headers["etag"]
        assert ask(port, "/", if_none_match=etag).status == 304


CHROMIUM = shutil.which("chromium")


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_shows_the_nodes_and_unknown_in_words(tmp_path: Path) -> None:
    nan = float("nan")
    board = board_of(snapshot([[0.42, nan], [0.31, nan]], names=["busy", "dark"]), frozen=True)
    board.config = [{"name": "BALLAST_POWER__MODE", "value": "dry-run", "origin": "default"}]
    board.cycles = [CycleRecord("publishing", TIME, 0.1, True, "published <1> of 2 nodes")]
    with serving(board) as port:
        flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
        flags += f" --disable-component-update --user-data-dir={tmp_path} --virtual-time-budget=3000 --dump-dom"
        command = [CHROMIUM or "", *flags.split(), f"http://127.0.0.1:{port}/"]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout
    rows = re.findall(r"<tr[^>]*>.*?</tr>", dom[dom.index('<table id="nodes">') :], re.DOTALL)
    texts = [re.sub(r"<[^>]+>", " ", row) for row in rows]
    busy, dark = (next(text for text in texts if name in text) for name in ("busy", "dark"))
    assert "42 %" in busy
    assert "31 %" in busy
    assert dark.count("unknown") >= 4
    assert "0" not in dark
    assert "1 of 2 nodes known (1 silent)" in dom
    assert "Frozen." in dom
    assert "dry-run" in dom
    assert "published &lt;1&gt; of 2 nodes" in dom
