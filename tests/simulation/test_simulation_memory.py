"""A queue of thousands for an hour of virtual time: memory does not grow."""

import pytest

from long_tests import IS_LONG
from simulation_long_queue import memory_blocks_over_time

PENDING = 10_000 if IS_LONG else 4000
GROWTH_MAX = 1.03


@pytest.mark.slow
def test_memory_does_not_grow_with_time() -> None:
    looks = memory_blocks_over_time(pending=PENDING, seconds=3600.0)
    print(looks)
    assert looks[-1] <= looks[0] * GROWTH_MAX, looks
