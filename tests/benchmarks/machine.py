"""What this machine itself can do, to read the other numbers by."""

import os
import tempfile
import time
from statistics import median

ROUNDS = 50


def fsync_p50_s() -> float:
    """Seconds for 4 KiB to be written and synced, in the folder that the benchmarks' servers use."""
    with tempfile.TemporaryFile() as file:
        return median(_sync_s(file.fileno()) for _ in range(ROUNDS))


def fork_s() -> float:
    """Seconds to start `true` and see it end, median."""
    return median(_spawn_s() for _ in range(ROUNDS))


def _sync_s(descriptor: int) -> float:
    began = time.perf_counter()
    os.write(descriptor, bytes(4096))
    os.fsync(descriptor)
    return time.perf_counter() - began


def _spawn_s() -> float:
    began = time.perf_counter()
    os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)
    return time.perf_counter() - began
