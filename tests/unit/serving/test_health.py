from ballast.serving.board import Board, Check, DaemonAnswers
from tests.unit.serving.client import ask
from tests.worlds.board import board_of, serving, snapshot

NAN = float("nan")


def test_each_path_asks_its_own_checks() -> None:
    checks = [Check("caches", True), Check("cycle", False)]
    with serving(Board(), answers=DaemonAnswers(alive=lambda: [Check("loops", True)], ready=lambda: checks)) as port:
        live, ready = ask(port, "/livez"), ask(port, "/readyz")
    assert (live.status, live.body) == (200, b"ok\n")
    assert (ready.status, ready.body) == (503, b"failing: cycle\n")


def test_verbose_lists_checks_freshness_and_conditions() -> None:
    board = board_of(snapshot([[0.1, NAN], [0.2, NAN]]), frozen=True)
    answers = DaemonAnswers(ready=lambda: [Check("caches", True, "2 nodes"), Check("cycle", False)])
    board.conditions = lambda: [{"type": "Frozen", "status": "True", "reason": "Silent", "message": "1 of 2 nodes"}]
    with serving(board, answers=answers) as port:
        answer = ask(port, "/readyz?verbose")
    assert answer.status == 503
    assert answer.body.decode().splitlines() == [
        "[+] caches: 2 nodes",
        "[-] cycle: failed",
        "data: 15 s old, 1 of 2 nodes known, frozen: too much of the cluster is silent",
        "data cpu: known on 1 nodes, samples 27 to 27 s old, from prometheus",
        "data memory: known on 1 nodes, samples 27 to 27 s old, from prometheus",
        "condition Frozen: True Silent 1 of 2 nodes",
        "readyz failed",
    ]


def test_stale_data_and_no_data_leave_it_ready_but_are_said() -> None:
    with serving(Board(), answers=DaemonAnswers(ready=lambda: [Check("cycle", True, "ended")])) as port:
        answer = ask(port, "/readyz?verbose")
    assert answer.status == 200
    assert b"data: none yet\n" in answer.body
