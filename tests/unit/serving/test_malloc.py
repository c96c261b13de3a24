"""Where the C library puts what threads allocate."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, pathlib, threading
from ballast.base.memory import tune_malloc

{before}
malloc, found = ctypes.CDLL(None).malloc, []
malloc.restype = ctypes.c_size_t
threads = [threading.Thread(target=lambda: found.append(malloc(1000))) for _ in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
[heap] = [line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if line.endswith("[heap]")]
low, high = (int(each, 16) for each in heap.split()[0].split("-"))
print(sum(low <= each < high for each in found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
@pytest.mark.parametrize(("before", "shared"), [("", False), ("tune_malloc()", True)])
def test_threads_share_one_heap(before: str, shared: bool) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(before=before)], capture_output=True, check=True)
    assert (int(done.stdout) == 4) == shared
