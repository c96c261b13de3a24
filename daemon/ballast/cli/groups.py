"""The groups whose commands are costly to import."""

from ballast.cli.lazy import LAB, group

PLAN = "ballast.cli.planning.plan:app"
POWER = "ballast.cli.power.commands:app"

plan = group(
    rest=PLAN,
    commands={
        "relieve": (f"{PLAN}/relieve", "Move pods off overloaded nodes."),
        "rebalance": (f"{PLAN}/rebalance", "Move pods so that all nodes have a similar load."),
        "redistribute": (f"{PLAN}/redistribute", "Move pods so that pending pods can start."),
        "repair": (f"{PLAN}/repair", "Move pods that are not where they ask to be."),
        "tidy": (f"{PLAN}/tidy", "Remove failed and old pods and those that restart again and again."),
        "consolidate": (f"{PLAN}/consolidate", "Empty nodes that the others can do without."),
        "place": (f"{LAB}:place", "Place pods on nodes so that every resource is used evenly."),
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
        "pledge": ("ballast.cli.power.pledge:pledge", "Show what could be shed in 10 s, 1 min and 10 min."),
    },
    help="Try out a power policy, offline, and show what could be shed now.",
)
