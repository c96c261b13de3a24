"""The page in a browser where little is as usual: no contact, other languages, high contrast, the longest names."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from ballast_lab.harness.browser import CHROMIUM, Tab, browser
from tests.unit.serving.test_page_in_a_browser import ANSWERS, AXE, FINDINGS, NAN, OUTSIDE, acting_board
from tests.worlds.board import TIME, board_of, serving, snapshot

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        found.look(1280)
        yield found


def test_without_contact_nothing_is_told_as_if_it_were_now(tab: Tab) -> None:
    board = acting_board("on")
    with serving(board, answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#wall")
        assert tab.text("#word") == "2 hot"
    tab.await_("document.querySelector('#word').innerText === 'No contact'")
    assert tab.run("document.getElementById('word').dataset.kind") == "bad"
    assert tab.text("#doing") == ""
    said = tab.run("globalThis.box = document.querySelector('#incident .banner'), box.innerText")
    tab.await_(f"document.querySelector('#incident').innerText !== {json.dumps(said)}")
    assert tab.run("box.isConnected"), "ages run; a reader of screens is not told each time"


@pytest.mark.parametrize(
    "fault",
    ["AbortSignal.timeout = () => AbortSignal.abort()", "fetch = async () => new Response('<html>', { status: 502 })"],
    ids=["no answer in time", "a proxy answers"],
)
def test_where_ballast_does_not_answer_there_is_no_contact(tab: Tab, fault: str) -> None:
    with serving(acting_board("on"), answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#overview")
        tab.run(f"{fault}; true")
        tab.await_("document.querySelector('#word').innerText === 'No contact'")


def test_times_are_the_same_in_every_language(tab: Tab) -> None:
    morning = datetime(2026, 3, 5, 9, 3, tzinfo=UTC)
    tab.call("Emulation.setTimezoneOverride", timezoneId="UTC")
    tab.call("Emulation.setLocaleOverride", locale="es")
    try:
        with serving(acting_board("on"), answers=ANSWERS) as port:
            tab.open(f"http://127.0.0.1:{port}/#overview")
            common = "import('/page/common.js').then(({{ clock }}) => clock({}))"
            assert tab.run(common.format(morning.timestamp())) == "09:03:00"
            assert tab.run(common.format(morning.replace(hour=0).timestamp())) == "00:03:00"
    finally:
        tab.call("Emulation.setTimezoneOverride", timezoneId="")
        tab.call("Emulation.setLocaleOverride")


def test_bars_and_keys_keep_their_colours_in_high_contrast(tab: Tab) -> None:
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    with serving(acting_board("on"), answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#overview")
        colours = tab.run(
            "[...document.querySelectorAll('.key.calm, .key.hot, .key.over, #obstacles .soft-fill')]"
            ".map(each => getComputedStyle(each).backgroundColor)"
        )
    tab.look(1280)
    assert len(set(colours)) == 4


@pytest.mark.parametrize("width", [1280, 390])
def test_the_longest_names_fit(tab: Tab, width: int) -> None:
    tab.look(width)
    names = [f"{number}{'.'.join(['a' * 60] * 4)}"[:253] for number in range(4)]
    board = acting_board("on", steps=3, evictions=3, targets=3)
    rendered = board_of(snapshot([[0.5, 0.83, 0.95, NAN], [0.4, 0.3, 0.2, NAN]], names=names))
    board.snapshot, board.rendered, board.scores = rendered.snapshot, rendered.rendered, rendered.scores
    moved = {"pod": f"shop/{names[0]}", "source": names[1], "to": names[2]}
    recent = [replace(each, **moved) for each in board.evictions.recent]
    recent[0] = replace(recent[0], status="evicted", landed_on=None, time=TIME)
    board.evictions = replace(board.evictions, recent=recent)
    board.plans = [replace(each, steps=[replace(step, **moved) for step in each.steps]) for each in board.plans]
    with serving(board, answers=ANSWERS) as port:
        for view in ("overview", "wall", "nodes", f"nodes/{names[2]}", "plans", "plans/plan-2", "evictions"):
            tab.open(f"http://127.0.0.1:{port}/#{view}")
            assert tab.run(OUTSIDE) == [], view
            assert tab.run("document.documentElement.scrollWidth") <= width, view


def test_an_address_that_nobody_wrote_opens(tab: Tab) -> None:
    with serving(acting_board("on"), answers=ANSWERS) as port:
        tab.open(f"http://127.0.0.1:{port}/#nodes/100%")
        assert tab.text("#word") == "2 hot"


@pytest.mark.parametrize("loads", [[[], []], [[0.5], [0.4]]], ids=["no node", "one node"])
def test_a_daemon_that_has_done_nothing_has_no_findings(tab: Tab, loads: list[list[float]]) -> None:
    with serving(board_of(snapshot(loads)), answers=ANSWERS) as port:
        for view in ("overview", "wall"):
            tab.open(f"http://127.0.0.1:{port}/#{view}")
            tab.run(AXE.read_text(encoding="utf-8") + ";true")
            assert json.loads(tab.run(FINDINGS)) == [], view


def test_in_dry_run_nobody_is_at_the_hot_nodes(tab: Tab) -> None:
    said = {}
    for mode in ("on", "dry-run"):
        with serving(acting_board(mode), answers=ANSWERS) as port:
            tab.open(f"http://127.0.0.1:{port}/#overview")
            said[mode] = tab.text("#tiles")
    assert "2 nodes hot: Ballast is at it." in said["on"]
    assert "2 nodes hot, and evictions are in dry-run." in said["dry-run"]
