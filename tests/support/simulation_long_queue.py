"""A queue of thousands for an hour of virtual time, without faults; memory must not grow."""

import asyncio
import gc
import sys

from aliquot_schema.ids import UserId
from aliquot_schema.requests import Caller, NewSession, Role
from simulation_environment import Schedule
from simulation_run import Run, on_new_loop
from simulation_server import LoneServer

CALLER = Caller(user=UserId("ann"), request_id="req_crowd", role=Role.ADMIN)
BATCH = 500
SAMPLES = 4


class LongQueueRun(Run):
    """One server, seven devices, and a queue of constant length."""

    async def memory_blocks(self, *, pending: int, seconds: float) -> list[int]:
        """Python's memory blocks at fixed intervals; each started session is replaced."""
        self._faults.end()
        keeping = asyncio.create_task(self._keep_up(0))
        while not self._servers[0].is_up:  # noqa: ASYNC110  # servers send no event
            await asyncio.sleep(0.1)
        looks = []
        for _ in range(SAMPLES):
            await self._fill(pending)
            for _ in range(10):
                await asyncio.sleep(seconds / SAMPLES / 10)
                await self._fill(pending)
            gc.collect()
            looks.append(sys.getallocatedblocks())
        self._is_over = True
        await self._servers[0].process.kill()
        await keeping
        return looks

    def _follow(self, connection: object) -> None:
        """Off: such a client keeps the whole log."""

    def _check_start(self, kernel_id: object) -> None:
        """Off: nothing to compare."""

    async def _fill(self, pending: int) -> None:
        cases = self._servers[0].cases
        assert cases is not None
        while (missing := pending - len(cases.state.pending)) > 0:
            one = NewSession(argv=("run",), shell=None, slots=[("cuda.device", "2")])
            await cases.sessions.create_sessions(CALLER, [one] * min(missing, BATCH))


def memory_blocks_over_time(*, pending: int, seconds: float) -> list[int]:
    """See `LongQueueRun.memory_blocks`."""
    return on_new_loop(
        1,
        lambda loop, streams: LongQueueRun(loop, streams, (LoneServer,), schedule=Schedule()).memory_blocks(
            pending=pending, seconds=seconds
        ),
    )
