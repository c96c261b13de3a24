"""How long replicas start, as the daemon sees it, and the window that follows from it."""

from dataclasses import replace
from fractions import Fraction

from ballast.actuation.scaling.target_status import Actuator, TargetStatus
from ballast.jobs.power.metering import StartTimes
from ballast.model.workload import Workload
from ballast.power.waiting import START
from tests.worlds.power import policy
from tests.worlds.power_run import PowerRun


def status(wanted: int, ready: int) -> TargetStatus:
    workload = Workload("apps/v1", "Deployment", "ns", "one", replicas=wanted, ready=ready)
    return TargetStatus(
        name="ns/one", kind="Deployment", actuator=Actuator.SCALE, count=wanted, replicas=wanted, workload=workload
    )


def test_a_rise_is_timed_until_as_many_are_ready() -> None:
    times = StartTimes()
    for at, wanted, ready in ((0, 5, 5), (15, 9, 5), (30, 9, 7), (105, 9, 9), (120, 9, 9)):
        times.see(Fraction(at), {"ns/one": status(wanted, ready)})
    assert times.seconds == 90


def test_a_rise_that_is_taken_back_tells_nothing() -> None:
    times = StartTimes()
    for at, wanted, ready in ((0, 5, 5), (15, 9, 5), (30, 5, 5), (45, 5, 5)):
        times.see(Fraction(at), {"ns/one": status(wanted, ready)})
    times.see(Fraction(60), {"ns/one": replace(status(5, 5), workload=None)})
    assert times.seconds == START


def test_the_daemon_learns_the_window_and_shows_the_price() -> None:
    members = [{"ref": "ns/t0", "min": 0, "max": 40, "wattsPerReplica": 10, "replicas": 10}]
    one = PowerRun(policy(independents=members, increase="auto", decrease={}))
    one.run([100.0] * 60 + [200.0] * 60 + [300.0] * 60)
    assert [price.window for price in one.last.inputs.prices if price.chosen] == [0]
    assert one.last.policy.increase.window == 0
