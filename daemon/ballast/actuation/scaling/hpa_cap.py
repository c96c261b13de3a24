"""A HorizontalPodAutoscaler obeys a lowered `maxReplicas` at its next sync, whatever its metrics say."""

from __future__ import annotations

from ballast.actuation.scaling.cap import Form, reading
from ballast.cluster.workloads import WireAutoscaler, to_autoscaler

HPA = Form("autoscaling/v2", "horizontalpodautoscalers", "maxReplicas", reading(WireAutoscaler, to_autoscaler))
