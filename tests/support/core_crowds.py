"""Crowded states: one node of eight equal GPUs, most of them held, and sessions that wait for some."""

from typing import Final

from hypothesis import strategies as st

from aliquot.core.model.snapshot import Snapshot
from allocation_devices import gpus
from core_cluster import on, row
from ordering_scenes import busy, runs

EIGHT: Final = on("x", gpus(8))
SIZED: Final = st.tuples(st.integers(1, 8), st.integers(1, 90))


@st.composite
def crowds(draw: st.DrawFn) -> Snapshot:
    """Sessions of one priority and estimate: every policy orders by submission."""
    free, running = list(range(8)), []
    for number in range(draw(st.integers(0, 5))):
        size = min(draw(st.integers(1, 3)), len(free))
        taken, free = free[:size], free[size:]
        spec = {"cuda.device": {f"cuda{device}": 1 for device in taken}}
        running += [runs(f"r{number}", EIGHT, spec, ends_in_s=draw(st.integers(1, 90)))] if taken else []
    queue = [
        row(f"q{number}", at=number, cuda_device=str(size), limit_ms=lasts_s * 1000)
        for number, (size, lasts_s) in enumerate(draw(st.lists(SIZED, min_size=1, max_size=9)))
    ]
    return busy([EIGHT], running, queue)
