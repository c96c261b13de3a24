"""Marks of pods: of those that run to an end, of those that live and die together, and of single ones."""

JOB_KINDS = frozenset({"CronJob", "Workflow", "TaskRun", "PipelineRun", "AppWrapper"})
"""Kinds of owners whose pods run to an end, beside every kind whose name ends in Job."""

GANG_KINDS = frozenset(
    {
        "PodGroup",
        "PodCliqueSet",
        "LeaderWorkerSet",
        "RayCluster",
        "RayService",
        "SparkApplication",
        "DaskCluster",
        "MPIJob",
        "JobSet",
        "Workflow",
        "Pod",
    }
)
"""Kinds of owners whose pods are started together; a pod that owns pods is the driver of Spark."""

GANG_LABELS = frozenset(
    {
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
        "pod-group.scheduling.sigs.k8s.io/name",
        "volcano.sh/job-name",
        "kueue.x-k8s.io/pod-group-name",
        "leaderworkerset.sigs.k8s.io/name",
        "jobset.sigs.k8s.io/jobset-name",
        "ray.io/cluster",
        "spark-role",
        "sparkoperator.k8s.io/app-name",
        "workflows.argoproj.io/workflow",
        "training.kubeflow.org/job-name",
        "dask.org/cluster-name",
        "grove.io/podgang",
    }
)
GANG_ANNOTATIONS = frozenset(
    {
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
        "pod-group.scheduling.sigs.k8s.io/name",
        "gang.scheduling.koordinator.sh/name",
        "yunikorn.apache.org/task-group-name",
        "pod-group-name",
    }
)

EVICTS_ITSELF = "descheduler.alpha.kubernetes.io/request-evict-only"
"""An eviction of this pod is only a request: it ends later, once KubeVirt or the like has made a replacement."""
EVICTION_UNDER_WAY = "descheduler.alpha.kubernetes.io/eviction-in-progress"
"""Such a request is being carried out."""

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a pod that the kubelet runs from a file on its node."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""The annotation by which a ReplicaSet chooses which pods it deletes first: those with the lowest number."""

RESTARTED_FOR = "ballast.dev/restarted-for"
"""The annotation of a pod template that was restarted so that a pod moves: the UID of that pod, whatever the prefix."""


def job_kind(kind: str) -> bool:
    """Whether pods of such an owner run to an end."""
    return kind.endswith("Job") or kind in JOB_KINDS
