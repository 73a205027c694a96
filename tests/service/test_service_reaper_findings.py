"""Findings are written once, however many servers look or the store answers."""

import asyncio

import pytest

from aliquot.service.agents.reaper import Reaper
from aliquot.service.ports import Batch, StoreUnavailable
from aliquot_schema.cluster.launching import NewReadings
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, DeviceId
from aliquot_schema.resources.devices import DeviceProcess, DeviceReading
from service_bench import agent
from service_stage import Stage, stage
from service_wrapped_store import WrappedStore

pytestmark = pytest.mark.anyio

A = AgentId("a")


class Forgetful(WrappedStore):
    """Writes, and loses the answer, on request."""

    forgets = False

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        events = await super().commit(batch)
        if self.forgets:
            self.forgets = False
            raise StoreUnavailable("the connection ended before the answer came")
        return events


async def on_event(on: Stage, *, pids: tuple[int, ...]) -> None:
    """The agent reports these processes on its devices."""
    processes = tuple(DeviceProcess(pid=pid, memory_bytes=None) for pid in pids)
    names = [DeviceId(f"a-gpu-{number}") for number in range(2)]
    readings = tuple(DeviceReading(device_id=name, processes=processes) for name in names)
    await on.on_event(NewReadings(agent_id=A, at_us=1, readings=readings))


def reaper_of(on: Stage) -> Reaper:
    return Reaper(on, executor=on.executor, dispatch=on.dispatch, grace_ms=100)


async def test_concurrent_reaper_runs_write_each_finding_once() -> None:
    async with stage([agent("a", devices=2)]) as on:
        reaper = reaper_of(on)
        await on_event(on, pids=(4711,))
        await asyncio.gather(*(reaper.run_once() for _ in range(4)))
        assert [finding.version for finding in on.state.findings.values()] == [1, 1]
        await on_event(on, pids=())
        await asyncio.gather(*(reaper.run_once() for _ in range(4)))
        assert on.state.findings == {}


@pytest.mark.parametrize("lost", ["found", "closed"])
async def test_a_finding_committed_without_an_answer_is_not_written_again(lost: str) -> None:
    async with stage([agent("a", devices=2)], wrap=Forgetful) as on:
        store = on.store
        assert isinstance(store, Forgetful)
        reaper = reaper_of(on)
        await on_event(on, pids=(4711,))
        await reaper.run_once()
        store.forgets = lost == "found"
        await reaper.run_once()
        await on_event(on, pids=())
        store.forgets = lost == "closed"
        await reaper.run_once()
        kinds = [event.kind for event in await on.events() if event.kind.startswith("finding.")]
        assert kinds == ["finding.found", "finding.found", "finding.closed", "finding.closed"]
        assert (on.state.findings, store.forgets) == ({}, False)
