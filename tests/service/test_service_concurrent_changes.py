"""Concurrent changes: one wins, both callers get a correct answer, and nothing is left half done."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.plan import Plan
from aliquot.core.scheduler.decide import decide
from aliquot.service.ports import Batch, Store
from aliquot.service.scheduling import allocator
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot_schema.errors import IdempotencyMismatch, StateConflict, VersionConflict
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, KernelId, kernel_id, task_id
from aliquot_schema.quotas import Account, account_id
from aliquot_schema.requests import SessionChanged
from aliquot_schema.sessions import Session
from aliquot_schema.states import KernelState, SessionState
from service_bench import agent
from service_stage import CALLER, stage
from service_wrapped_store import WrappedStore

pytestmark = pytest.mark.anyio

S = SessionState
A = AgentId("a")


async def test_fifty_creations_with_one_key_make_one_session() -> None:
    async with stage([agent("a", devices=1)]) as on:

        async def create() -> tuple[str, int]:
            session_id = await on.submit(idempotency_key="k")
            return session_id, on.state.revision

        answers = await asyncio.gather(*(create() for _ in range(50)))
        assert len({session_id for session_id, _ in answers}) == 1
        assert list(on.state.sessions) == [answers[0][0]]
        born = next(event.number for event in await on.events() if event.entity_id == answers[0][0])
        assert all(revision >= born for _, revision in answers)


async def test_of_two_different_concurrent_requests_with_one_idempotency_key_one_is_refused() -> None:
    async with stage([agent("a", devices=1)]) as on:
        answers = await asyncio.gather(
            on.submit(idempotency_key="k"),
            on.submit(idempotency_key="k", slots=[("cuda.shares", "0.5")]),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [str, IdempotencyMismatch]


async def test_a_cancellation_concurrent_with_the_last_report_gives_one_consistent_end() -> None:
    async with stage([agent("a", devices=8)]) as on:
        sessions = [await on.submit() for _ in range(8)]
        await on.advance()
        for session_id in sessions:
            on.executor.end_kernel(KernelId(f"{session_id}.1.0"))
        messages = on.executor.take_messages()
        answers = await asyncio.gather(
            *(on.cancel(session_id) for session_id in sessions), on.on_event(*messages), return_exceptions=True
        )
        await on.settle()
        for session_id, answer in zip(sessions, answers, strict=False):
            is_late = isinstance(answer, StateConflict)
            assert is_late or answer is None
            assert on.session(session_id).state is (S.COMPLETED if is_late else S.CANCELED)
        assert on.held() == {}


async def test_a_cancellation_during_the_launch_stops_sent_kernels_or_prevents_the_launch() -> None:
    async with stage([agent("a", devices=2)]) as on:
        on.executor.start_by_itself = False
        gang = await on.submit(kernels=2)
        await asyncio.gather(on.allocator.run_once(), on.cancel(gang))
        await on.settle()
        fake = on.executor.agents[A]
        kernels = [kernel.state for kernel in on.state.kernels.values()]
        assert on.session(gang).state is S.CANCELED
        if fake.orders:
            assert kernels == [KernelState.STOPPING] * 2
            assert sorted(fake.stopped) == sorted(fake.orders)
        else:
            assert kernels == []


async def test_a_priority_that_changes_during_a_pass_delays_the_placement_and_nothing_else() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        _, (counts, _) = await asyncio.gather(
            on.sessions.update_session_priority(CALLER, first, "high", None), on.allocator.run_once()
        )
        on.check()
        assert counts.placed + counts.outdated == 1
        await on.advance()
        assert (on.session(first).state, on.session(first).priority) == (S.RUNNING, 3)
        assert on.held() == {"a-gpu-0": 1000}


async def test_a_session_that_is_cancelled_during_a_pass_is_not_placed() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        await asyncio.gather(on.cancel(first), on.allocator.run_once())
        await on.settle()
        assert on.session(first).state is S.CANCELED
        assert on.held() == {}
        assert on.executor.agents[A].starts == []


async def test_a_hundred_concurrent_changes_of_one_session_all_succeed() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()

        async def change(number: int) -> SessionChanged:
            level = ("low", "normal", "high", "critical")[number % 4]
            return await on.sessions.update_session_priority(CALLER, first, level, None)

        answers = await asyncio.gather(*(change(number) for number in range(100)))
        assert on.session(first).version == 1 + len({answer.session.version for answer in answers} - {1})


async def test_of_changes_that_expect_the_same_version_one_wins() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        answers = await asyncio.gather(
            *(on.sessions.update_session_priority(CALLER, first, level, 1) for level in ("low", "high", "critical")),
            return_exceptions=True,
        )
        assert [isinstance(answer, VersionConflict) for answer in answers] == [False, True, True]


async def test_a_cancellation_whose_caller_went_away_still_stops_the_kernel() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        await on.advance()
        asked = asyncio.create_task(on.cancel(first))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        while not on.session(first).is_ended:
            await on.feed.reached(on.state.revision + 1)
        await on.settle()
        assert on.executor.agents[A].stopped == [f"{first}.1.0"]


async def test_a_change_that_raises_an_error_writes_nothing() -> None:
    async with stage([agent("a", devices=1)]) as on:
        before = on.state.revision

        def change(draft: UnitOfWork) -> None:
            draft.put(on.state.agents[A], "changed")
            raise StateConflict("not so", id="a", state="alive")

        with pytest.raises(StateConflict):
            await on.journal.transact(change, actor="ann")
        assert (on.state.revision, on.state.agents[A].version) == (before, 1)
        await on.submit()


class LateStore(WrappedStore):
    """Answers commits only when released, in any order."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.answers: dict[int, asyncio.Event] = {}
        """By the number of a commit's first event."""
        self.arrived = asyncio.Semaphore(0)
        self.is_late = False

    async def commit(self, batch: Batch) -> tuple[Event, ...]:
        events = await super().commit(batch)
        if self.is_late:
            answer = self.answers[events[0].number] = asyncio.Event()
            self.arrived.release()
            await answer.wait()
        return events


async def test_two_concurrent_first_charges_of_an_account_are_both_recorded() -> None:
    """Both insert the same row, and the first does not yet know of its success."""
    async with stage([agent("a", devices=2)], wrap=LateStore) as on:
        store = on.store
        assert isinstance(store, LateStore)
        sessions = [on.state.sessions[await on.submit()] for _ in range(2)]
        project, user = sessions[0].project, sessions[0].owner

        def charge(session: Session) -> Callable[[UnitOfWork], None]:
            def change(draft: UnitOfWork) -> None:
                account = draft.account(project, user) or Account(
                    id=account_id(project, user), project=project, user=user
                )
                draft.put(replace(account, charged=account.charged + 1), "charged")
                draft.put(session, "updated")

            return change

        store.is_late, before = True, on.state.revision
        first = asyncio.create_task(on.journal.transact(charge(sessions[0]), actor="ann"))
        await asyncio.wait_for(store.arrived.acquire(), 20)
        store.is_late = False
        await asyncio.wait_for(on.journal.transact(charge(sessions[1]), actor="ann"), 20)
        store.answers[before + 1].set()
        await first
        charged = on.state.accounts[account_id(project, user)]
        assert (charged.version, charged.charged) == (2, 2)


class CountingLateStore(LateStore):
    """Counts the reads of the log for other servers' commits."""

    read = 0

    async def news_after(self, seen: int, *, limit: int) -> tuple[Event, ...]:
        self.read += 1
        events: tuple[Event, ...] = await self._store.news_after(seen, limit=limit)
        return events


async def test_the_end_of_a_session_during_a_grant_waits_only_for_the_commit_of_the_grant() -> None:
    """On a quiet server there is no later commit to wait for."""
    async with stage([agent("a", devices=2)], wrap=CountingLateStore) as on:
        store = on.store
        assert isinstance(store, CountingLateStore)
        first = await on.submit()
        await on.advance()
        second = await on.submit()
        granted_at, store.is_late = on.state.revision + 1, True
        granting = asyncio.create_task(on.allocator.run_once())
        await asyncio.wait_for(store.arrived.acquire(), 20)
        store.is_late, store.read = False, 0
        on.executor.end_kernel(KernelId(f"{first}.1.0"))
        ending = asyncio.create_task(on.on_event(*on.executor.take_messages()))
        for _ in range(20):
            await asyncio.sleep(0)
        assert on.session(first).state is S.RUNNING
        store.answers[granted_at].set()
        await asyncio.wait_for(asyncio.gather(granting, ending), 20)
        assert (on.session(first).state, store.read) == (S.COMPLETED, 0)
        await on.settle()
        assert on.session(second).state is S.RUNNING


async def test_the_state_applies_commits_in_number_order_if_answers_arrive_out_of_order() -> None:
    async with stage([agent("a", devices=1)], wrap=LateStore) as on:
        store = on.store
        assert isinstance(store, LateStore)
        store.is_late = True
        before = on.state.revision
        creating = [asyncio.create_task(on.submit()) for _ in range(5)]
        for _ in creating:
            await asyncio.wait_for(store.arrived.acquire(), 20)
        store.answers[before + 5].set()
        store.answers[before + 3].set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert on.state.revision == before
        assert not any(task.done() for task in creating)
        store.answers[before + 1].set()
        await asyncio.wait_for(creating[0], 20)
        assert on.state.revision == before + 1
        store.answers[before + 2].set()
        await asyncio.wait_for(asyncio.gather(creating[1], creating[2]), 20)
        assert on.state.revision == before + 3
        store.answers[before + 4].set()
        ids = await asyncio.wait_for(asyncio.gather(*creating), 20)
        assert [event.number for event in await on.events()] == list(range(1, before + 6))
        assert set(ids) == set(on.state.sessions)


async def test_a_change_that_conflicts_with_another_server_reads_its_commits_and_succeeds() -> None:
    async with stage([agent("a", devices=1)]) as on:
        first = await on.submit()
        async with stage([], store=on.store) as other:
            await other.journal.catch_up()
            await other.sessions.update_session_priority(CALLER, first, "low", None)
        changed = await on.sessions.update_session_priority(CALLER, first, "high", None)
        assert (changed.session.version, on.session(first).version) == (3, 3)
        assert on.state.revision == len(await on.events())


async def test_tasks_of_an_array_that_end_during_a_pass_do_not_outdate_the_placements_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage([agent("a", devices=60)]) as on:
        array = await on.submit(array="0-119")
        await on.advance()
        first = [KernelId(f"{task_id(array, index=index)}.1.0") for index in range(60)]
        for kernel in first[:58]:
            on.executor.end_kernel(kernel)
        await on.settle()
        during = Interrupted(monkeypatch)
        deciding = asyncio.create_task(on.allocator.run_once())
        await during.decides()
        for kernel in first[58:]:
            on.executor.end_kernel(kernel)
        await on.settle()
        during.go_on()
        counts, _ = await deciding
        assert (counts.placed, counts.outdated) == (58, 0)
        await on.settle()
        tasks = on.session(array).tasks
        assert tasks is not None
        assert (str(tasks.waiting), len(tasks.active), len(tasks.completed)) == ("118-119", 58, 60)


async def test_an_array_changed_during_a_pass_is_not_placed_by_that_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage([agent("a", devices=4)]) as on:
        array = await on.submit(array="0-3")
        during = Interrupted(monkeypatch)
        deciding = asyncio.create_task(on.allocator.run_once())
        await during.decides()
        await on.sessions.update_session_priority(CALLER, array, "low", None)
        during.go_on()
        counts, _ = await deciding
        assert (counts.placed, counts.outdated) == (0, 4)


class Interrupted:
    """Passes that pause after deciding until released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._decides, self._goes_on = threading.Event(), threading.Event()
        monkeypatch.setattr(allocator, "decide", self._decide)

    async def decides(self) -> None:
        assert await asyncio.to_thread(self._decides.wait, 20)

    def go_on(self) -> None:
        self._goes_on.set()

    def _decide(self, *args: Any, **named: Any) -> Plan:
        plan = decide(*args, **named)
        self._decides.set()
        assert self._goes_on.wait(20)
        return plan


async def test_an_unknown_kernel_is_stopped_and_its_attempt_number_is_not_reused() -> None:
    """As after restoring a backup: the process is stopped, and its end does not end the next attempt."""
    async with stage([agent("a", devices=1)]) as on:
        session_id = await on.submit(held=True)
        stray = kernel_id(session_id, attempt=2, rank=0)
        on.executor.agents[AgentId("a")].running.add(stray)
        on.executor.reconnect_agent(AgentId("a"))
        await on.settle()
        assert on.executor.agents[AgentId("a")].stopped == [stray]
        await on.sessions.release_session(CALLER, session_id, None)
        await on.advance()
        assert (on.session(session_id).state, on.session(session_id).attempt) == (SessionState.RUNNING, 3)
