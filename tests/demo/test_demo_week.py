"""The demo's week of history: exactly what a server of these sessions would have written."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from aliquot.app.agents import token_file_of
from aliquot.app.demo import begin_demo, with_demo
from aliquot.core.billing.entries import device_hours
from aliquot.core.scheduler.shares import weight_of
from aliquot.core.simulation.history_run import run_history
from aliquot.core.simulation.recorded_history import HistoryRunSettings
from aliquot.demo.readings import store_readings
from aliquot.demo.scenario import PEOPLE, PROJECTS, TAG, submissions
from aliquot.demo.week import WEEK_US, GeneratedWeek
from aliquot.errors import ConfigurationError
from aliquot.service.audit.audit import AuditStore
from aliquot.service.backtests.recording import record
from aliquot.service.history.grids import covering
from aliquot.service.history.measures import WHOLE, MeasureKind, index_of
from aliquot.service.history.ports import HeldAmount
from aliquot.service.ledger.entries import entries_of
from aliquot.service.ledger.replay import replay
from aliquot.service.ports import LoadedRows
from aliquot.service.use_cases import state_of
from aliquot.settings import Settings
from aliquot.store.open import open_store
from aliquot.store.store import DatabaseStore
from aliquot.store.timeseries.held_gpus import DatabaseHoldings
from aliquot.store.timeseries.history_store import HistoryDatabase, HistoryPlan, place_of
from aliquot.store.timeseries.tiers import TierRetention
from aliquot_schema.states import SessionState
from service_stage import broken

pytestmark = pytest.mark.anyio

HOUR_US = 3_600_000_000
LOAD = index_of(MeasureKind.DEVICES, "utilization")
HELD = index_of(MeasureKind.DEVICES, "held")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True, kw_only=True)
class StoredWeek:
    """A week, and the store of the cluster that holds it."""

    week: GeneratedWeek
    store: DatabaseStore
    loaded: LoadedRows
    folder: Path


@pytest.fixture(scope="module")
async def stored(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StoredWeek]:
    settings = with_demo(Settings(demo_live="yes", data_folder=tmp_path_factory.mktemp("week")))
    week = await begin_demo(settings)
    assert week is not None
    folder = settings.data_folder
    store = open_store("", data_folder=folder, now_us=lambda: week.until_us)
    loaded = await store.open()
    await store_readings(week, place_of("", data_folder=folder, now_us=lambda: week.until_us)())
    yield StoredWeek(week=week, store=store, loaded=loaded, folder=folder)
    await store.close()


async def test_every_decision_replays_without_a_difference(stored: StoredWeek) -> None:
    keys = await stored.store.ledger.last(100_000)
    found = [one async for one in replay(stored.store.ledger, first=keys[0].number, last=keys[-1].number)]
    assert [one.differences for one in found if one.differences] == []
    assert sum(one.entry.lost for one in found) == 0
    assert sum(one.placements for one in found) == sum(session.attempt for session in stored.week.sessions)


async def test_a_backtest_of_the_demo_week_starts_every_session_when_it_started(stored: StoredWeek) -> None:
    keys = await stored.store.ledger.last(100_000)
    ledger = entries_of(stored.store.ledger, first=keys[0].number, last=keys[-1].number)
    times_us = [entry.now_us async for entry in ledger]
    assert times_us == sorted(set(times_us)), "no two passes of a server are at the same time"
    history = await record(stored.store.ledger, since_us=0, until_us=stored.week.until_us)
    granted_us = run_history(history, HistoryRunSettings(exact=True)).granted_us
    was = {one.name: one.attempts[0].granted_us for one in history.counted}
    assert {name: granted_us.get(name) for name in was} == was


async def test_the_records_of_the_demo_week_verify_and_match_the_state(stored: StoredWeek) -> None:
    book: AuditStore = stored.store.book
    counts = await book.verified()
    assert counts.faults == ()
    state = await state_of(stored.loaded, store=stored.store)
    assert broken(state) == []
    assert {user for user in state.people.users} == {person.name for person in PEOPLE}
    assert {quota.name for quota in state.quotas.values()} >= PROJECTS.keys()
    assert min(map(weight_of, state.quotas.values())) == weight_of(None)


async def test_usage_equals_the_hours_held_by_leases(stored: StoredWeek) -> None:
    week = stored.week
    hours: dict[str, float] = defaultdict(float)
    async for page in DatabaseHoldings(stored.store).between(week.since_us, week.until_us):
        for held in page:
            hours[held.owner] += _gpu_hours(held)
    expected: dict[str, float] = defaultdict(float)
    for lease in week.leases:
        assert lease.released_us is not None
        for slot, amounts in lease.spec.items():
            part = 1.0 if slot == "cuda.device" else 0.001
            span = (lease.released_us - lease.granted_us) / HOUR_US
            expected[lease.owner] += sum(amounts.values()) * part * span if slot.startswith("cuda.") else 0.0
    assert hours.keys() == {person.name for person in PEOPLE}
    assert hours == pytest.approx(expected)
    assert 0.6 < sum(hours.values()) / (16 * 7 * 24) < 1.0


async def test_the_statements_of_the_demo_week_have_what_was_held(stored: StoredWeek) -> None:
    state = await state_of(stored.loaded, store=stored.store)
    entered = sum(one.held for one in state.statements.values() if one.account.startswith("project:"))
    held = 0.0
    async for page in DatabaseHoldings(stored.store).between(stored.week.since_us, stored.week.until_us):
        held += sum(map(_gpu_hours, page))
    assert device_hours(entered) == pytest.approx(held, rel=1e-3)


def _gpu_hours(held: HeldAmount) -> float:
    part = 1.0 if held.slot == "cuda.device" else 0.001
    return held.amount * part * (held.ended_us - held.from_us) / HOUR_US


async def test_every_demo_session_is_tagged_and_has_ended(stored: StoredWeek) -> None:
    week = stored.week
    assert all(TAG in session.tags for session in week.sessions)
    assert all(session.is_ended for session in week.sessions)
    assert all(week.since_us <= session.queued_us <= week.until_us for session in week.sessions)
    states = Counter(session.state for session in week.sessions)
    assert states[SessionState.COMPLETED] > 100
    assert states[SessionState.FAILED] > 5
    assert any(session.tasks is not None for session in week.sessions)
    assert any(session.spec.cluster_size > 1 for session in week.sessions)


async def test_device_readings_match_the_holdings(stored: StoredWeek) -> None:
    week, place = stored.week, place_of("", data_folder=stored.folder, now_us=lambda: stored.week.until_us)
    clock = lambda: week.until_us  # noqa: E731
    history = HistoryDatabase(
        HistoryPlan(make_database=place, kept=TierRetention(), interval_s=2.0, now_us=clock, wall_us=clock)
    )
    await history.open()
    try:
        day = covering(week.until_us - 24 * HOUR_US, week.until_us - HOUR_US, step_s=60)
        hour = covering(week.until_us - HOUR_US, week.until_us - 60_000_000, step_s=10)
        for grid in (day, hour):
            for agent in week.agents:
                for device, curves in (await history.gathered(MeasureKind.DEVICES, agent.id, grid)).items():
                    load, held = curves.mean[LOAD], curves.mean[HELD]
                    assert not (load[held == 0] > 0).any(), device
                    working = load[(held == 1000) & (load > 0)]
                    assert ((working >= 59.5) & (working <= 97.5)).all(), device
            queue = (await history.gathered(MeasureKind.QUEUE, "", grid))[WHOLE]
            total = queue.mean[index_of(MeasureKind.QUEUE, "gpus_total")]
            assert (total == 16).all()
        idle = [work for work in week.work.values() if work.is_idle]
        assert idle, "somebody holds a GPU without using it"
    finally:
        await history.close()


def test_the_same_seed_gives_the_same_demo_week() -> None:
    weeks = [list(submissions(Random(seed), since_us=0, until_us=WEEK_US)) for seed in (7, 7, 8)]
    assert weeks[0] == weeks[1] != weeks[2]
    assert [one.at_us for one in weeks[0]] == sorted(one.at_us for one in weeks[0])


async def test_an_existing_cluster_is_left_unchanged_by_the_demo(stored: StoredWeek) -> None:
    """After a crash in the first second its mark may be missing."""
    settings = with_demo(Settings(demo_live="yes", data_folder=stored.folder.parent))
    assert settings.data_folder == stored.folder
    await stored.store.close()
    try:
        assert await begin_demo(settings) is None
    finally:
        await stored.store.open()


def test_the_living_demo_uses_a_data_folder_separate_from_the_real_cluster(tmp_path: Path) -> None:
    plain = Settings(data_folder=tmp_path)
    assert with_demo(plain) is plain
    assert token_file_of(plain) == tmp_path / "token"
    live = with_demo(Settings(data_folder=tmp_path, demo_live="yes"))
    assert live.data_folder == tmp_path / "demo"
    assert token_file_of(live) == tmp_path / "token", "the command line finds the server as usual"


def test_auto_starts_the_demo_only_without_gpus_and_without_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto = Settings(data_folder=tmp_path, demo_live="auto")
    assert with_demo(auto).demo_live == "yes"
    assert with_demo(Settings(data_folder=tmp_path, demo_live="auto", demo=True)).demo_live == "no"
    assert with_demo(Settings(data_folder=tmp_path, demo_live="auto", local_agents=False)).demo_live == "no"
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "aliquot.db").touch()
    assert with_demo(auto).demo_live == "no", "a cluster was started here"


def test_the_living_demo_refuses_a_configured_database(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="leave out database"):
        with_demo(Settings(data_folder=tmp_path, demo_live="yes", database="postgresql+asyncpg://db/aliquot"))
