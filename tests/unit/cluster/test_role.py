from __future__ import annotations

import threading
from typing import Any

from structlog.testing import capture_logs

from ballast.clock import SystemClock
from ballast.cluster.role import LABEL, RoleLabel
from ballast.errors import Forbidden
from tests.unit.cluster.fake_api import FakeApi
from tests.unit.cluster.test_writer import Rig

POD = "/api/v1/namespaces/ns/pods/me"


class Pod:
    """The own pod on a fake API; every change of it can be waited for."""

    def __init__(self, labels: dict[str, str] | None = None, *, exists: bool = True) -> None:
        pod = {"metadata": {"name": "me", "labels": labels or {}}}
        self.rig = Rig(FakeApi({POD: pod} if exists else {}))
        self.rig.leads = False
        self.changed = threading.Semaphore(0)
        self.rig.api.after = lambda *_: self.changed.release()
        self.role = RoleLabel(self.rig.writer, SystemClock(), pod="me", namespace="ns")

    @property
    def labels(self) -> Any:
        return self.rig.api.objects[POD]["metadata"]["labels"]

    def wait(self) -> None:
        assert self.changed.acquire(timeout=5)


def test_the_label_follows_leadership_and_goes_on_stop() -> None:
    pod = Pod({"app": "ballast", LABEL: "leader"})
    pod.role.start()
    pod.wait()
    assert pod.labels == {"app": "ballast"}
    pod.role.leading(True)
    pod.wait()
    assert pod.labels == {"app": "ballast", LABEL: "leader"}
    pod.role.stop()
    assert pod.labels == {"app": "ballast"}


def test_the_last_removal_waits_but_a_moment_for_the_answer() -> None:
    pod, waits, send = Pod(), [], FakeApi.request

    def request(*path: Any, timeout: float | None = None, **more: Any) -> bytes:
        waits.append(timeout)
        return send(pod.rig.api, *path, timeout=timeout, **more)

    pod.rig.api.request = request  # type: ignore[method-assign,assignment]
    pod.role.start()
    pod.wait()
    pod.role.stop()
    assert waits == [None, 2.0]


def test_without_a_pod_it_warns_once_and_does_nothing() -> None:
    rig = Rig(FakeApi())
    role = RoleLabel(rig.writer, SystemClock(), pod=None, namespace="ns")
    with capture_logs() as lines:
        role.start()
        role.leading(True)
        role.stop()
    assert [line["log_level"] for line in lines] == ["warning"]
    assert rig.api.requests == []


def test_a_missing_pod_or_right_is_one_warning() -> None:
    for exists in (False, True):
        pod = Pod(exists=exists)
        if exists:

            def refuse(*_: object) -> None:
                raise Forbidden("Ballast needs verb `patch` on `pods`", status=403)

            pod.rig.api.before = refuse
        with capture_logs() as lines:
            pod.role.start()
            pod.role.leading(True)
            pod.role.stop()
        warnings = [line for line in lines if line["log_level"] == "warning"]
        assert len(warnings) == 1


def test_a_defect_is_told_and_the_label_is_tried_again() -> None:
    class Impatient(SystemClock):
        def wait(self, event: threading.Event, timeout: float | None) -> bool:
            return event.is_set()

    pod = Pod({LABEL: "leader"})
    errors = iter([KeyError("x")])

    def before(*_: object) -> None:
        for error in errors:
            raise error

    pod.rig.api.before = before
    role = RoleLabel(pod.rig.writer, Impatient(), pod="me", namespace="ns")
    with capture_logs() as lines:
        role.start()
        pod.wait()
        assert role.alive
        role.stop()
    assert pod.labels == {}
    assert [line["log_level"] for line in lines if "exc_info" in line] == ["error"]
