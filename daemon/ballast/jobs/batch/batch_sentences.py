"""The batch job in words."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ballast.jobs.batch.held_pods import ReleaseResult
from ballast.model.pod import Pod
from ballast.placement.batch import BatchStep

NOT_STEERED = (
    "pods were bound to other nodes than planned: their scheduler does not ask the extender, or weighs other scores "
    "more. See docs/pairing.md; without the extender a batch decides only the order."
)


def held_up(pods: Sequence[Pod], why: str, gate: str) -> str | None:
    """For the condition; None where no pod has waited for long."""
    if not pods:
        return None
    return (
        f"{counted(len(pods))} with the gate {gate}, {pods[0].namespace}/{pods[0].name} first: {why}, so nobody "
        "removes it. `ballast release batch` does."
    )


def landed(settled: Counter[ReleaseResult]) -> str:
    """ "3 bound as planned, 1 elsewhere", empty for none."""
    words = {
        ReleaseResult.PLANNED: "bound as planned",
        ReleaseResult.ELSEWHERE: "bound elsewhere",
        ReleaseResult.REFUSED: "that the scheduler has no node for",
        ReleaseResult.LATE: "that the scheduler takes long for",
        ReleaseResult.GONE: "gone",
    }
    return ", ".join(f"{settled[result]:,} {word}" for result, word in words.items() if settled[result])


def released(count: int, left: int, misfits: int, settled: Counter[ReleaseResult]) -> str:
    """What a cycle did."""
    parts = [f"released {counted(count)}", landed(settled)]
    if left:
        parts.append(f"{left:,} to go")
    if misfits:
        parts.append(f"{misfits:,} without room are released last")
    return ", ".join(part for part in parts if part)


def would_release(steps: Sequence[BatchStep], misfits: Mapping[str, str]) -> str:
    """A dry run."""
    first = f", {steps[0].pod} to {steps[0].node} first" if steps else ""
    rest = f"; {len(misfits):,} have no room" if misfits else ""
    return f"would release {counted(len(steps))}{first}{rest}"


def gave_up(done: int, count: int, why: str, failed: str | None) -> str:
    """All gates are removed."""
    rest = "" if failed is None else f"; {count - done:,} could not be removed: {failed}"
    return f"removed {done:,} of {count:,} gates without a plan: {why}{rest}"


def counted(count: int) -> str:
    """ "1 pod", "2 pods"."""
    return f"{count:,} pod" if count == 1 else f"{count:,} pods"
