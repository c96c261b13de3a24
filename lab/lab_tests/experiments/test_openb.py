"""The OpenB experiment on a small trace of the same format."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from ballast.base.errors import UsageError
from ballast_lab.experiments.openb import report
from ballast_lab.experiments.openb.lists import PodKind
from ballast_lab.experiments.openb.nodes import OpenbNodes
from ballast_lab.experiments.openb.policies import POLICIES
from ballast_lab.experiments.openb.running import Run, run
from ballast_lab.experiments.openb.trace import BadTrace, names, published, workload
from lab_tests.experiments.openb_samples import NODES, PODS, trace, write


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return trace(tmp_path)


def test_nodes_and_pods_are_read_in_the_order_of_their_names(data: Path) -> None:
    found = workload(data, "tiny")
    assert found.devices.tolist() == [4, 2, 1]
    assert found.capacity == 7000
    kinds = [found.kinds[row] for row in found.pods]
    assert kinds[1] == PodKind(1000, 1024, 1, 300)
    assert kinds[4] == PodKind(1000, 1024, 1, 500, ("T4", "P100"))
    assert found.allowed[found.pods[4]].tolist() == [False, True, True]
    assert names(data) == ["plain", "tiny"]


def test_a_list_without_models_is_read_too(data: Path) -> None:
    assert all(not kind.models for kind in workload(data, "plain").kinds)


@pytest.mark.parametrize("seed", range(42, 48))
def test_arrivals_ask_for_at_most_130_percent_of_the_devices_and_one_more_would_not(data: Path, seed: int) -> None:
    found = workload(data, "tiny")
    kinds, order = found.arrivals(seed)
    asked = int(found.volumes[kinds].sum())
    assert 1.3 * found.capacity - 1000 <= asked <= 1.3 * found.capacity + 1000
    assert sorted(order.tolist()) == [0, 1, 2]
    assert sorted(kinds[:5].tolist()) == sorted(found.pods.tolist())
    again, _ = found.arrivals(seed)
    assert kinds.tolist() == again.tolist()


def test_a_list_that_asks_for_more_is_cut_down(data: Path) -> None:
    write(data / "openb/pods_large.csv.gz", [PODS[0], *(f"q-{n},100,100,1,1000,,LS" for n in range(30))])
    kinds, _ = workload(data, "large").arrivals(42)
    assert len(kinds) == 9


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_places_what_fits_and_no_more(data: Path, policy: str) -> None:
    found = workload(data, "tiny")
    for seed in (42, 43, 44):
        kinds, order = found.arrivals(seed)
        nodes = OpenbNodes(found, order)
        chooser = POLICIES[policy](found, nodes, np.random.default_rng(0))
        for kind in kinds.tolist():
            row = chooser.choose(kind)
            assert (row is None) == (len(nodes.candidates(kind)) == 0)
            if row is not None:
                assert row in nodes.candidates(kind)
                nodes.place(kind, row, chooser.device(kind, row))
                chooser.changed(row)
            assert nodes.free.min() >= 0
            assert nodes.cpu.min() >= 0


def test_a_shared_pod_goes_to_the_device_that_is_in_use_already(data: Path) -> None:
    found = workload(data, "tiny")
    nodes = OpenbNodes(found, np.arange(3))
    part = found.kinds.index(PodKind(1000, 1024, 1, 300))
    nodes.place(part, 0, 2)
    for policy in ("residual", "fgd", "best-fit"):
        assert POLICIES[policy](found, nodes, np.random.default_rng(0)).device(part, 0) == 2


def test_results_have_a_row_for_each_run_and_the_published_ones_beside(data: Path) -> None:
    done: list[int] = []

    def begin(total: int) -> object:
        done.append(total)
        return lambda: done.append(1)

    found = run(data, ["tiny"], ["residual", "fgd"], [42, 43], begin=begin)  # type: ignore[arg-type]
    assert [(row["policy"], row["seed"]) for row in found["rows"]] == [
        ("residual", 42),
        ("residual", 43),
        ("fgd", 42),
        ("fgd", 43),
    ]
    assert all(0 < row["allocated_percent"] <= 100 and row["failed_pods"] < row["pods"] for row in found["rows"])
    assert {(row["policy"], row["seed"], row["allocated_percent"]) for row in found["published"]} == {
        ("fgd", 42, 95.5),
        ("fgd", 43, 96.5),
        ("best-fit", 42, 93.0),
    }
    assert done == [4, 1, 1, 1, 1]
    assert "| tiny | fgd |" in report.table(found)
    assert "96.00" in report.table(found)
    assert report.chart(found).startswith("<svg ")


def test_a_run_gives_the_same_again(data: Path) -> None:
    again = [Run(workload(data, "tiny"), "residual", 42).row() for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("file", "lines", "said"),
    [
        ("nodes", [NODES[0], "n-0,x,1,1,T4"], "cpu_milli is 'x'"),
        ("nodes", [NODES[0], "n-0,1000"], "cut off"),
        ("nodes", [NODES[0], NODES[1], NODES[1]], "a second time"),
        ("nodes", ["sn,cpu_milli,memory_mib,model"], "the column gpu is missing"),
        ("nodes", [NODES[0], "n-0,1000,1000,0,"], "no node has a device"),
        ("pods_tiny", [PODS[0], "p-0,1000,1024,1,-3,,LS"], "gpu_milli is '-3'"),
        ("pods_tiny", [PODS[0], "p-0,1000,1024,999,1000,,LS"], "num_gpu is '999'"),
        ("pods_tiny", [PODS[0]], "no pod of tiny asks for one"),
    ],
)
def test_a_broken_file_is_named_with_its_line(data: Path, file: str, lines: list[str], said: str) -> None:
    write(data / f"openb/{file}.csv.gz", lines)
    with pytest.raises(BadTrace, match="openb") as error:
        workload(data, "tiny")
    assert said in str(error.value)


@pytest.mark.parametrize(
    "content",
    [gzip.compress(b"sn,cpu_milli\n" * 400, mtime=0)[:-12], b"no gzip", b"", b"\x1f\x8b"],
    ids=["cut", "plain", "empty", "header"],
)
def test_a_truncated_file_is_named(data: Path, content: bytes) -> None:
    (data / "openb/nodes.csv.gz").write_bytes(content)
    with pytest.raises(BadTrace, match=r"nodes\.csv\.gz"):
        workload(data, "tiny")


def test_a_missing_file_is_named(data: Path, tmp_path: Path) -> None:
    (data / "openb/published_allocation.csv.gz").unlink()
    with pytest.raises(UsageError, match=r"published_allocation\.csv\.gz is missing"):
        published(data, ["tiny"])
    with pytest.raises(UsageError, match="pods_NAME"):
        names(tmp_path / "elsewhere")


def test_a_published_number_that_is_none_is_named(data: Path) -> None:
    write(
        data / "openb/published_allocation.csv.gz", ["workload,sc_policy,seed,130", "openb_pod_list_tiny,06-FGD,42,?"]
    )
    with pytest.raises(BadTrace, match="for tiny by fgd"):
        published(data, ["tiny"])
