from __future__ import annotations

import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from ballast.serving.board import Board, CycleRecord
from ballast.serving.page import FILES
from tests.fakes import FakeClock
from tests.unit.serving import acting
from tests.unit.serving.client import ask
from tests.unit.serving.world import TIME, board_of, serving, snapshot


def test_the_page_talks_to_this_daemon_alone() -> None:
    with serving(Board()) as port:
        page = ask(port, "/")
        text = page.body.decode()
        linked = re.findall(r'(?:src|href)="([^"#]+)"', text)
        scripts = [path for path in FILES if path.endswith(".js")]
        imported = {f"/page/{name}" for path in scripts for name in _imports(ask(port, path).body.decode())}
        files = [ask(port, path) for path in FILES if path != "/page/uplot.LICENSE.txt"]
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


def _imports(script: str) -> list[str]:
    return re.findall(r'^import (?:.* from )?"\./([a-z]+\.js)";$', script, re.MULTILINE)


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


CHROMIUM = shutil.which("chromium")


browser = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")


def seen(board: Board, profile: Path, view: str = "") -> str:
    """The page as a browser has made it of the documents."""
    with serving(board) as port:
        flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
        flags += f" --disable-component-update --user-data-dir={profile} --virtual-time-budget=3000 --dump-dom"
        command = [CHROMIUM or "", *flags.split(), f"http://127.0.0.1:{port}/{view}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout


def words(dom: str, section: str) -> str:
    """What is written in one view."""
    [found] = re.findall(rf'<section id="view-{section}".*?</section>', dom, re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", found)))


@browser
def test_a_browser_shows_the_nodes_and_unknown_in_words(tmp_path: Path) -> None:
    nan = float("nan")
    board = board_of(snapshot([[0.42, nan], [0.31, nan]], names=["busy", "dark"]), frozen=True)
    board.config = [{"name": "BALLAST_POWER__MODE", "value": "dry-run", "origin": "default"}]
    board.cycles = [CycleRecord("publishing", TIME, 0.1, True, "published <1> of 2 nodes")]
    dom = seen(board, tmp_path)
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


def acting_board(mode: str) -> Board:
    board = board_of(snapshot([[0.5], [0.4]]))
    board.clock = FakeClock(TIME)
    shadow = mode == "dry-run"
    board.power = acting.power(
        TIME,
        acting.policy("site-a", TIME, targets=500, shadow=shadow),
        acting.policy(
            "site-b",
            TIME,
            feed={"semantics": "limit", "watts": None, "time": None, "problem": "silent"} | acting.NO_MORE_OF_A_FEED,
        ),
        mode=mode,
    )
    board.plans = [acting.plan(number, TIME, mode=mode, steps=300) for number in range(3)]
    board.evictions = acting.evictions(TIME, 150, mode=mode)
    return board


@browser
def test_a_browser_shows_power_plans_and_evictions(tmp_path: Path) -> None:
    dom = seen(acting_board("on"), tmp_path, "#power")
    power, plans, evictions = (words(dom, view) for view in ("power", "plans", "evictions"))
    assert "75 s more below 3,914 W, then about 6 replicas are taken away" in power
    assert "no change in between" in power
    assert "site-b feed silent" in power
    assert "excluded: annotation ballast.dev/exclude-power of the namespace" in power
    assert "not found: create it or remove it from the policy" in power
    assert "1 of 2 refused: prod/worker-1 changed meanwhile" in power
    assert "100 of 500 shown" in power
    assert "Dry-run" not in power + plans + evictions
    assert dom.count("<canvas") == 2, "watts, and replicas below them"
    assert "cpu 0.168 0.117 −30.4 %" in plans
    assert "chosen by the scheduler" in plans
    assert "shop/cart allows 0 disruptions now, 1 is needed" in plans
    assert "The first 200 of 300 are shown" in plans
    assert "node-10, as planned" in evictions
    assert "node-8, planned was node-9" in evictions
    assert "node-0: cpu −6 % node-9: cpu +3 % σ cpu 0.168 → 0.117" in evictions
    assert "node-0: cpu −5.2 % 87 % of what was predicted" in evictions
    assert "At most from one namespace in a cycle no limit" in evictions
    assert "At most over time 20/1h, 1%/1d" in evictions
    assert "512 MiB" in evictions
    assert "100 of 150 shown" in evictions


@browser
def test_a_browser_marks_what_is_only_dry(tmp_path: Path) -> None:
    board = acting_board("dry-run")
    board.power = {**board.power, "paused": "paused by key paused of ConfigMap ballast-switches"}
    board.evictions = {**board.evictions, "breaker": "14 % of the nodes are NotReady"}
    dom = seen(board, tmp_path, "#evictions")
    power, plans, evictions = (words(dom, view) for view in ("power", "plans", "evictions"))
    assert "Dry-run. The replicas shown are computed. Nothing is changed." in power
    assert "In dry-run" in power
    assert "Changes in dry-run" in power
    assert "Paused. paused by key paused" in power
    assert "Dry-run: no pod is evicted." in plans
    assert "Steps in dry-run" in plans
    assert "Dry-run. Plans are made and checked; no pod is evicted." in evictions
    assert "Stopped. 14 % of the nodes are NotReady" in evictions


@browser
def test_a_browser_shows_what_the_strategies_say_of_each_node_for_a_pod(tmp_path: Path) -> None:
    board = board_of(snapshot([[0.5, 0.2], [0.4, 0.1]]))
    scores = {"scores": {"node-0": 31, "node-1": 82}, "raw": {}, "terms": {"node-1": {"variation": 0.2}}, "unknown": []}
    board.pod_scores = lambda namespace, name: {
        "pod": f"{namespace}/{name}",
        "node": "node-0",
        "decided": None,
        "time": TIME,
        "neutral": "old-snapshot",
        "strategies": [scores | {"strategy": "blend"}, scores | {"strategy": "load-variation", "unknown": ["node-0"]}],
    }
    said = words(seen(board, tmp_path, "#pods/shop/cart-1"), "pods")
    assert "shop/cart-1 runs on node-0 and is counted there." in said
    assert "give all nodes the same score (old-snapshot)" in said
    assert "node-1 82 82 variation 0.2 node-0 (here) 31 31" in said


@browser
def test_a_browser_tells_of_conditions_that_need_somebody(tmp_path: Path) -> None:
    board = board_of(snapshot([[0.5], [0.4]]))
    board.conditions = lambda: [
        {"type": "FeedAvailable", "status": "False", "message": "site-a is silent"},
        {"type": "Active", "status": "True", "message": "all is well"},
        {"type": "Contended", "status": "True", "message": "somebody fights"},
        {"type": "Limited", "status": "False", "message": "never mind"},
    ]
    dom = seen(board, tmp_path)
    banners = re.sub(r"<[^>]+>", " ", dom[dom.index('id="banners"') : dom.index("<section")])
    assert "Not FeedAvailable: site-a is silent" in re.sub(r"\s+", " ", banners)
    assert "somebody fights" in banners
    assert "all is well" not in banners
    assert "never mind" not in banners


@browser
def test_a_browser_says_in_words_that_nothing_was_planned_yet(tmp_path: Path) -> None:
    dom = seen(board_of(snapshot([[0.5], [0.4]])), tmp_path)
    assert "No power policy is set." in words(dom, "power")
    assert "No plan has been made yet." in words(dom, "plans")
    assert "no pod has been evicted" in words(dom, "evictions")
    assert "no room is reserved now" in words(dom, "evictions")
