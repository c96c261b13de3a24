import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.commands import Run
from tests.worlds.printed import listed, node, pod, watcher, workload

Answer = dict[str, Any]
Plan = Callable[..., Answer]


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, Any], str]:
    def write(name: str, content: Any) -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


@pytest.fixture
def plan(files: Callable[[str, Any], str], ballast: Run) -> Plan:
    def run(kind: str, cluster: Any, metrics: Any, *options: str) -> Answer:
        given = ["--cluster", files("c.json", cluster), "--metrics", files("m.json", metrics), "-o", "json"]
        code, out, err = ballast("plan", kind, *given, *options)
        assert code == 0, err
        answer: Answer = json.loads(out)
        keys = ["kind", "steps", "before", "after", "refused", "placed", "concentration"]
        assert [key for key in answer if key not in ("note", "prices")] == keys
        keys = ["pod", "from", "to", "gain", "gain_error", "cost", "reason", "siblings"]
        assert all(list(step) == keys for step in answer["steps"])
        return answer

    return run


@pytest.fixture
def explained(files: Callable[[str, Any], str], ballast: Run) -> Callable[[Any, Any, Answer], Answer]:
    """What `ballast explain` says of a pod of a cluster file."""

    def run(cluster: Any, metrics: Any, pod: Answer) -> Answer:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        given = ["--cluster", files("c.json", cluster), "--metrics", files("m.json", metrics), "-o", "json"]
        answer: Answer = json.loads(ballast("explain", name, *given)[1])
        return answer

    return run


def shop(on_n1: int = 6, owners: int = 6) -> Answer:
    """Pods of several workloads on one of three nodes."""
    pods = [pod(f"p{i}", "1", "1Gi", "n1", f"w{i % owners}") for i in range(on_n1)]
    rest = [pod(f"q{i}", "10m", "0", "n2", f"w{i}") for i in range(owners)]
    return listed(*(node(f"n{i}") for i in (1, 2, 3)), pods, rest, *(workload(f"w{i}", 2) for i in range(owners)))


LOADS = watcher({"n1": (60, 60), "n2": (10, 10), "n3": (0, 0)})


def crowd(**more: Any) -> Answer:
    return listed(
        node("n1", "6", metadata={"labels": {"disk": "fast"}}),
        node("n2"),
        pod("a", "4", on="n1", owner="a"),
        pod("b", "2", on="n1", owner="b", **more),
        pod("w1", "2", owner="w", spec={"nodeSelector": {"disk": "fast"}}),
        pod("w2", "2", owner="w", spec={"nodeSelector": {"disk": "fast"}}),
        pod("y", "5", on="n2", owner="y"),
        *(pod(f"other-{name}", "0", on="n2", owner=name) for name in "aby"),
        *(workload(name, 2) for name in "abyw"),
    )


BUSY = watcher({"n1": 50, "n2": 10})
