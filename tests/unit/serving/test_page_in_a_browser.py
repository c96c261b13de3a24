"""The page as a browser shows it: every view in four widths, light and dark, and what is written there."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ballast.answers.api import PodScores
from ballast.answers.ledger_answer import LedgerAnswer, LedgerEntry
from ballast.answers.views import CheckVerdict, Explanation, FoundPod, NodeScore, PodOnNode
from ballast.base.errors import BallastError
from ballast.serving.board import Board, CycleRecord, DaemonAnswers
from ballast_lab.harness.browser import CHROMIUM, Tab, browser
from tests.worlds import acting
from tests.worlds.board import TIME, board_of, serving, snapshot
from tests.worlds.clock import FakeClock

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]
AXE = Path(__file__).parent / "axe" / "axe.min.js"
NAN = float("nan")
LOOKS = [(width, dark) for width in (1920, 1280, 768, 390) for dark in (False, True)]

VIEWS = (
    "overview",
    "overview?colour=score&group=zone",
    "nodes",
    "nodes?show=hot",
    "nodes?at=1",
    "nodes/node-1",
    "nodes/nobody",
    "pods",
    "pods/shop/cart-1",
    "plans",
    "plans/plan-2",
    "evictions",
    "power",
    "power/site-b",
    "cycles",
)
OUTSIDE = """
[...document.querySelectorAll("body *")]
  .filter(each => each.checkVisibility() && !each.closest(".skip, .hidden, svg, .scroll"))
  .filter(each => each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 160))
"""
CUT = """
[...document.querySelectorAll("main .scroll")]
  .filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
  .map(each => each.getAttribute("aria-label") || each.innerHTML.slice(0, 160))
"""
FINDINGS = """
axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then(found =>
  JSON.stringify(found.violations.map(each => [each.id, each.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])))
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        found.look(1280)
        yield found


def modes(mode: str) -> list[dict[str, Any]]:
    parts = ("PUBLISHING", "POWER", "EVICTION")
    return [{"name": f"BALLAST_{part}__MODE", "value": mode, "origin": "environment"} for part in parts]


def acting_board(mode: str, *, steps: int = 300, evictions: int = 150, targets: int = 500) -> Board:
    loads = [[0.5, 0.83, 0.95, NAN], [0.4, 0.3, 0.2, NAN]]
    board = board_of(snapshot(loads), scores={"node-0": 55, "node-1": 38, "node-2": 27, "node-3": None})
    board.clock = FakeClock(TIME)
    board.leader = lambda: True
    shadow = mode == "dry-run"
    silent = {"semantics": "limit", "watts": None, "time": None, "problem": "silent"} | acting.NO_MORE_OF_A_FEED
    policies = [
        acting.policy("site-a", TIME, targets=targets, shadow=shadow),
        acting.policy("site-b", TIME, feed=silent, over=120.0, unmet_demand=3),
    ]
    board.power = acting.as_power(acting.power(TIME, *policies, mode=mode))
    board.plans = acting.as_plans(acting.plan(number, TIME, mode=mode, steps=steps) for number in range(3))
    board.evictions = acting.as_evictions(acting.evictions(TIME, evictions, mode=mode))
    board.config = modes(mode)
    board.cycles = [CycleRecord("publishing", TIME, 0.1, True, "labels current on 3 of 4 nodes (0 changed, 1 unknown)")]
    board.find_pods = lambda text: [FoundPod("shop/cart-1", "node-0")]
    board.pods_on = lambda node: [
        PodOnNode("shop/cart-1", "ReplicaSet/cart", "Running", True, TIME - 7200, {"cpu": 0.5, "memory": 2.0**30})
    ]
    return board


def pod_scores(namespace: str, name: str) -> PodScores:
    scores = {"scores": {"node-0": 31, "node-1": 82}, "raw": {}, "terms": {"node-1": {"variation": 0.2}}, "unknown": []}
    document = {
        "pod": f"{namespace}/{name}",
        "node": "node-0",
        "decided": None,
        "time": TIME,
        "neutral": "old-snapshot",
        "strategies": [scores | {"strategy": "blend"}, scores | {"strategy": "load-variation", "unknown": ["node-0"]}],
        "strategy": "blend",
        "scores": scores["scores"],
        "unknown": [],
    }
    return msgspec.convert(document, PodScores)


def explained(namespace: str, name: str) -> Explanation:
    if name == "cart-2":
        raise BallastError("the planning process is busy; ask again in a minute")
    checks = ("mirror", "no mirror pod", {}), ("pdb", "no disruption is left", {"allowed": 0}), ("min-age", "old", {})
    return Explanation(
        pod=f"{namespace}/{name}",
        node="node-0",
        workload="Deployment shop/cart",
        allowed=False,
        checks=[
            CheckVerdict(number, check, "refused" if check == "pdb" else "allowed", reason, numbers)
            for number, (check, reason, numbers) in enumerate(checks, 1)
        ],
        notes=[],
    )


def node_score(node: str) -> NodeScore:
    return NodeScore(node, "load-variation", 38, {"cpu": 38.25})


HOUR = LedgerEntry(TIME - TIME % 3600, 66, 2, 1, 1.0, 0.87, 12.0, 5, None, None, hot_node_minutes_without=48.0)
ANSWERS = DaemonAnswers(
    pod_scores=pod_scores,
    explain=explained,
    node_score=node_score,
    ledger=lambda: LedgerAnswer(hours=[HOUR], days=[HOUR]),
)


@pytest.mark.parametrize(
    ("width", "dark"), LOOKS, ids=[f"{width}-{'dark' if dark else 'light'}" for width, dark in LOOKS]
)
def test_every_view_fits_and_has_no_findings(tab: Tab, width: int, dark: bool) -> None:
    tab.look(width, dark=dark)
    with serving(acting_board("on", steps=12, evictions=9, targets=12), answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#overview")
        tab.errors.clear()
        tab.run(AXE.read_text(encoding="utf-8") + ";true")
        for view in VIEWS:
            tab.go(f"#{view}")
            if view.startswith("pods/"):
                tab.await_("document.querySelector('#pod-body .checks')")
            assert tab.run("document.documentElement.scrollWidth") <= width, view
            assert tab.run(OUTSIDE) == [], view
            if width >= 1280:
                assert tab.run(CUT) == [], view
            assert json.loads(tab.run(FINDINGS)) == [], view
    assert [error for error in tab.errors if "nobody" not in error] == []


def test_the_first_screen_answers(tab: Tab) -> None:
    tab.look(1280)
    with serving(acting_board("on"), answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/")
        tiles, wall, title = (
            tab.text("#tiles"),
            tab.run("document.querySelector('canvas').ariaLabel"),
            tab.run("document.title"),
        )
        icon = tab.run("document.getElementById('icon').getAttribute('href')")
        word, balance, obstacles = tab.text("#word"), tab.text("#balance"), tab.text("#obstacles")
    assert "Since midnight (UTC) 0.2 hot node-hours" in tiles
    assert "0.8 without the moves" in tiles
    assert "66 pods moved" in tiles
    assert "Needs you nothing" in tiles
    assert "Next rebalance: 300 pods" in tiles
    assert "node-0 → " in tiles
    assert balance.startswith("cpu ±19.0 points")
    assert balance.index("memory ±") > balance.index("cpu ±")
    assert "2 nodes hot, the hottest: node-2 cpu 95 % node-1 cpu 83 %" in balance
    assert "disruption budget used up 36" in obstacles
    assert word == "2 hot"
    assert "4 nodes by cpu: 2 hot, 1 unknown" in wall
    assert title == "● 2 hot · Ballast"
    assert icon == "/page/icon-warn.svg"


def test_the_wall_is_walked_by_the_keyboard(tab: Tab) -> None:
    tab.look(1280)
    with serving(acting_board("on"), answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#overview")
        tab.run("document.querySelector('#overview-wall canvas').focus()")
        for key in ("ArrowRight", "ArrowRight"):  # They stand by name, whatever their load is.
            tab.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        assert tab.text("#overview-wall .tip").startswith("node-1: cpu 83 %, memory 30 %, score 38")
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="Enter")
        tab.await_("document.body.dataset.shown === '#nodes/node-1' && document.querySelector('#node-title')")
        page = tab.text("#node-page")
        tab.run("document.activeElement.blur()")
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="4", text="4")
        tab.await_("location.hash === '#plans'")
    assert "Class not known yet" in page or "Class normal" in page
    assert "because cpu at 83 % is at or above 80 %" in page
    assert "38 of 100" in page
    assert "cpu 38.25" in page
    assert "shop/cart-1" in page


def test_nodes_are_listed_and_unknown_is_a_word(tab: Tab) -> None:
    board = board_of(snapshot([[0.42, NAN], [0.31, NAN]], names=["busy", "dark"]), frozen=True)
    board.conditions = lambda: [{"type": "PublishingFrozen", "status": "True", "message": "one of two is silent"}]
    board.config = modes("dry-run")
    board.cycles = [CycleRecord("publishing", TIME, 0.1, True, "published <1> of 2 nodes")]
    with serving(board, answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#nodes")
        busy, dark = (tab.text(f"#nodes tbody tr:nth-child({row})") for row in (1, 2))
        headline, incident, word = tab.text("#headline"), tab.text("#incident"), tab.text("#word")
        tab.go("#overview")
        parts, jobs = tab.text("#parts"), tab.text("#jobs")
    assert busy.startswith("busy 50")
    assert "42 %" in busy
    assert "31 %" in busy
    assert dark.count("unknown") >= 4
    assert "0" not in dark
    assert "1 of 2 nodes known (1 silent)" in headline
    assert "Too many nodes are silent, so nothing is published: one of two is silent" in incident
    assert word == "Blind"
    assert "Publishing dry-run" in parts
    assert "published <1> of 2 nodes" in jobs


def test_the_past_can_be_looked_at_and_shared(tab: Tab) -> None:
    past = (TIME - 1200) // 300 * 300
    board = board_of(snapshot([[0.9], [0.4]], time=past))
    later = board_of(snapshot([[0.3], [0.4]]))
    board.snapshot, board.rendered, board.scores = later.snapshot, later.rendered, later.scores
    board.history.observe(later.rendered.snapshot if later.rendered else snapshot([[]]), later.scores, board.high)
    with serving(board, answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#nodes")
        now = tab.text("#nodes tbody")
        tab.go(f"#nodes?at={past:.0f}")
        then, told = tab.text("#nodes tbody"), tab.text("#time-text")
        tab.go(f"#nodes?show=hot&at={past - 300_000:.0f}")
        older, address = tab.text("#time-text"), tab.run("location.hash")
    assert "30 %" in now
    assert "90 %" in then
    assert "ago" in told
    assert "not kept" in then, "labels of the past are not remembered, which is not the same as none"
    assert "is not kept; this is now" in older
    assert address == "#nodes?show=hot"


def test_power_plans_and_evictions_are_shown(tab: Tab) -> None:
    tab.look(1280)
    with serving(acting_board("on"), answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#power")
        power, charts = tab.text("#view-power"), tab.run("document.querySelectorAll('#view-power canvas').length")
        tab.go("#power/site-b")
        other = tab.text("#view-power")
        tab.go("#plans/plan-0")
        plans = tab.text("#view-plans")
        tab.go("#evictions")
        tab.run("document.querySelectorAll('#view-evictions details').forEach(each => { each.open = true; })")
        evictions = tab.text("#view-evictions")
    assert "75 s more below 3,914 W, then about 6 replicas are taken away" in power
    assert "no change in between" in power
    assert "site-b feed silent" in power
    assert "excluded: annotation ballast.dev/exclude-power of the namespace" in power
    assert "not found: create it or remove it from the policy" in power
    assert "1 of 2 refused: prod/worker-1 changed meanwhile" in power
    assert "100 of 500 shown" in power
    assert charts == 2, "watts, and replicas below them"
    assert "120 W more than is available are drawn" in other
    assert "3 replicas that autoscalers want are held back" in other
    assert "Dry-run" not in power + plans + evictions
    assert "cpu ±16.8 ±11.7 −30.4 %" in plans
    assert "chosen by the scheduler" in plans
    assert "considered 322 pdb: disruption budget used up −12" in plans
    assert "shop/cart allows 0 disruptions now, 1 is needed" in plans
    assert "The first 200 of 300 are shown" in plans
    assert "node-10, as planned" in evictions
    assert "node-8, planned was node-9" in evictions
    assert "node-0: cpu −6 %; node-9: cpu +3 %; σ cpu 0.168 → 0.117" in evictions
    assert "node-0: cpu −5.2 %; 87 % of what was predicted" in evictions
    assert "predicted −6 measured −5.2" in evictions
    assert "At most from one namespace in a cycle no limit" in evictions
    assert "At most over time 20/1h, 1%/1d" in evictions
    assert "512 MiB" in evictions
    assert "30 of 150 shown" in evictions


def test_what_is_only_dry_is_marked(tab: Tab) -> None:
    board = acting_board("dry-run")
    board.power = replace(board.power, paused="paused by key paused of ConfigMap ballast-switches")
    board.evictions = replace(board.evictions, breaker="14 % of the nodes are NotReady")
    with serving(board, answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#overview")
        tiles = tab.text("#tiles")
        tab.go("#power")
        power = tab.text("#view-power")
        tab.go("#plans")
        plans = tab.text("#view-plans")
        tab.go("#evictions")
        evictions = tab.text("#view-evictions")
    assert "nothing moved" not in tiles, "66 pods were, before it was put in dry-run"
    assert "held Nothing is evicted: 14 % of the nodes are NotReady" in tiles
    assert "Dry-run. The replicas shown are computed. Nothing is changed." in power
    assert "In dry-run" in power
    assert "Changes in dry-run" in power
    assert "Paused. paused by key paused" in power
    assert "Dry-run: no pod is evicted." in plans
    assert "Steps in dry-run" in plans
    assert "Dry-run. Plans are made and checked; no pod is evicted." in evictions
    assert "Stopped. 14 % of the nodes are NotReady" in evictions


def test_a_pod_shows_where_it_would_go_and_every_check(tab: Tab) -> None:
    with serving(acting_board("on"), answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#pods/shop/cart-1")
        tab.await_("document.querySelector('#pod-body .checks')")
        said = tab.text("#view-pods")
        tab.go("#pods/shop/cart-2")
        tab.await_("document.querySelector('#pod-body').innerText.includes('is busy')")
        tab.go("#pods")
        tab.run(
            "const box = document.getElementById('pod-name'); box.value = 'cart'; box.dispatchEvent(new Event('input'))"
        )
        tab.await_("document.querySelector('#pod-names option')?.value === 'shop/cart-1'")
        tab.run("document.getElementById('pod-form').requestSubmit()")
        tab.await_("location.hash === '#pods/shop/cart-1'")
    assert "shop/cart-1 runs on node-0 and is counted there." in said
    assert "give all nodes the same score (old-snapshot)" in said
    assert "node-1 82 82 variation 0.2 node-0 (here) 31 31" in said
    assert "✘ may not be moved" in said
    assert "1 of 3 checks refuse: pdb." in said
    assert "refused pdb no disruption is left (allowed 0)" in said.replace("✘ refused", "refused")


def test_part_of_a_name_that_many_pods_have_lists_them(tab: Tab) -> None:
    board = acting_board("on")
    board.find_pods = lambda text: [FoundPod(f"shop/{text}-{number}", "node-0") for number in (1, 3)]
    with serving(board, answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#pods")
        tab.run(
            "document.getElementById('pod-name').value = 'cart'; document.getElementById('pod-form').requestSubmit()"
        )
        tab.await_("document.querySelectorAll('#pod-body li a').length === 2")
        tab.run("document.querySelector('#pod-body a').click()")
        tab.await_("document.querySelector('#pod-body .checks')")
        assert tab.run("location.hash") == "#pods/shop/cart-1"


def test_conditions_become_one_incident_with_its_cause_first(tab: Tab) -> None:
    board = board_of(snapshot([[0.5], [0.4]]))
    board.conditions = lambda: [
        {"type": "EvictionsHalted", "status": "True", "message": "too many nodes are silent"},
        {"type": "PublishingFrozen", "status": "True", "message": "more than 20 % are silent"},
        {"type": "NodesUnknown", "status": "True", "message": "unknown: a, b"},
        {"type": "TelemetryDegraded", "status": "True", "message": "Prometheus does not answer"},
        {"type": "FeedAvailable", "status": "False", "message": "site-a is silent"},
        {"type": "Active", "status": "True", "message": "all is well"},
        {"type": "Limited", "status": "False", "message": "never mind"},
        {"type": "Strange", "status": "True", "message": "something of tomorrow"},
    ]
    with serving(board, answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/")
        closed, runbook = tab.text("#incident"), tab.run("document.querySelector('#incident .do a').href")
        tab.run("document.querySelector('#incident details').open = true")
        incident, title = tab.text("#incident"), tab.run("document.title")
    assert closed.startswith("Queries for loads fail: Prometheus does not answer TelemetryDegraded What to do:")
    assert "ballast doctor --only prometheus-reachable,preset-data" in closed
    assert runbook.endswith("/docs/runbooks/TelemetryDegraded.md")
    for words in ("site-a is silent", "something of tomorrow", "unknown: a, b", "Nothing is evicted"):
        assert words in incident
    assert "all is well" not in incident
    assert "never mind" not in incident
    assert title == "● Trouble · Ballast"


def test_nothing_planned_yet_is_said_in_words(tab: Tab) -> None:
    with serving(board_of(snapshot([[0.5], [0.4]]))) as port:
        tab.open(f"http://127.0.0.1:{port}/#power")
        assert "No power policy is set." in tab.text("#view-power")
        tab.go("#plans")
        assert "The leader has made no plan yet." in tab.text("#view-plans")
        tab.go("#evictions")
        assert "no pod has been evicted" in tab.text("#view-evictions")
        assert "no room is reserved now" in tab.text("#view-evictions")


def test_a_daemon_that_knows_nothing_yet_and_one_that_is_gone(tab: Tab) -> None:
    with serving(Board(clock=FakeClock(TIME))) as port:
        tab.open(f"http://127.0.0.1:{port}/")
        assert "No data yet" in tab.text("#headline")
        assert "Nothing is known about any node" in tab.text("#tiles")
        assert "No node is known yet: the first cycle has not ended." in tab.text("#view-overview")
    tab.await_("document.querySelector('#incident').innerText.includes('No contact with Ballast')")


def test_ages_run_and_what_is_over_is_recovering(tab: Tab) -> None:
    begun = datetime.fromtimestamp(TIME - 2220, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    halted = {"type": "EvictionsHalted", "status": "True", "reason": "NodesSilent", "lastTransitionTime": begun}
    board = board_of(snapshot([[0.5], [0.4]]), frozen=True)
    board.clock = clock = FakeClock(TIME)
    board.leader = lambda: True
    board.conditions = lambda: [{**halted, "message": "too many nodes are silent"}]
    with serving(board, answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/")
        held = tab.text("#incident")
        assert re.search(r"since \d\d:\d\d, 37 min\): too many nodes are silent", held)
        clock.advance(180)
        tab.await_("document.querySelector('#incident').innerText.includes('40 min')")
        board.frozen = False
        tab.await_("document.querySelector('#incident').innerText.includes('(recovering, ')")
        over, word = tab.text("#incident"), tab.text("#word")
    assert "1 of 1 nodes are known again; evictions go on with their next cycle" in over
    assert "too many nodes are silent" not in over
    assert "What to do" not in over
    assert word == "All well"


def test_the_wall_is_for_a_screen(tab: Tab) -> None:
    share = (
        "(box => box.width * box.height / innerWidth / innerHeight)"
        "(document.querySelector('#overview-wall').getBoundingClientRect())"
    )
    loads = [[0.4 + 0.001 * (number % 300) for number in range(200)]] * 2
    with serving(board_of(snapshot(loads)), answers=ANSWERS) as port:
        tab.look(1920, 1080)
        tab.open(f"http://127.0.0.1:{port}/#wall")
        assert tab.run(share) >= 0.6
        assert tab.run("document.documentElement.scrollHeight") <= 1080
        assert tab.run("document.querySelector('nav').checkVisibility()") is False
        assert tab.text("#clock")
        dark = tab.run("getComputedStyle(document.body).backgroundColor")
        tab.run("document.activeElement.blur()")
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="w", text="w")
        tab.await_("location.hash === '#overview' && !document.body.classList.contains('wall')")
        assert tab.run("getComputedStyle(document.body).backgroundColor") != dark
    tab.look(1280)


def test_a_move_is_seen_on_the_wall(tab: Tab) -> None:
    tab.look(1280)
    board = acting_board("on")
    with serving(board, answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#overview")
        assert tab.run("document.querySelectorAll('.moves path').length") == 0, "what was before is no news"
        fresh = replace(board.evictions.recent[0], source="node-0", to="node-1", landed_on=None, time=TIME + 1)
        board.evictions = replace(board.evictions, recent=[replace(fresh, status="evicted")])
        tab.await_("document.querySelectorAll('.moves path').length === 1")
        assert tab.text("#doing") == "moving 1 pod off node-0"
