"""Loads: what the devices did while they were held, looked up agent by agent."""

import asyncio
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
TOO_MANY: Final = "there are too many grants in this time to look up utilization; ask for a shorter one"
_UTILIZATION: Final = index_of(Kind.DEVICES, "utilization")


async def weigh_all(sums: UsageSums, *, store: HistoryStore) -> None:
    """Let the sums know what every agent's devices did.

    Raises:
        HistoryUnavailable: it cannot be read.
    """
    agents = sums.agents or []
    fine = _fine(sums.grid, agents=len(agents), least_s=store.least_step_s(sums.grid.start_us))
    for agent_id in agents:
        found = await store.gathered(Kind.DEVICES, agent_id, fine)
        loads = {device: curves.mean[_UTILIZATION] for device, curves in found.items()}
        await asyncio.to_thread(sums.weigh, agent_id, fine=fine, loads=loads)


def _fine(grid: Grid, *, agents: int, least_s: float) -> Grid:
    """Ten seconds, or minutes; hours where that would be too much, or is not kept, and the steps are whole hours."""
    hours = agents * grid.points * grid.step_us / (HOUR_S * SECOND_US)
    if hours <= FINEST_HOURS_MAX and least_s <= FINEST_S:
        return covering(grid.start_us, grid.end_us, step_s=FINEST_S)
    is_coarse = hours > FINE_HOURS_MAX or least_s > MINUTE_S
    step_s = HOUR_S if is_coarse and grid.step_us % (HOUR_S * SECOND_US) == 0 else MINUTE_S
    return covering(grid.start_us, grid.end_us, step_s=step_s)
