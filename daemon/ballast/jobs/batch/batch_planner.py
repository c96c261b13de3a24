"""Asks the planning process where the pods of a batch should go, by what the watches show now."""

from collections.abc import Callable, Iterable

from ballast.cluster.context import Context
from ballast.eviction.facts import ClusterObjects
from ballast.jobs.batch.held_pods import ReleasedPods, RoomHolder
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.placement.batch import BatchPlan, BatchRules
from ballast.placement.batch_balance import MeasuredLoad
from ballast.placement.reservations import Purpose, Reservation
from ballast.planning.from_settings import aims_of
from ballast.planning.moment import Moment, loads, watched_of
from ballast.planning.process import PlanningProcess
from ballast.planning.request import BatchRequest


class BatchPlanner:
    """In the thread of the job alone."""

    def __init__(
        self,
        context: Context,
        worker: PlanningProcess,
        rules: BatchRules,
        room: RoomHolder,
        snapshot: Callable[[], Snapshot | None],
    ) -> None:
        """`snapshot` answers the newest one while its load may be used."""
        self._context, self._rules, self._room, self._snapshot = context, rules, room, snapshot
        self.worker = worker

    def plan(self, uids: Iterable[str], released: ReleasedPods) -> BatchPlan:
        """Of these pods, beside those that are bound, `released`, or have room held for them. Raises WorkerError."""
        nodes = self._context.cache.nodes()
        pods = [pod for pod in self._context.cache.pods() if pod.uid not in released]
        held = [reservation for reservation in self._room.active() if reservation.purpose is not Purpose.BATCH]
        objects = ClusterObjects(
            nodes=nodes,
            pods=[*pods, *released.as_placed(), *map(_as_pod, held)],
            namespaces=self._context.workloads.namespaces(),
        )
        measured = self._measured([node.name for node in nodes])
        moment = Moment(self._context.clock.wall(), objects)
        return self.worker.ask(BatchRequest(moment, tuple(sorted(uids)), self._rules, measured)).plan

    def _measured(self, nodes: list[str]) -> MeasuredLoad | None:
        snapshot = self._snapshot()
        if snapshot is None:
            return None
        settings = self._context.settings
        resources = watched_of(snapshot, aims_of(settings), settings.scoring.resources)
        load, length = loads(snapshot, resources, nodes), settings.windows.lengths[0]
        return MeasuredLoad(resources, load, snapshot.time, length, settings.scoring.node_weights)


def _as_pod(reservation: Reservation) -> Pod:
    """What is held for others takes room like a pod."""
    name = f"reserved:{reservation.name}"
    return Pod("", name, uid=name, node=reservation.node, shape=reservation.shape, phase="Running")
