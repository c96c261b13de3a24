"""The documents of power, plans and evictions are byte for byte the recorded ones."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from ballast.actuation.eviction.eviction_events import document
from ballast.actuation.eviction.evictor import Attempt
from ballast.actuation.eviction.records import Running, StepRecord, StepStatus
from ballast.actuation.scaling.target_status import Actuator, TargetStatus
from ballast.answers.api import Power
from ballast.answers.evictions import Measured
from ballast.jobs.eviction.executor import plan_document
from ballast.jobs.power.policy_document import PolicyHistory, TargetRows, policy_document
from ballast.jobs.power.tick_report import Action, Inputs, Outcome, TickContext, TickDecision, TickReport
from ballast.model.shape import Shape
from ballast.placement.reservations import Purpose, Reservation
from ballast.planners.eviction_plan import EvictionPlan, Move, Refusal
from ballast.power.controller_state import ChangeWindow, ControllerMode, ControllerState
from ballast.power.feed_spec import ScheduleRow
from ballast.power.learned_watts import Learned
from ballast.power.sections import Need
from ballast.serving import activity
from ballast.settings import Mode
from ballast.telemetry.feeds.budget_feed import Watts
from tests.worlds.power import policy

RECORDED = Path(__file__).parent / "recorded"
TIME = 1_700_000_000.0
NAN = float("nan")


def power_answer() -> bytes:
    one = policy(independents=[{"ref": "ns/a", "min": 1, "max": 9}, {"ref": "ns/b", "max": 4}])
    statuses = {
        "ns/a": TargetStatus(name="ns/a", kind="deployments.apps", actuator=Actuator.HPA_CAP, count=4, original=12),
        "ns/b": TargetStatus(name="ns/b", kind="deployments.apps", actuator=Actuator.SCALE, count=2, excluded="no"),
    }
    state = ControllerState(
        mode=ControllerMode.PENDING_INCREASE,
        reference=Fraction(400),
        window=ChangeWindow(Fraction(40), Fraction(500), Fraction(490), Fraction(510)),
    )
    views = [
        TickReport(Inputs(one, TickContext(Fraction(60), TIME), Watts(None, None, "silent", "silent"))),
        TickReport(
            Inputs(
                one,
                TickContext(Fraction(90), TIME + 30),
                Watts(
                    Fraction(500),
                    TIME + 29,
                    bound=Fraction(600),
                    ahead=(ScheduleRow(Fraction(TIME + 60), Fraction(450)),),
                ),
                statuses=statuses,
                needs={"ns/a": Need(2, None)},
                learned=Learned({"ns/a": (99.5, 1.25), "ns/b": (50.0, 0.5)}, (10.0, 1.0)),
            ),
            TickDecision("ScaledUp", unmet=-2),
            Outcome(
                state, {"ns/a": 5}, Action(TIME + 30, "ScaledUp", {"ns/a": 4}, {"ns/a": 5}, "done"), load=Fraction(520)
            ),
        ),
    ]
    documents = []
    for shadow in (False, True):
        history, rows = PolicyHistory(), TargetRows(shadow=shadow)
        for view in views:
            history.add(view)
            documents.append(policy_document(view, history, "available", rows, shadow=shadow))
    return activity.power(Power("on", None, documents, ()), "off", [{"type": "Active", "status": "True"}])


def plans_answer() -> bytes:
    moves = (
        Move("shop/a", "n0", "n1", 1.0, "n0 is hot", gain_error=0.5, cost=0.25),
        Move("shop/b", "n0", None, 2.0, "too"),
    )
    refusals = (Refusal("shop/c", "pdb", "no disruption is allowed"),)
    attempts = [Attempt("shop/a", "evicted"), Attempt("shop/b", "refused", "it changed", "min-age")]
    plans = [
        EvictionPlan("relieve", moves, {"cpu": 0.5, "memory": NAN}, {"cpu": 0.25}, {"pdb": 1}, (), refusals),
        EvictionPlan("redistribute", moves[:1], {}, {}, {}, ("batch/one",)),
        EvictionPlan("consolidate", (), {}, {}, {}, (), empty=("n7",)),
    ]
    return activity.plans(
        plan_document(plan, attempts[: len(plan.steps)], "a sentence", number=number, now=TIME, mode=Mode.ON)
        for number, plan in enumerate(plans)
    )


def evictions_answer() -> bytes:
    load = {"n0": {"cpu": -0.25}, "n1": {"cpu": 0.25}}
    workload = ("shop", "Deployment", "web")
    open_step = StepRecord("shop/a", "u1", "n0", TIME, "n1", workload, gain=0.125, reason="hot", load=load)
    landed = msgspec.structs.replace(open_step, uid="u2", time=TIME + 1, status=StepStatus.LANDED, landed_on="n1")
    ready = msgspec.structs.replace(landed, uid="u3", time=TIME + 2, status=StepStatus.READY, ready_at=TIME + 9)
    starts = StepRecord(
        "shop/d", "u4", "n2", TIME - 1, gain=2, starts=("u8", "u9"), status=StepStatus.FAILED, why="gone"
    )
    plan = Running("relieve-1", "relieve", TIME, {"cpu": 0.5}, {"cpu": 0.25}, load, {}, (open_step, landed))
    measured = Measured(load={**load, "n9": {"cpu": 1.0}}, before={"cpu": 0.5}, after={"cpu": 0.3}, share=None)
    ended = [(plan, ready, measured), (plan, starts, Measured(started=0, share=0.0))]
    held = [
        Reservation("r", "n1", Purpose.REPLACEMENT, "shop/a", "owner", Shape({"cpu": 0.5, "memory": 64.0}), TIME + 60),
        Reservation("q", "n0", Purpose.WAITING, "shop/z", "u7", Shape(), TIME + 90),
    ]
    found = document([plan], ended, held, {"total": "5", "rate": ["20/1h"]}, "too many nodes are not Ready")
    return activity.evictions(found, "dry-run")


@pytest.mark.parametrize(
    ("name", "answer"), [("power", power_answer), ("plans", plans_answer), ("evictions", evictions_answer)]
)
def test_an_answer_is_the_recorded_one(name: str, answer: Callable[[], bytes]) -> None:
    assert answer() == (RECORDED / f"{name}.json").read_bytes().rstrip(b"\n")
