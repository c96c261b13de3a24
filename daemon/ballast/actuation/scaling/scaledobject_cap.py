"""KEDA carries `maxReplicaCount` of a ScaledObject into the HorizontalPodAutoscaler it owns, and undoes any edit there.

Annotations of the ScaledObject are copied to that HorizontalPodAutoscaler, Ballast's too (controllers/keda/hpa.go).
"""

from __future__ import annotations

from ballast.actuation.scaling.cap import Form, reading
from ballast.cluster.workloads import WireScaledObject, to_scaled_object
from ballast.model.workload import Autoscaler

SCALED_OBJECT = Form(
    "keda.sh/v1alpha1", "scaledobjects", "maxReplicaCount", reading(WireScaledObject, to_scaled_object)
)
_PAUSED = "autoscaling.keda.sh/paused"
_PAUSED_AT = "autoscaling.keda.sh/paused-replicas"


def paused(scaled_object: Autoscaler) -> str | None:
    """Why a cap would do nothing now, or None: while it is paused there is no autoscaler."""
    for key in (_PAUSED, _PAUSED_AT):
        value = scaled_object.annotations.get(key)
        if value is not None and (key == _PAUSED_AT or value != "false"):
            return f'ScaledObject {scaled_object.own_name} is paused ({key}: "{value}")'
    return None
