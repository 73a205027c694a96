"""Backtests of a recorded history: under the original policies every session starts as it did."""

from contextlib import aclosing
from itertools import pairwise

import pytest
from msgspec.structs import replace

from aliquot.app.backtests import ProcessBacktests
from aliquot.core.model.policy import Policy
from aliquot.core.simulation.backtest import Variant, backtest
from aliquot.core.simulation.history_run import run_history
from aliquot.core.simulation.recorded_history import AttemptEnd, HistoryRunSettings, RecordedFact, RecordedHistory
from aliquot.service.backtests.ports import BacktestOrder, OrderedRun
from aliquot.service.backtests.recording import record
from aliquot.store.ledger.ledger import DatabaseLedger
from aliquot_schema.errors import NotFound
from aliquot_schema.ids import AgentId, KernelId, SessionId, task_id
from aliquot_schema.policies import Backfill, PolicyDocument, Weights
from aliquot_schema.quotas import Quota, QuotaScope, quota_id
from aliquot_schema.resources.slots import SlotAmounts
from aliquot_schema.states import SessionState
from aliquot_schema.views.backtests import BacktestReport
from recorded_workloads import ROOT, RecordedCluster, recorded_cluster
from store_places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("place", ["sqlite"], indirect=True)]
LATE_US = 10**15


async def live(cluster: RecordedCluster, *, steps: int) -> None:
    await cluster.settle()
    await cluster.run(steps)


async def read(ledger: DatabaseLedger) -> RecordedHistory:
    return await record(ledger, since_us=0, until_us=LATE_US)


def starts_of(history: RecordedHistory) -> dict[str, int]:
    """The recorded start of each session."""
    return {name: session.attempts[0].granted_us for name, session in history.sessions.items() if session.attempts}


@pytest.mark.parametrize("seed", [1, 3])
async def test_a_backtest_under_the_recorded_policies_reproduces_every_start_time(place: Place, seed: int) -> None:
    async with recorded_cluster(place, seed=seed) as (cluster, store):
        await live(cluster, steps=160)
        history = await read(store.ledger)
    was = starts_of(history)
    outcome = run_history(history, HistoryRunSettings(exact=True))
    assert {name: outcome.granted_us.get(name) for name in was} == was
    assert len(was) > 50
    report = backtest(
        history, [Variant(label="more", like=AgentId("a"), count=2), Variant(label="fcfs", policy=Policy())]
    )
    assert (report.reproduced, report.different) == (report.sessions, ())
    base, more, fcfs = report.rows
    assert more.wait.mean < base.wait.mean < fcfs.wait.mean
    least = Quota(
        id=quota_id(QuotaScope.CLUSTER, ""), scope=QuotaScope.CLUSTER, max_slots=SlotAmounts.parse({"cuda.shares": "2"})
    )
    *_, slow = backtest(history, [Variant(label="less for all", changed_quotas=(least,))]).rows
    assert slow.wait.mean > base.wait.mean
    assert (base.winners_count, base.losers_count) == (0, 0)
    assert more.winners_count > more.losers_count
    assert sum(group.sessions for group in base.groups if group.kind == "user") == base.sessions == report.sessions
    assert 0 < base.utilization <= base.utilization_queued <= 1
    assert base.wait_quantiles[100] == base.wait.max


@pytest.mark.parametrize(
    ("order", "signal", "seed"),
    [
        ("priority", "USR1", 2),
        ("priority", "USR1", 13),
        ("priority", None, 9),
        ("srtf", "USR1", 13),
        ("las", "USR1", 15),
    ],
)
async def test_a_backtest_repeats_preemptions(place: Place, order: str, signal: str | None, seed: int) -> None:
    """Also several in a row, what resumed sessions are planned with, and lost work that is not run again."""
    async with recorded_cluster(place, seed=seed) as (cluster, store):
        await cluster.settle()
        rules = replace(cluster.on.state.policy.preemption, run_ms_min=0, grace_ms=1000, restart_ms=1000)
        document = replace(cluster.on.state.policy, order=order, preemption=rules)
        await cluster.on.journal.transact(lambda draft: draft.put(document, "changed"), actor="root")
        cluster.given = {"preemptible": True, "checkpoint_signal": signal}
        if order != "las":
            cluster.given["time_limit"] = None
        for _ in range(120):
            await cluster.run(1)
            await leave(cluster)
        history = await read(store.ledger)
    attempts = [one for session in history.sessions.values() for one in session.attempts]
    assert sum(one.end is AttemptEnd.PREEMPTED for one in attempts) > 3
    assert any(one.kept_ms for one in attempts) == (signal is not None)
    was, outcome = starts_of(history), run_history(history, HistoryRunSettings(exact=True))
    assert {name: outcome.granted_us.get(name) for name in was} == was


async def test_a_record_begins_before_its_time_also_where_the_next_pass_has_a_checkpoint(place: Place) -> None:
    """As after a restart of the server."""
    async with recorded_cluster(place, seed=2) as (cluster, store):
        await live(cluster, steps=40)
        since_us = cluster.on.clock.now_us() + 1
        cluster.recorder.watch.want_checkpoint()
        await cluster.run(40)
        history = await record(store.ledger, since_us=since_us, until_us=LATE_US)
    assert (history.since_us, history.notes) == (since_us, ())
    assert history.begins_us < since_us
    was, outcome = starts_of(history), run_history(history, HistoryRunSettings(exact=True))
    assert {name: outcome.granted_us.get(name) for name in was} == was


async def test_a_short_session_starts_while_another_overruns_and_a_backtest_repeats_it(place: Place) -> None:
    """Nothing else happens meanwhile: without a pass by the clock, free GPUs would stay idle."""
    async with recorded_cluster(place) as (cluster, store):
        document = replace(cluster.on.state.policy, order="fcfs")
        await cluster.on.journal.transact(lambda draft: draft.put(document, "changed"), actor="root")
        await cluster.settle()
        cluster.given = {"slots": [("cuda.device", "4")], "cluster_size": 1, "priority": "normal", "time_limit": None}
        await cluster.submit("ann", estimated_duration=600)
        await cluster.submit("ann", estimated_duration=600, cluster_size=2, slots=[("cuda.device", "3")])
        await cluster.submit("bob", cluster_size=3)
        short = await cluster.submit("cat", slots=[("cuda.device", "1")], time_limit=1200.0)
        await cluster.settle()
        await cluster.advance(1700)
        assert cluster.on.state.sessions[SessionId(short)].started_us is None
        await cluster.advance(200)
        assert cluster.on.state.sessions[SessionId(short)].started_us is not None
        history = await read(store.ledger)
    was, outcome = starts_of(history), run_history(history, HistoryRunSettings(exact=True))
    assert {name: outcome.granted_us.get(name) for name in was} == was
    assert len(was) == 3


async def test_a_backtest_names_the_number_of_sessions_that_never_start(place: Place) -> None:
    """Their waits end with the run, which may be soon."""
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        for size in (3, 2):
            await cluster.submit("ann", slots=[("cuda.device", "4")], cluster_size=size)
            await cluster.settle()
            for _ in range(size):
                await cluster.advance(100)
                await cluster.end()
                await cluster.settle()
        history = await read(store.ledger)
    report = backtest(
        history, [Variant(label="two nodes", without=(AgentId("a"),)), Variant(label="as many", policy=Policy())]
    )
    assert report.sessions == 2
    assert report.notes[-1] == (
        "two nodes: sessions that never start: 1; they count as waiting until the end of the run"
    )


async def test_agents_like_one_that_joined_later_are_there_from_the_beginning(place: Place) -> None:
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        for _ in range(6):
            await cluster.submit("ann", slots=[("cuda.device", "4")], cluster_size=1)
            await cluster.settle()
        for _ in range(6):
            await cluster.advance(100)
            await cluster.end()
            await cluster.settle()
        history = await read(store.ledger)
    [late, *others] = history.surroundings.agents
    joins = RecordedFact(at_us=history.until_us, surroundings=history.surroundings)
    history = replace(
        history,
        surroundings=replace(history.surroundings, agents=tuple(others)),
        facts=(*history.facts, joins),
    )
    report = backtest(
        history, [Variant(label="more", like=late.id, count=6), Variant(label="none", like=AgentId("gone"), count=1)]
    )
    base, more, _ = report.rows
    assert more.wait.max < 1 < base.wait.max
    assert "none: no agents were added, as gone was not there in this time" in report.notes


async def test_a_backtest_repeats_manual_changes_and_names_them(place: Place) -> None:
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        first = [await cluster.submit("ann", slots=[("cuda.device", "4")], cluster_size=1) for _ in range(3)]
        await cluster.settle()
        held = await cluster.submit("bob", slots=[("cuda.device", "1")], cluster_size=1, held=True)
        waiting = await cluster.submit("cat", slots=[("cuda.device", "1")], cluster_size=1)
        await cluster.settle()
        await cluster.advance(30)
        await cluster.on.cancel(waiting)  # type: ignore[arg-type]  # the id of a session
        for _ in first:
            await cluster.advance(20)
            await cluster.end()
            await cluster.settle()
        history = await read(store.ledger)
    outcome = run_history(history, HistoryRunSettings(exact=True))
    assert dict(outcome.granted_us) == starts_of(history)
    assert set(outcome.granted_us) == set(first)
    assert not history.sessions[held].attempts  # type: ignore[index]  # the id of a session


async def test_a_session_that_was_run_again_is_not_counted(place: Place) -> None:
    """Its last submission is after its first start: its wait would count as zero."""
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        first = [await cluster.submit("ann", slots=[("cuda.device", "4")], cluster_size=3) for _ in range(2)]
        await cluster.settle()
        for _ in range(3 * len(first)):
            await cluster.advance(100)
            await cluster.end()
            await cluster.settle()
        again = first[1]
        await cluster.advance(3600)
        await cluster.on.sessions.retry_session(ROOT, again, None)
        await cluster.settle()
        for _ in range(3):
            await cluster.end()
            await cluster.settle()
        history = await read(store.ledger)
    assert history.sessions[again].is_run_again  # type: ignore[index]  # the id of a session
    assert [session.name for session in history.counted] == [first[0]]
    assert history.notes[-1] == "sessions that were run again after their end are not counted: 1"


async def test_a_canceled_task_frees_its_array_place_before_its_devices(place: Place) -> None:
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        array = await cluster.submit("ann", slots=[("cuda.device", "1")], cluster_size=1, array="0-1", max_parallel=1)
        await cluster.settle()
        await cluster.advance(30)
        await cluster.on.cancel(task_id(SessionId(array), index=0))
        await cluster.settle()
        await cluster.advance(30)
        for _ in range(2):
            await cluster.end()
            await cluster.settle()
        history = await read(store.ledger)
    outcome = run_history(history, HistoryRunSettings(exact=True))
    assert len(outcome.granted_us) == 2
    assert dict(outcome.granted_us) == starts_of(history)


async def test_an_array_whose_last_task_starts_and_ends_between_two_passes_was_not_canceled(place: Place) -> None:
    """Where its tasks start later, all of them still start."""
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        await cluster.submit("ann", slots=[("cuda.device", "4")], cluster_size=1, array="0-3")
        await cluster.settle()
        await cluster.advance(60)
        await cluster.end()
        await cluster.on.allocator.run_once()
        await cluster.on.settle()
        for _ in range(3):
            await cluster.end()
        await cluster.submit("bob", slots=[("cuda.device", "4")], cluster_size=1)
        await cluster.settle()
        history = await read(store.ledger)
    assert [fact.withdrawal for fact in history.facts if fact.withdrawal] == []
    [_, one_node] = backtest(history, [Variant(label="one node", without=(AgentId("a"), AgentId("b")))]).rows
    assert one_node.sessions == 4
    assert one_node.wait.max > 100


async def test_a_backlog_peak_found_by_the_last_pass_affects_later_passes(place: Place) -> None:
    """Age counts little after the peak, so the short wide session stays ahead of the long one and nothing starts:
    no time is missing in the record."""
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        weights = Weights(age=64, short=4)
        document = replace(cluster.on.state.policy, order="relative_age", backfill=Backfill.NONE, weights=weights)
        await cluster.on.journal.transact(lambda draft: draft.put(document, "changed"), actor="root")
        given = {"cluster_size": 1, "priority": "low", "time_limit": None}
        for gpus in ("4", "4", "3"):
            await cluster.submit("ann", **(given | {"slots": [("cuda.device", gpus)], "time_limit": 7200.0}))
        await cluster.settle()
        first, *_ = [
            await submitted(cluster, **(given | more))
            for more in (
                {"slots": [("cuda.device", "4")], "cluster_size": 3, "priority": "critical", "estimated_duration": 60},
                {"slots": [("cuda.device", "1")], "estimated_duration": 20 * 3600},
                {"slots": [("cuda.device", "4")], "estimated_duration": 60},
            )
        ]
        await cluster.on.cancel(first)  # type: ignore[arg-type]  # the id of a session
        last = await submitted(
            cluster, **(given | {"slots": [("cuda.device", "4")], "cluster_size": 3, "estimated_duration": 20 * 86400})
        )
        await cluster.on.cancel(last)  # type: ignore[arg-type]  # the id of a session
        await cluster.settle()
        await cluster.advance(30)
        assert len([one for one in cluster.on.state.sessions.values() if one.state is SessionState.RUNNING]) == 3
        await cluster.end()
        await cluster.settle()
        history = await read(store.ledger)
    was, outcome = starts_of(history), run_history(history, HistoryRunSettings(exact=True))
    assert history.gaps_us == ()
    assert {name: outcome.granted_us.get(name) for name in was} == was


async def leave(cluster: RecordedCluster) -> None:
    """Preempted sessions stop after ten seconds."""
    preempted = {one.id for one in cluster.on.state.sessions.values() if one.state is SessionState.PREEMPTING}
    if not preempted:
        return
    await cluster.advance(10)
    for one in cluster.on.executor.agents.values():
        for name in sorted(one.running):
            if name.split(".")[0] in preempted:
                cluster.on.executor.end_kernel(KernelId(name), code=None, signal=15)
    await cluster.on.settle()
    await cluster.settle()


async def submitted(cluster: RecordedCluster, **more: object) -> str:
    """The id of a waiting session, an hour later."""
    name = await cluster.submit("ann", **more)
    await cluster.settle()
    await cluster.advance(3600)
    return name


async def test_progress_is_of_the_work_when_most_sessions_start_after_the_end_of_the_record(place: Place) -> None:
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        for _ in range(12):
            await cluster.submit("ann", slots=[("cuda.device", "4")], cluster_size=1)
            await cluster.settle()
        history = await read(store.ledger)
    parts: list[float] = []
    run_history(history, HistoryRunSettings(exact=True), on_progress=parts.append)
    assert parts == sorted(parts)
    steps = [later - earlier for earlier, later in pairwise([0.0, *parts])]
    assert max(steps) < 0.2


async def test_a_backtest_in_its_own_process_runs_beside_the_server(place: Place) -> None:
    runner = ProcessBacktests(database_url="", data_folder=place.folder)
    run = OrderedRun(label="first come", policy=PolicyDocument(order="fcfs"))
    async with recorded_cluster(place) as (cluster, store):
        await live(cluster, steps=60)
        sessions = len((await read(store.ledger)).counted)
        heard = []
        async with aclosing(runner.run(BacktestOrder(since_us=0, until_us=LATE_US, runs=(run,)))) as news:  # type: ignore[type-var]
            async for one in news:
                heard.append(one)
        reports: list[BacktestReport] = [one.report for one in heard if one.report is not None]
        assert [report.sessions for report in reports] == [sessions]
        assert [row.label for row in reports[0].rows][1:] == ["first come"]
        assert reports[0].different == ()
        progress = [one.progress for one in heard if one.progress is not None]
        assert progress == sorted(progress)
        assert heard[-1].report is not None


async def test_a_time_without_a_record_is_refused(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    runner = ProcessBacktests(database_url="", data_folder=place.folder)
    async with recorded_cluster(place) as (cluster, store):
        await cluster.settle()
        with pytest.raises(NotFound):
            await record(store.ledger, since_us=LATE_US, until_us=LATE_US + 1)
        run = OrderedRun(label="x", policy=PolicyDocument())
        async with aclosing(runner.run(BacktestOrder(since_us=LATE_US, until_us=LATE_US + 1, runs=(run,)))) as news:  # type: ignore[type-var]
            heard = [one async for one in news]
    assert [one.failure for one in heard if one.failure] == [heard[-1].failure]
    assert "recorded" in str(heard[-1].failure)
    assert capfd.readouterr().err == "", "the process ends without a word"
