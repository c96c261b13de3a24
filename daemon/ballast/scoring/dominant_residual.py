"""dominant-residual: places a pod where the largest share in use stays low and typical pods to come still fit.

The criterion L and its source are in residual.py; less is better. By default lambda = 0.1, g the square root with C = 2
(the published `linear` saturates: C = 22), and the profiles are the distinct requests of the pods that are known. A
node where the pod does not fit scores 0. The others score 100 at the least L, falling by 99 over a spread of L of 1 or
more. Load plays no part, so no node is unknown.

Where a profile asks for devices, they are counted one by one (residual.py), lambda is 0 unless given, and profiles are
weighed by volume: by number, the many small pods would count the room of the few large ones for nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ballast.model.devices import PARTS, WHOLE
from ballast.model.load_limits import quantity
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring.demand import NOTHING, Units, units
from ballast.scoring.devices.columns import Columns
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import LARGEST_WEIGHT, StrategyKeys, to_number
from ballast.scoring.profiles import Profile, asked_by, observed
from ballast.scoring.requests_strategy import check_resource
from ballast.scoring.residual import NOWHERE, STEPS, Criterion, fits, steps
from ballast.scoring.scores import Scores

NAME = "dominant-residual"
LAMBDA = 0.1
C = {"linear": 22.0, "sqrt": 2.0}
SPAN = 99
HOUR = 3600.0
DEVICES_SCARCITY = 0.3
"""The least scarcity where a profile asks for devices: they are the room that runs out first."""
COUNT, VOLUME = "count", "volume"


@dataclass(frozen=True)
class DominantResidual:
    """Without `profiles` they are observed, without `resources` all count that a node has or a pod asks for.

    `whole` are the resources that count whole devices, None where devices are shares of a sum like any other resource.
    `weigh_by` is None where profiles are weighed by volume if one of them asks for devices; then lambda is 0, unless it
    was `given`.
    """

    needs_load: ClassVar[bool] = False
    needs_pods: ClassVar[bool] = True
    needs_pod: ClassVar[bool] = True
    warms: ClassVar[bool] = False

    lambda_: float = LAMBDA
    c: float = C["sqrt"]
    root: bool = True
    profiles: tuple[Profile, ...] = ()
    resources: tuple[str, ...] = ()
    weigh_by: str | None = None
    whole: tuple[str, ...] | None = WHOLE
    given: bool = False

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """`raw` is L; `terms` are max(rho) and the fall of H. NaN where the pod does not fit."""
        requests = {name: amount for name, amount in (asked_by(pod) if pod else NOTHING.reserved).items() if amount}
        requests.pop("pods", None)
        if not fleet.resources.union(PARTS).issuperset(requests):
            return _nowhere(len(fleet.nodes))
        profiles = self._profiles(fleet, requests)
        names = self.resources or self._all_resources(fleet, requests, profiles)
        columns = self.columns(names, fleet)
        whole, free = columns.matrices(fleet)
        request = columns.vector(requests)
        criterion = self.criterion(profiles, columns, whole)
        _, room = criterion.after(free, request)
        room = room & self._others_fit(fleet, requests, names)
        losses, dominant, loss = criterion.losses(whole, free, request, criterion.fitness(np.maximum(free, 0.0)))
        exact = exact_scores(steps(np.where(room, losses, 0.0)), room)
        return Scores(
            exact=exact,
            raw=np.where(room, losses, np.nan),
            unknown=np.zeros(len(exact), bool),
            terms={"dominant": np.where(room, dominant, np.nan), "loss": np.where(room, loss, np.nan)},
        )

    def scarcity(self, fleet: Fleet) -> float:
        """The chance that as many pods as were created in the last hour would not all find room (`residual.py`)."""
        profiles, criterion, free = self._room(fleet)
        arrivals = sum(not pod.finished and pod.created > fleet.time - HOUR for pod in fleet.pods)
        return criterion.scarcity(free, shares_of(profiles), arrivals)

    def for_devices(self, fleet: Fleet) -> bool:
        """Whether some profile asks for devices."""
        return self._room(fleet)[1].for_devices

    def _room(self, fleet: Fleet) -> tuple[Sequence[Profile], Criterion, Floats]:
        """The profiles, the criterion over them, and what is free."""
        profiles = self._profiles(fleet, {})
        columns = self.columns(self.resources or self._all_resources(fleet, {}, profiles), fleet)
        whole, free = columns.matrices(fleet)
        return profiles, self.criterion(profiles, columns, whole), free

    def columns(self, names: Sequence[str], fleet: Fleet) -> Columns:
        """The columns of amounts for these resources, PARTS of devices aside."""
        plain = tuple(name for name in names if name not in PARTS)
        return Columns(plain, self.whole or (), fleet.devices.most, apart=self.whole is not None)

    def criterion(self, profiles: Sequence[Profile], columns: Columns, whole: Floats) -> Criterion:
        """The criterion over these columns; `whole` is what the nodes have, [node, column]."""
        amounts = np.array([columns.vector(profile.requests) for profile in profiles]).reshape(len(profiles), -1)
        counts = np.array([profile.weight for profile in profiles], float)
        devices = self.whole is not None and bool((amounts[:, columns.of_devices] > 0).any())
        weights = counts
        if self.weigh_by == VOLUME or (self.weigh_by is None and devices):
            weights = counts * volumes(amounts[:, : columns.plain], whole[:, : columns.plain], columns.of_devices)
        weights = weights if weights.any() else counts
        return Criterion(
            amounts,
            weights / weights.sum(),
            self.lambda_ if self.given or not devices else 0.0,
            self.c,
            self.root,
            columns.pieces,
            columns.slots,
            DEVICES_SCARCITY if devices else 0.0,
        )

    def _profiles(self, fleet: Fleet, asked: Units) -> tuple[Profile, ...]:
        if self.profiles:
            return self.profiles
        return fleet.once((NAME, "observed"), lambda: observed(fleet.pods)) or (Profile(asked, 1.0),)

    def _all_resources(self, fleet: Fleet, asked: Units, profiles: Sequence[Profile]) -> tuple[str, ...]:
        asked_by_profiles = fleet.resources.union(asked, *(profile.requests for profile in profiles))
        return tuple(sorted(asked_by_profiles - {"pods"}))

    def _others_fit(self, fleet: Fleet, asked: Units, names: Sequence[str]) -> Bools:
        """A resource that is left out of the criterion still has to be there."""
        others = tuple(name for name in asked if name not in names and name not in PARTS)
        _, free = Columns(others).matrices(fleet)
        return fits(free, np.array([asked[name] for name in others], float))


def _nowhere(nodes: int) -> Scores:
    """For a pod that asks for something that no node has."""
    unfit = np.full(nodes, np.nan)
    return Scores(np.zeros(nodes), unfit, np.zeros(nodes, bool), {"dominant": unfit, "loss": unfit})


def shares_of(profiles: Sequence[Profile]) -> Floats:
    """[profile]: the weights, as parts of 1."""
    weights = np.array([profile.weight for profile in profiles], float)
    return np.asarray(weights / weights.sum())


def volumes(amounts: Floats, whole: Floats, of_devices: Ints) -> Floats:
    """[profile]: the largest share that a profile [profile, resource] asks for of what all nodes [node, resource] have.

    Where a profile asks for devices, its share of those alone counts.
    """
    total = whole.sum(axis=0)
    shares = np.divide(amounts, total, out=np.zeros(amounts.shape), where=total > 0)
    columns = of_devices[of_devices < shares.shape[1]]
    devices = shares[:, columns].max(axis=1, initial=0.0)
    return np.asarray(np.where(devices > 0, devices, shares.max(axis=1, initial=0.0)))


def exact_scores(values: Ints, room: Bools) -> Floats:
    """100 at the least L (in steps) among the nodes with room, 0 without room."""
    if not room.any():
        return np.zeros(len(values))
    everywhere = bool(room.all())
    least = (values if everywhere else np.where(room, values, NOWHERE)).min()
    most = (values if everywhere else np.where(room, values, -NOWHERE)).max()
    exact = 100 - SPAN * ((values - least) / max(STEPS, float(most - least)))
    return exact if everywhere else np.where(room, exact, 0.0)


def parse(given: Mapping[str, object]) -> DominantResidual:
    """The strategy with its keys. Raises UsageError."""
    keys = StrategyKeys(NAME, given)
    asked_for = given.get("lambda") is not None
    lambda_ = keys.number("lambda", LAMBDA, 0.0, 1.0)
    g = keys.choice("g", "sqrt", C)
    c = keys.number("c", C[g], 1.0)
    profiles = _parse_profiles(keys)
    resources = _parse_resources(keys)
    weigh_by = keys.take("weigh_by")
    if weigh_by is not None and weigh_by not in (COUNT, VOLUME):
        raise keys.error("weigh_by", weigh_by, f"choose one of {COUNT}, {VOLUME}")
    whole = _parse_devices(keys)
    keys.finish()
    return DominantResidual(
        lambda_, c, g == "sqrt", profiles, resources, None if weigh_by is None else str(weigh_by), whole, asked_for
    )


def _parse_profiles(keys: StrategyKeys) -> tuple[Profile, ...]:
    value = keys.take("profiles")
    if value is None:
        return ()
    allowed = 'give [{"requests": {"cpu": "500m", …}, "weight": 0.5}, …] with weights above 0'
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise keys.error("profiles", value, allowed)
    profiles = []
    for entry in value:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("requests"), Mapping):
            raise keys.error("profiles", value, allowed)
        weight = to_number(entry.get("weight", 1.0))
        try:
            amounts = {str(name): quantity(amount) for name, amount in entry["requests"].items()}
        except (ValueError, TypeError) as error:
            raise keys.error("profiles", value, f"{error}") from None
        if weight is None or not 0 < weight <= LARGEST_WEIGHT or any(amount < 0 for amount in amounts.values()):
            raise keys.error("profiles", value, allowed)
        amounts.pop("pods", None)
        profiles.append(Profile({name: units(name, amount) for name, amount in amounts.items()}, weight))
    return tuple(profiles)


def _parse_devices(keys: StrategyKeys) -> tuple[str, ...] | None:
    value = keys.take("devices")
    if value is None or value is True or value == "true":
        return WHOLE
    if value is False or value == "false":
        return None
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) and "/" in name for name in names):
        raise keys.error(
            "devices", value, "give true, false, or names of further devices such as example.com/accelerator"
        )
    for name in names:
        check_resource(keys, name)
    return tuple(dict.fromkeys((*WHOLE, *names)))


def _parse_resources(keys: StrategyKeys) -> tuple[str, ...]:
    value = keys.take("resources")
    if value is None:
        return ()
    names = value.split(",") if isinstance(value, str) else value
    if isinstance(names, Mapping) and all(to_number(weight) == 1 for weight in names.values()):
        names = list(names)
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise keys.error("resources", value, 'give a list of names such as ["cpu", "memory", "ephemeral-storage"]')
    for name in names:
        check_resource(keys, name)
    return tuple(dict.fromkeys(names))
