"""`ballast plan redistribute`: where pods land follows the keys of dominant-residual."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.commands import Run
from tests.worlds.printed import listed, node, pod, watcher, workload

WIDE = '[{"requests": {"cpu": "4"}}]'


@pytest.fixture
def plan(tmp_path: Path, ballast: Run) -> Callable[..., tuple[int, Any, str]]:
    cluster, metrics = tmp_path / "c.json", tmp_path / "m.json"
    cluster.write_text(json.dumps(_cluster()))
    metrics.write_text(json.dumps(watcher({"home": 10, "roomy": 10, "tight": 10})))

    def run(*options: str) -> tuple[int, Any, str]:
        given = ["plan", "redistribute", "--cluster", str(cluster), "--metrics", str(metrics), "-o", "json"]
        code, out, err = ballast(*given, *options)
        return code, json.loads(out) if out else None, err

    return run


def _cluster() -> Any:
    """`tight` stays less full than `roomy`, but there a profile of 4 cores loses room."""
    return listed(
        node("home", "4", "8Gi"),
        node("roomy", "20", "40Gi"),
        node("tight", "5", "10Gi"),
        pod("a", "2", "4Gi", on="home", owner="a"),
        pod("r", "1", "35Gi", on="roomy", owner="r"),
        pod("t", "2", "4Gi", on="tight", owner="t"),
        *(pod(f"other-{name}", "0", "0", on="home", owner=name) for name in "art"),
        pod("w", "4", "6Gi", owner="w"),
        *(workload(name, 2) for name in "artw"),
    )


@pytest.mark.parametrize(("weight", "target"), [("1", "tight"), ("0", "roomy")])
@pytest.mark.parametrize("source", ["options", "environment"])
def test_pods_land_by_the_configured_keys(
    plan: Callable[..., tuple[int, Any, str]], monkeypatch: pytest.MonkeyPatch, source: str, weight: str, target: str
) -> None:
    options = ["--set", f"lambda={weight}", "--set", "c=1", "--set", f"profiles={WIDE}"]
    if source == "environment":
        keys = {"dominant-residual": {"lambda": float(weight), "c": 1, "profiles": json.loads(WIDE)}}
        monkeypatch.setenv("BALLAST_SCORING__KEYS", json.dumps(keys))
        options = []
    code, answer, err = plan("--ungated", *options)
    assert code == 0, err
    assert [(step["pod"], step["to"]) for step in answer["steps"]] == [("shop/a", target)]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("lambda=2", "dominant-residual: lambda cannot be 2; give a number from 0 to 1"),
        ("g=cubic", "g cannot be"),
        ("c=0", "c cannot be 0; give a number of at least 1"),
        ("lambd=1", "there is no lambd"),
    ],
)
def test_wrong_keys_are_refused_by_name(plan: Callable[..., tuple[int, Any, str]], option: str, message: str) -> None:
    code, _, err = plan("--set", option)
    assert code == 2
    assert message in err
