"""The label on Ballast's own pod by which the Service `ballast-extender` finds the leader."""

from __future__ import annotations

import threading

import structlog

from ballast.clock import Clock
from ballast.cluster.threads import going
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteTarget, object_path
from ballast.cluster.writer import Writer

LABEL = "ballast.dev/role"
STOP_PATIENCE = 2.0
_RETRY = 5.0
_log = structlog.get_logger("cluster")


class RoleLabel:
    """Labels this pod `ballast.dev/role: leader` exactly while `leading`; from a thread of its own.

    Without a pod (POD_NAME, POD_NAMESPACE), or when the pod is gone or patching it is forbidden, it logs that once.
    """

    def __init__(self, writer: Writer, clock: Clock, *, pod: str | None, namespace: str | None) -> None:
        self._writer = writer
        self._clock = clock
        self._pod = pod
        self._namespace = namespace
        self._wanted: bool = False
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="role", daemon=True)

    def start(self) -> None:
        """Begins without the label: a container that died as leader left it behind."""
        if not self._pod or not self._namespace:
            self._warn("POD_NAME and POD_NAMESPACE are not set")
            return
        self._changed.set()
        self._thread.start()

    def stop(self) -> None:
        """Removes the label, waiting STOP_PATIENCE for it. Call it before the writer stops."""
        self._wanted = False
        self._stop.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(STOP_PATIENCE)

    @property
    def alive(self) -> bool:
        """Whether the labelling thread still runs."""
        return going(self._thread, self._stop)

    def leading(self, leads: bool) -> None:
        """Whether the pod should carry the label from now on."""
        self._wanted = leads
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            stopping = self._stop.is_set()
            try:
                labelled = self._label(self._wanted)
            except Exception:
                _log.exception("labelling this pod failed unexpectedly; trying again")
                labelled = False
            if not labelled and not stopping:
                self._clock.wait(self._stop, _RETRY)
                self._changed.set()
            if stopping:
                return

    def _label(self, leads: bool) -> bool:
        """Whether there is nothing left to try."""
        assert self._pod
        assert self._namespace
        outcome = self._writer.submit(
            Write(
                kind="role",
                part=None,
                method="PATCH",
                path=object_path(f"/api/v1/namespaces/{self._namespace}/pods", self._pod),
                target=WriteTarget("Pod", self._pod, self._namespace),
                reason="this replica leads" if leads else "this replica does not lead",
                body={"metadata": {"labels": {LABEL: "leader" if leads else None}}},
                content_type=MERGE_PATCH,
                leader_only=False,
                timeout=STOP_PATIENCE if self._stop.is_set() else None,
            )
        )
        if outcome.status in (403, 404):
            self._warn(outcome.reason)
            return True
        return outcome.result is Result.DONE

    def _warn(self, why: str) -> None:
        if not self._warned:
            _log.warning("this pod is not labelled as leader, so the extender's Service has no endpoint", why=why)
        self._warned = True
