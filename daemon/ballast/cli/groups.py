"""The groups whose commands are costly to import."""

from __future__ import annotations

from ballast.cli.lazy import group

PLAN = "ballast.cli.planning.plan:app"
POWER = "ballast.cli.power.commands:app"
EXPERIMENT = "ballast.cli.experiment:app"

plan = group(
    rest=PLAN,
    commands={
        "relieve": (f"{PLAN}/relieve", "Move pods off overloaded nodes."),
        "rebalance": (f"{PLAN}/rebalance", "Move pods so that all nodes have a similar load."),
        "redistribute": (f"{PLAN}/redistribute", "Move pods so that pending pods can start."),
        "repair": (f"{PLAN}/repair", "Move pods that are not where they ask to be."),
        "consolidate": (f"{PLAN}/consolidate", "Empty nodes that the others can do without."),
        "place": (f"{PLAN}/place", "Place pods on nodes so that every resource is used evenly."),
    },
    help="Plan evictions from files or from a cluster. Nothing is changed: only the daemon evicts.",
)
power = group(
    rest=POWER,
    commands={
        "replay": (
            f"{POWER}/replay",
            "Run the controller of the daemon over a recorded feed and show what it would have done.",
        ),
        "allocate": (f"{POWER}/allocate", "Split a change of the number of replicas between the targets of a policy."),
    },
    help="Try out a power policy, offline.",
)
experiment = group(
    rest=EXPERIMENT,
    commands={
        "dominant-residual": (
            f"{EXPERIMENT}/dominant-residual",
            "Sweep 7 values of lambda and 11 of C, and count the pods that find a node.",
        ),
        "redistribution": (
            f"{EXPERIMENT}/redistribution",
            "Count the pods that find a node: without redistribution, with gated redistribution, and as published.",
        ),
        "windows": (
            f"{EXPERIMENT}/windows",
            "Order nodes by windows of public load traces, and compare with the load of the next hour.",
        ),
        "power": (
            f"{EXPERIMENT}/power",
            "Follow power feeds with the published model, Ballast's budgets and simple rules, and count what was over.",
        ),
        "genetic": (
            f"{EXPERIMENT}/genetic",
            "Repeat figures 2 to 9 and tables 1 to 3 of the genetic algorithm for Kubernetes (Hu and Xue).",
        ),
        "openb": (
            f"{EXPERIMENT}/openb",
            "Place GPU pods until 130 % of the devices are asked for, and count the devices in use.",
        ),
    },
    help="Reproduce published tables and measure on public traces, offline.",
)
