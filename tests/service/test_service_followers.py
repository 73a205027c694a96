"""Several servers on one database: followers answer and accept changes as the leader does."""

import asyncio
from contextlib import aclosing

import pytest

from aliquot.service.ports import StoreUnavailable
from aliquot_schema.errors import AliquotError
from aliquot_schema.ids import AgentId, KernelId, SessionId, UserId
from aliquot_schema.requests import Caller, Role
from aliquot_schema.states import SessionState
from leader_servers import CALLER, OneServer, servers_on
from service_bench import agent

pytestmark = pytest.mark.anyio

A = AgentId("a")
OPERATOR = Caller(user=UserId("olga"), request_id="req_test", role=Role.OPERATOR)


def kernel_of(session_id: SessionId, *, attempt: int = 1) -> KernelId:
    return KernelId(f"{session_id}.{attempt}.0")


async def test_a_session_submitted_to_a_follower_runs_and_its_end_is_seen_there(database_url: str) -> None:
    fake = agent("a", devices=1)
    async with servers_on(database_url, [fake]) as servers:
        leader, follower = servers.all
        assert (leader.leads, follower.leads) == (True, False)
        session_id = await follower.submit()
        await follower.until_state(session_id, SessionState.RUNNING)
        leader.executors[-1].end_kernel(kernel_of(session_id), code=3)
        await follower.until_state(session_id, SessionState.FAILED)
        # The follower may learn of a commit before the leader gets its answer.
        await leader.until_state(session_id, SessionState.FAILED)
        assert follower.session(session_id) == leader.session(session_id)
        assert fake.starts == [kernel_of(session_id)]


async def test_a_cancel_at_a_follower_makes_the_leader_stop_the_kernel(database_url: str) -> None:
    fake = agent("a", devices=1)
    async with servers_on(database_url, [fake]) as servers:
        leader, follower = servers.all
        session_id = await leader.submit()
        await follower.until_state(session_id, SessionState.RUNNING)
        await follower.cases.sessions.cancel_session(CALLER, session_id, None)
        await leader.until(lambda: fake.stopped == [kernel_of(session_id)])
        leader.executors[-1].end_kernel(kernel_of(session_id), code=None, signal=15)
        await follower.until(lambda: not follower.cases.state.holds_devices(session_id))


async def test_a_drain_and_a_resume_at_a_follower_take_effect(database_url: str) -> None:
    """A drain that evicts ends in a stop with the receipt's grace."""
    fake = agent("a", devices=1)
    async with servers_on(database_url, [fake]) as servers:
        leader, follower = servers.all
        session_id = await follower.submit()
        await follower.until_state(session_id, SessionState.RUNNING)
        await follower.cases.administration.agents.drain_agent(OPERATOR, "a", note=None, evicts=True)
        await leader.until(lambda: fake.stopped == [kernel_of(session_id)])
        leader.executors[-1].end_kernel(kernel_of(session_id), code=None, signal=15)
        await leader.until_state(session_id, SessionState.QUEUED)
        await follower.cases.administration.agents.resume_agent(OPERATOR, "a")
        await leader.until_state(session_id, SessionState.RUNNING)
        assert fake.starts == [kernel_of(session_id), kernel_of(session_id, attempt=2)]


async def test_a_follower_knows_why_sessions_wait(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        leader, follower = servers.all
        first, second = await leader.submit(), await leader.submit()
        for server in (leader, follower):
            await server.until(lambda server=server: second in server.cases.state.verdicts)
        assert follower.cases.state.verdicts[second].reason is leader.cases.state.verdicts[second].reason
        assert first not in follower.cases.state.verdicts


async def test_a_change_at_one_server_is_visible_to_the_next_request_at_the_other(database_url: str) -> None:
    """Right after the answer, without waiting for a notification: errors are of the current state."""
    async with servers_on(database_url, []) as servers:
        one, two = servers.all
        for _ in range(10):
            session_id = await one.submit(held=True)
            await two.cases.sessions.release_session(CALLER, session_id, None)
            await one.cases.sessions.hold_session(CALLER, session_id, None)
            changed = await two.cases.sessions.cancel_session(CALLER, session_id, None)
            assert await one.cases.queries.at_revision(changed.revision) >= changed.revision
            assert one.session(session_id).state is SessionState.CANCELED


async def test_a_change_that_another_server_reverted_is_made_again(database_url: str) -> None:
    async with servers_on(database_url, []) as servers:
        one, two = servers.all
        session_id = await one.submit(held=True)
        for _ in range(10):
            undone = await one.cases.sessions.update_session_priority(CALLER, session_id, "high", None)
            changed = await two.cases.sessions.update_session_priority(CALLER, session_id, "normal", None)
            assert changed.session.version == undone.session.version + 1


async def test_concurrent_changes_of_one_session_at_two_servers_all_succeed(database_url: str) -> None:
    """Conflicting changes are retried on the newer state; no version error is shown."""
    async with servers_on(database_url, []) as servers:
        session_id = await servers.all[0].submit(held=True)
        expected = {"low": 0, "normal": 0}

        async def set_priority(server: OneServer, priority: str) -> None:
            for _ in range(20):
                await server.cases.sessions.update_session_priority(CALLER, session_id, priority, None)

        await asyncio.gather(*(map(set_priority, servers.all * 2, (*expected, *expected))))
        one, two = servers.all
        await one.until(lambda: one.session(session_id) == two.session(session_id))


async def test_updates_are_followed_at_both_servers_without_gaps_or_repeats(database_url: str) -> None:
    async with servers_on(database_url, [agent("a", devices=4)]) as servers:
        one, two = servers.all
        begin = one.cases.state.revision
        await two.cases.queries.at_revision(begin)
        followed = [asyncio.create_task(_updates(server, begin, sessions=40)) for server in servers.all]
        await asyncio.gather(*(server.submit() for server in servers.all for _ in range(20)))
        seen = await asyncio.gather(*followed)
        assert seen[0] == seen[1]
        events = await one.database.store.events_after(begin, limit=10_000)
        told = [event.number for event in events if event.entity == "session"]
        assert seen[0] == told[: len(seen[0])]


async def test_one_idempotency_key_at_two_servers_creates_one_session(database_url: str) -> None:
    async with servers_on(database_url, []) as servers:
        asked = [server.submit(idempotency_key="once") for server in servers.all for _ in range(5)]
        assert len(set(await asyncio.gather(*asked))) == 1


async def test_a_session_may_depend_on_a_session_that_left_the_memory_of_the_leader(database_url: str) -> None:
    fake = agent("a", devices=1)
    async with servers_on(database_url, [fake]) as servers:
        leader, follower = servers.all
        first = await leader.submit()
        await leader.until_state(first, SessionState.RUNNING)
        leader.executors[-1].end_kernel(kernel_of(first))
        await follower.until_state(first, SessionState.COMPLETED)
        _forget_ended(leader)
        assert first not in leader.cases.state.sessions
        second = await follower.submit(depends_on=((first, "after_ok"),))
        await leader.until_state(second, SessionState.RUNNING)


async def test_a_follower_refuses_with_the_error_code_of_the_leader(database_url: str) -> None:
    async with servers_on(database_url, []) as servers:
        follower = servers.all[1]
        with pytest.raises(AliquotError) as refused:
            await follower.cases.sessions.cancel_session(CALLER, "ses_unknown", None)
        assert refused.value.code == "not_found"


def _forget_ended(server: OneServer) -> None:
    """As if thousands had ended since."""
    state = server.cases.state
    state._retention.most = 0
    state._evict()


async def _updates(server: OneServer, after: int, *, sessions: int) -> list[int]:
    """Event numbers until enough sessions were seen in the queue."""
    queued: set[str] = set()
    numbers = []
    async with asyncio.timeout(60), aclosing(server.cases.watching.queue_updates(CALLER, after)) as updates:
        async for update in updates:
            numbers.append(update.event_number)
            queued.add(update.session.id)
            if len(queued) == sessions:
                return numbers
    raise AssertionError("the updates ended")


async def test_concurrent_first_stops_of_the_orchestrator_at_two_servers_agree(database_url: str) -> None:
    """Both servers find its only row missing."""
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        leader, follower = servers.all
        told = (server.cases.administration.pause.stop_orchestrator(OPERATOR, None) for server in (leader, follower))
        await asyncio.gather(*told)
        await leader.until(lambda: leader.cases.state.orchestration.is_stopped)
        await follower.until(lambda: follower.cases.state.orchestration.is_stopped)
        assert leader.cases.state.orchestration == follower.cases.state.orchestration
        assert leader.cases.state.orchestration.version == 1


async def test_a_follower_that_cannot_reach_the_database_says_so_and_refuses_changes(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers_on(database_url, [agent("a", devices=1)]) as servers:
        cut = servers.all[1]

        async def too_many() -> bool:
            raise StoreUnavailable("sorry, too many clients already")

        async def silent() -> bool:
            raise StoreUnavailable("the database cannot be reached: TimeoutError") from TimeoutError()

        monkeypatch.setattr(cut.duty._seat, "take", silent)
        await cut.until(lambda: cut.duty.fault is not None)
        with pytest.raises(StoreUnavailable, match="cannot be reached: TimeoutError; try again"):
            await cut.submit()
        monkeypatch.setattr(cut.duty._seat, "take", too_many)
        await cut.until(lambda: cut.duty.fault is None)
        await cut.until_state(await cut.submit(), SessionState.RUNNING)
        monkeypatch.setattr(cut.duty._seat, "take", silent)
        await cut.until(lambda: cut.duty.fault is not None)
        monkeypatch.undo()
        await cut.until(lambda: cut.duty.fault is None)
