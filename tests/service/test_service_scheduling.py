"""What a pass of the live server sees, charges and predicts."""

import pytest
from msgspec.structs import replace

from aliquot.core.model.queue import ESTIMATE_MS, WORKLOAD, Queue
from aliquot.service.scheduling.allocator import backoff_s
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot_schema.ids import SessionId, kernel_id
from aliquot_schema.policies import Backfill, PolicyDocument
from aliquot_schema.quotas import Account
from aliquot_schema.sessions import DEFAULT_PROJECT, Priority
from aliquot_schema.states import SessionState as S
from leader_stage_stores import reread
from service_bench import agent
from service_stage import CALLER, Stage, stage

pytestmark = pytest.mark.anyio
HOUR_S = 3600


def ends(on: Stage, session_id: SessionId, *, code: int = 0) -> None:
    """Its first rank exits."""
    attempt = on.session(session_id).attempt
    on.executor.end_kernel(kernel_id(session_id, attempt=attempt, rank=0), code=code)


async def ran(on: Stage, seconds: float, **more: object) -> SessionId:
    """A session that ran for so long."""
    session_id = await on.submit(**more)
    await on.advance()
    on.clock.advance(seconds)
    ends(on, session_id)
    await on.settle()
    return session_id


@pytest.mark.parametrize(
    ("took_s", "is_idle", "is_woken", "expected"),
    [
        (0.002, False, True, (0.0, 0.0)),
        (0.002, True, True, (0.002, 0.048)),
        (0.01, False, False, (0.0, 0.0)),
        (0.01, False, True, (0.01, 0.0)),
        (0.01, True, False, (0.01, 0.04)),
        (0.02, True, False, (0.02, 0.06)),
        (0.15, True, True, (0.15, 0.05)),
        (0.3, True, False, (0.3, 0.0)),
        (600.0, True, True, (2.0, 0.0)),
        (600.0, False, True, (2.0, 0.0)),
    ],
)
def test_back_off_after_a_pass(took_s: float, is_idle: bool, is_woken: bool, expected: tuple[float, float]) -> None:
    assert backoff_s(took_s, is_idle=is_idle, is_woken=is_woken) == pytest.approx(expected)


async def test_a_short_session_passes_the_head_and_a_long_one_does_not() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await on.submit(time_limit=HOUR_S)
        await on.advance()
        head = await on.submit(devices=2, time_limit=HOUR_S)
        long = await on.submit(time_limit=10 * HOUR_S)
        short = await on.submit(time_limit=60)
        await on.advance()
        assert [on.session(name).state for name in (head, long, short)] == [S.QUEUED, S.QUEUED, S.RUNNING]


async def test_another_policy_takes_effect_in_the_next_pass() -> None:
    async with stage([agent("a", devices=2)]) as on:
        await on.submit()
        await on.advance()
        head = await on.submit(devices=2)
        short = await on.submit(time_limit=60)
        strict = PolicyDocument(order="fcfs", backfill=Backfill.NONE)
        await on.journal.transact(lambda draft: draft.put(strict, "changed"), actor="ann")
        assert (on.state.policy.version, on.state.rules.order) == (1, "fcfs")
        await on.advance()
        assert [on.session(name).state for name in (head, short)] == [S.QUEUED, S.QUEUED]
        easy = replace(on.state.policy, backfill=Backfill.EASY)
        await on.journal.transact(lambda draft: draft.put(easy, "changed"), actor="ann")
        await on.advance()
        assert (on.session(short).state, on.state.policy.version) == (S.RUNNING, 2)


async def test_sessions_start_under_a_policy_with_unknown_names() -> None:
    async with stage([agent("a", devices=1)]) as on:
        odd = PolicyDocument(order="lottery", placement="nowhere")
        await on.journal.transact(lambda draft: draft.put(odd, "changed"), actor="ann")
        session = await on.submit()
        await on.advance()
        assert on.session(session).state is S.RUNNING


async def test_a_snapshot_contains_running_sessions_with_their_holdings_and_ends() -> None:
    async with stage([agent("a", devices=2)]) as on:
        session = await on.submit(time_limit=HOUR_S, preemptible=False)
        await on.allocator.run_once()
        (granted,) = take(on.state).running
        assert granted.started_us is None
        assert granted.ends_us == on.session(session).scheduled_us + HOUR_S * 10**6
        await on.settle()
        (row,) = take(on.state).running
        started_us = on.session(session).started_us
        assert started_us is not None
        assert (row.started_us, row.ends_us, row.milli) == (started_us, started_us + HOUR_S * 10**6, 1000)
        assert (row.owner, row.project, row.priority) == (CALLER.user, DEFAULT_PROJECT, Priority.NORMAL)
        assert (row.version, row.is_leaving) == (on.session(session).version, False)
        assert take(on.state).running[0] is row
        await on.cancel(session)
        (leaving,) = take(on.state).running
        assert leaving.is_leaving
        assert leaving.ends_us == on.session(session).ended_us
        ends(on, session)
        await on.settle()
        assert take(on.state).running == ()


async def test_the_columns_of_the_queue_match_the_waiting_sessions() -> None:
    async with stage([agent("a", devices=1)]) as on:
        names: list[SessionId] = []
        for count in range(30):
            names.append(await on.submit(estimated_duration=count + 1))
            if count % 3 == 2:
                await on.cancel(names[count - 1])
            queue = take(on.state).queue
            assert isinstance(queue, Queue)
            assert queue.rows == Queue.of(tuple(on.state.pending.values())).rows
            assert queue.column(ESTIMATE_MS).tolist() == [row.estimate_ms for row in queue.rows]
            assert [queue.workloads()[number] for number in queue.column(WORKLOAD).tolist()] == [
                row.workload for row in queue.rows
            ]
        assert take(on.state).queue is take(on.state).queue


async def test_ended_runs_predict_run_times_also_after_a_restart() -> None:
    async with stage([agent("a", devices=1)]) as on:
        for seconds in (100, 300, 200):
            await ran(on, seconds, argv=("python", "train.py"))
        waits = await on.submit(argv=("python", "train.py"))
        said = await on.submit(argv=("python", "train.py"), estimated_duration=7)
        rows = {row.session_id: row for row in take(on.state).queue}
        workload = rows[waits].workload
        assert workload is not None
        assert (rows[waits].estimate_ms, rows[said].estimate_ms) == (None, 7_000)
        assert on.state.forecasts.run_times() == {workload: (200_000, 200_000)}
        forecast = on.state.forecasts.of(waits)
        assert forecast is not None
        assert forecast.sentence() == "mean of ann's last 3 runs of train.py on 1 GPU: 3 min 20 s"
        again = await loaded(on)
        assert again.forecasts.of(waits) == forecast
        assert again.forecasts.run_times() == on.state.forecasts.run_times()
        assert take(again).queue.rows == take(on.state).queue.rows  # type: ignore[attr-defined]  # both are queues


async def test_the_end_of_a_similar_run_updates_the_prediction_of_waiting_sessions() -> None:
    async with stage([agent("a", devices=1)]) as on:
        for seconds in (100, 100):
            await ran(on, seconds, argv=("python", "train.py"))
        waits = await on.submit(argv=("python", "train.py"), name="first")
        await on.submit(argv=("python", "train.py"))
        assert on.state.forecasts.of(waits) is None
        await on.advance()
        runs = next(name for name, one in on.state.sessions.items() if one.state is S.RUNNING)
        rest = next(iter(on.state.pending))
        assert on.state.forecasts.of(rest) is None
        on.clock.advance(400)
        ends(on, runs)
        await on.settle()
        found = on.state.forecasts.of(rest)
        assert found is not None
        assert found.estimate_ms == 200_000
        assert take(on.state).run_times == on.state.forecasts.run_times() != {}


async def test_canceled_sessions_give_no_prediction() -> None:
    async with stage([agent("a", devices=1)]) as on:
        session = await on.submit()
        await on.advance()
        on.clock.advance(50)
        await on.cancel(session)
        ends(on, session)
        await on.settle()
        waits = await on.submit()
        assert on.state.forecasts.of(waits) is None


async def test_held_devices_are_charged_to_the_owner_when_released() -> None:
    async with stage([agent("a", devices=4)]) as on:
        gang = await on.submit(kernels=2)
        await on.advance()
        on.clock.advance(10)
        for rank in range(2):
            on.executor.end_kernel(kernel_id(gang, attempt=1, rank=rank))
        await on.settle()
        (account,) = on.state.accounts.values()
        assert (account.user, account.project, account.version) == (CALLER.user, DEFAULT_PROJECT, 1)
        assert account.charged == pytest.approx(2 * 1000 * 10_000, rel=1e-3)
        assert [event.kind for event in await on.events() if isinstance(event.record, Account)] == ["account.charged"]
        held = await on.submit(devices=2)
        await on.advance()
        on.clock.advance(5)
        again = await loaded(on)
        now_us = on.clock.now_us()
        place = (DEFAULT_PROJECT, CALLER.user)
        live, reread = on.state.usage.balances[place], again.usage.balances[place]
        assert live.holds_milli == reread.holds_milli == 2000
        assert live.used_at(now_us) == pytest.approx(reread.used_at(now_us), abs=10)
        assert live.held(0, now_us=now_us).charged == reread.held(0, now_us=now_us).charged
        ends(on, held)
        await on.settle()
        assert on.state.usage.balances[place].holds_milli == 0
        assert on.state.usage.record(DEFAULT_PROJECT, CALLER.user).charged == on.state.accounts[account.id].charged


async def loaded(on: Stage) -> State:
    """The state that a server would load."""
    rows = await reread(on.store)
    state = State()
    state.load(rows.records, revision=rows.revision, ended_complete=rows.ended_complete)
    return state
