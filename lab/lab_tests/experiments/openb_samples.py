"""A small trace in the format of OpenB."""

import gzip
from pathlib import Path

NODES = ["sn,cpu_milli,memory_mib,gpu,model", "n-1,8000,16384,2,T4", "n-0,16000,32768,4,G2", "n-2,4000,8192,1,T4"]
PODS = [
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos",
    "p-0,1000,1024,1,1000,,LS",
    "p-1,1000,1024,1,300,,LS",
    "p-2,2000,2048,2,1000,,BE",
    "p-3,500,512,0,0,,BE",
    "p-4,1000,1024,1,500,T4|P100,BE",
]
PLAIN = [line.rsplit(",", 2)[0] for line in PODS]
"""Without gpu_spec and what follows."""

PUBLISHED = [
    "workload,sc_policy,tune,seed,total_gpus,0,130",
    "openb_pod_list_tiny,06-FGD,1.3,42,7,0.0,95.5",
    "openb_pod_list_tiny,06-FGD,1.3,43,7,0.0,96.5",
    "openb_pod_list_tiny,05-BestFit,1.3,42,7,0.0,93.0",
    "openb_pod_list_other,06-FGD,1.3,42,7,0.0,1.0",
]


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


def trace(folder: Path) -> Path:
    write(folder / "openb/nodes.csv.gz", NODES)
    write(folder / "openb/pods_tiny.csv.gz", PODS)
    write(folder / "openb/pods_plain.csv.gz", PLAIN)
    write(folder / "openb/published_allocation.csv.gz", PUBLISHED)
    return folder
