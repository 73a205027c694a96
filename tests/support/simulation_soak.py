"""A month of virtual time: constant jobs, a server killed once a day, and figures that must not drift."""

import asyncio
import gc
import sys
from collections import Counter
from typing import Final

from aliquot_schema.requests import NewSession
from simulation_environment import Schedule
from simulation_long_queue import CALLER, LongQueueRun
from simulation_run import on_new_loop
from simulation_server import LoneServer
from soak_figures import Sample

DAY_S: Final = 86_400.0
STEPS_MAX: Final = 10**9
MEMORY_LOOKS: Final = 5
"""Per day, at its end."""
LOOK_EVERY_S: Final = 101.0
"""No multiple of the server's own periods."""
WAITS: Final = """
SELECT avg(started_us - queued_us) / 1e3, count(*) FROM sessions WHERE started_us IS NOT NULL AND queued_us >= ?"""
SIZES: Final = (
    ("events", "SELECT max(number) FROM events"),
    ("sessions", "SELECT count(*) FROM sessions WHERE ended_us IS NOT NULL"),
    ("live sessions", "SELECT count(*) FROM sessions WHERE ended_us IS NULL"),
    ("held leases", "SELECT count(*) FROM leases WHERE released_us IS NULL"),
    ("pages", "PRAGMA page_count"),
)


class Month(LongQueueRun):
    """One server, seven devices, and regular bursts of jobs."""

    async def samples(self, *, days: int, bursts: int, jobs: int) -> list[Sample]:
        """A sample at the end of each day, when all jobs have ended and the server has run for half a day.

        Args:
            bursts: per day.
            jobs: per burst, so that some wait.
        """
        self._faults.end()
        keeping = asyncio.create_task(self._keep_up(0))
        samples = []
        for day in range(days):
            since_us = self._place.wall_clock.now_us()
            for burst in range(bursts):
                await self._until_up()
                await self._submit(jobs)
                await asyncio.sleep((DAY_S - MEMORY_LOOKS * LOOK_EVERY_S) / bursts)
                if burst == bursts // 2:
                    await self._servers[0].process.kill()
            memory = await self._memory()
            self._forget()
            samples.append(Sample(at_s=DAY_S * day, life=0, values=self._values(since_us) | memory))
        self._is_over = True
        await self._servers[0].process.kill()
        await keeping
        return samples

    async def _memory(self) -> dict[str, float]:
        """The minimum of several looks: memory in use by ongoing work is no drift."""
        looks = []
        for _ in range(MEMORY_LOOKS):
            await asyncio.sleep(LOOK_EVERY_S)
            gc.collect()
            looks.append((sys.getallocatedblocks(), len(gc.get_objects())))
        blocks, objects = (float(min(each)) for each in zip(*looks, strict=True))
        return {"blocks of memory": blocks, "objects": objects}

    async def _until_up(self) -> None:
        while not self._servers[0].is_up:  # noqa: ASYNC110  # servers send no event
            await asyncio.sleep(0.1)

    async def _submit(self, jobs: int) -> None:
        cases = self._servers[0].cases
        assert cases is not None
        one = NewSession(argv=("run",), shell=None, slots=[("cuda.device", "1")])
        await cases.sessions.create_sessions(CALLER, [one] * jobs)

    def _forget(self) -> None:
        """As agents do: delete the files of ends committed at the server."""
        for machine in self._machines.values():
            machine.drop_forgotten()

    def _values(self, since_us: int) -> dict[str, float]:
        connection = self._place.disk.connection
        with connection.begin():
            read = connection.exec_driver_sql
            values = {name: float(read(question).scalar_one()) for name, question in SIZES}
            wait_ms, started = read(WAITS, (since_us,)).one()
        return values | {
            "tasks": float(len(asyncio.all_tasks())),
            "mean wait, ms": float(wait_ms or 0),
            "started": float(started),
        }


def objects_by_type() -> Counter[str]:
    """For finding leaks."""
    return Counter(type(one).__qualname__ for one in gc.get_objects())


def month(*, days: int, bursts: int, jobs: int) -> list[Sample]:
    """See `Month.samples`."""
    return on_new_loop(
        1,
        lambda loop, streams: Month(loop, streams, (LoneServer,), schedule=Schedule()).samples(
            days=days, bursts=bursts, jobs=jobs
        ),
        steps_max=STEPS_MAX,
    )
