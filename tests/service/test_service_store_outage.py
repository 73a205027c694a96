"""The store fails for a while: callers get an error, the server's work waits, and nothing is lost."""

import asyncio
from pathlib import Path

import pytest

from aliquot.service.ports import Batch, Store, StoreUnavailable
from aliquot_schema.errors import Unavailable
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.orchestration import Action
from aliquot_schema.states import SessionState
from service_bench import CALLER, agent, service_on
from service_fakes import FakeExecutor
from service_stage import stage
from service_wrapped_store import WrappedStore

pytestmark = pytest.mark.anyio


async def test_a_database_outage_delays_changes_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    executor = FakeExecutor([agent("a", devices=1)])
    async with service_on(tmp_path, executor) as bench:
        await bench.until(lambda: AgentId("a") in bench.state.reachable)
        session = await bench.submit(devices=1)
        await bench.until_state(session, SessionState.RUNNING)
        refused = []

        async def refuse(batch: Batch) -> tuple[Event, ...]:
            refused.append(batch.actor)
            raise StoreUnavailable("the disk is full")

        with monkeypatch.context() as outage:
            outage.setattr(bench.service.journal._store, "commit", refuse)
            executor.end_kernel(KernelId(f"{session}.1.0"), code=4)
            with pytest.raises(Unavailable):
                await bench.service.sessions.update_session_priority(CALLER, session, "high", None)
            await bench.until(lambda: refused.count("system:agents") >= 3)
        assert (await bench.until_state(session, SessionState.FAILED)).exit_code == 4
    assert caplog.text.count("system:agents: the store cannot be written, retrying: the disk is full") == 1


class Forgetful(WrappedStore):
    """Loses the answers to the commits of "slow" and "quick". The commit of "slow", and reads of the log, wait."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.may_commit, self.has_read, self.may_read = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        if batch.actor == "slow":
            await self.may_commit.wait()
        events = await super().commit(batch)
        if batch.actor in ("slow", "quick"):
            raise StoreUnavailable("the connection ended before the answer came")
        return events

    async def news_after(self, seen: int, *, limit: int) -> tuple[Event, ...]:
        found: tuple[Event, ...] = await self._store.news_after(seen, limit=limit)
        self.has_read.set()
        await self.may_read.wait()
        return found


async def test_a_commit_lost_while_the_log_is_read_for_another_one_is_read_back_too() -> None:
    async with stage([agent("a", devices=1)], wrap=Forgetful) as on:
        store = on.store
        assert isinstance(store, Forgetful)

        async def note(actor: str) -> None:
            await on.journal.transact(lambda draft: draft.put(Action(id=actor, facts={}), "noted"), actor=actor)

        async def noted() -> list[bool]:
            names = ("quick", "slow")
            return await on.journal.transact(lambda draft: [draft.action(id) is not None for id in names], actor="test")

        slow = asyncio.create_task(note("slow"))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await note("quick")
        reading = asyncio.create_task(noted())
        await store.has_read.wait()
        store.may_commit.set()
        with pytest.raises(StoreUnavailable):
            await slow
        store.may_read.set()
        assert await reading == [True, False]
        assert await noted() == [True, True]
