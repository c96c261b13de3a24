"""`ballast experiment`: reproduces published tables, and measures on public traces, without a cluster."""

from __future__ import annotations

from ballast.cli.lazy import group

HERE = "ballast_lab.cli.experiments"

app = group(
    commands={
        "all": (
            f"{HERE}.everything:everything",
            "Run every experiment with the options of measurements/experiments.md, into one folder each.",
        ),
        "dominant-residual": (
            f"{HERE}.dominant_residual:dominant_residual",
            "Sweep 7 values of lambda and 11 of C, and count the pods that find a node.",
        ),
        "redistribution": (
            f"{HERE}.redistribution:redistribution",
            "Count the pods that find a node: without redistribution, with gated redistribution, and as published.",
        ),
        "windows": (
            f"{HERE}.windows:windows",
            "Order nodes by windows of public load traces, and compare with the load of the next hour.",
        ),
        "schedule": (
            f"{HERE}.schedule:schedule",
            "Place pods with recorded load by all strategies and other projects' rules, and count hot node-minutes.",
        ),
        "power": (
            f"{HERE}.power:power",
            "Follow power feeds with the published model, Ballast's budgets and simple rules, and count what was over.",
        ),
        "genetic": (
            f"{HERE}.genetic:genetic",
            "Repeat figures 2 to 9 and tables 1 to 3 of the genetic algorithm for Kubernetes (Hu and Xue).",
        ),
        "openb": (
            f"{HERE}.openb:openb",
            "Place GPU pods until 130 % of the devices are asked for, and count the devices in use.",
        ),
    },
    help="Reproduce published tables and measure on public traces, offline.",
)
