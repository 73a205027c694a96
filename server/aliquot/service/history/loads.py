"""Loads: what the devices did while they were held, looked up agent by agent."""

import asyncio
from collections.abc import Iterator
from typing import Final

from aliquot.service.history.grids import SECOND_US, Grid, covering
from aliquot.service.history.measures import Kind, index_of
from aliquot.service.history.ports import HistoryStore
from aliquot.service.history.usage import UsageSums

FINEST_S: Final = 10
MINUTE_S: Final = 60
HOUR_S: Final = 3600
FINEST_HOURS_MAX: Final = 100
"""Hours, of all agents together, that are looked up every ten seconds, so that what ran for minutes counts rightly."""
FINE_HOURS_MAX: Final = 5_000
"""Those that are looked up minute by minute."""
AT_ONCE: Final = 10_000
"""Points that an agent's devices are looked up for in one go: each takes 120 bytes a device."""
TOO_MANY: Final = "there are too many grants in this time to look up utilization; ask for a shorter one"
NO_HOURS: Final = "utilization of so long ago is known by the hour alone; give steps of whole hours"
_UTILIZATION: Final = index_of(Kind.DEVICES, "utilization")


async def weigh_all(sums: UsageSums, *, store: HistoryStore) -> str | None:
    """Let the sums know what every agent's devices did; returns why they do not.

    Raises:
        HistoryUnavailable: it cannot be read.
    """
    agents = sums.agents
    if agents is None:
        return TOO_MANY
    step_s = _step_s(sums.grid, agents=len(agents), least_s=store.least_step_s(sums.grid.start_us))
    if step_s is None:
        return NO_HOURS if agents else None
    for agent_id in agents:
        for fine in _parts(sums.grid, step_s=step_s):
            found = await store.gathered(Kind.DEVICES, agent_id, fine)
            loads = {device: curves.mean[_UTILIZATION] for device, curves in found.items()}
            await asyncio.to_thread(sums.weigh, agent_id, fine=fine, loads=loads)
    return None


def _step_s(grid: Grid, *, agents: int, least_s: float) -> int | None:
    """Ten seconds, or minutes; hours where that would be too much, or is not kept. None: the steps are no whole hours
    then, and an hour would have to count in one of two."""
    hours = agents * grid.points * grid.step_us / (HOUR_S * SECOND_US)
    if hours <= FINEST_HOURS_MAX and least_s <= FINEST_S:
        return FINEST_S
    is_whole = grid.step_us % (HOUR_S * SECOND_US) == 0
    if least_s <= MINUTE_S and (hours <= FINE_HOURS_MAX or not is_whole):
        return MINUTE_S
    return HOUR_S if is_whole else None


def _parts(grid: Grid, *, step_s: int) -> Iterator[Grid]:
    """The time of a grid in finer steps, a part at a time: years of minutes are more than fits in memory."""
    size_us = AT_ONCE * step_s * SECOND_US
    for start_us in range(grid.start_us, grid.end_us, size_us):
        yield covering(start_us, min(start_us + size_us, grid.end_us), step_s=step_s)
