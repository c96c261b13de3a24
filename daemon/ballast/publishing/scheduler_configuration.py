"""What every printed KubeSchedulerConfiguration has in common."""

from __future__ import annotations

DEFAULT_SCHEDULER = "default-scheduler"

_HEAD = """\
{comments}apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
{election}{before}profiles:
- schedulerName: {scheduler}
{profile}"""

_ELECTION = """\
leaderElection:  # a Lease of its own, beside the one of the cluster's own scheduler
  resourceName: {scheduler}
"""


def configuration(scheduler: str, comments: str, profile: str, before: str = "") -> str:
    """A whole file (YAML with comments); `profile` is indented by two, `before` are further keys.

    With the name `default-scheduler` it replaces the configuration of the cluster's own scheduler; with any other it is
    for a second one, with its own Lease. `{use}` in the comments becomes what to do with the file.
    """
    second = scheduler != DEFAULT_SCHEDULER
    use = (
        f"Run a second kube-scheduler with it (--config); pods choose it with schedulerName: {scheduler}."
        if second
        else "Give it to the cluster's own kube-scheduler (--config) with the clientConnection it has now."
    )
    text = "".join(f"# {line}".rstrip() + "\n" for line in comments.format(use=use).splitlines())
    election = _ELECTION.format(scheduler=scheduler) if second else ""
    return _HEAD.format(comments=text, election=election, before=before, scheduler=scheduler, profile=profile)
