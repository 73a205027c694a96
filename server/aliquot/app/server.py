"""Server without its listener: joins the database, takes part in the election, and leads while it has the lock.

A standalone server does the same; its lock is always free.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from aliquot.app.agents import AgentExecutors
from aliquot.app.backtests import ProcessBacktests
from aliquot.app.features import Features, begin, forecasts_of, history_kept, parts_of, retention_of
from aliquot.app.running import LeaderRuntime, OwnOutputs, Running, WatchedDatabase, WatchedTask, first_of
from aliquot.clock import RandomIds, SystemClock
from aliquot.errors import ServerError
from aliquot.execution.remote.agent_keys import AgentKeys
from aliquot.execution.remote.executor import RemoteGateway
from aliquot.service.backtests.ports import BacktestSources
from aliquot.service.leadership.clock_keeper import check_clock
from aliquot.service.leadership.election import LeaderElection
from aliquot.service.leadership.leader import LeaderTerm
from aliquot.service.leadership.ports import TermStart
from aliquot.service.state.state import State
from aliquot.service.use_cases import UseCases, state_of
from aliquot.store.cluster_mark import MarkFile
from aliquot.store.engines.database import damage, unavailability
from aliquot.store.open import ServerDatabase, open_database
from aliquot.store.timeseries.history_store import HistoryDatabase
from aliquot_schema.errors import AliquotError
from aliquot_schema.orchestration import CLOCK_CORRECTED
from aliquot_schema.views.server import RayView

if TYPE_CHECKING:
    from aliquot.app.outputs import LeaderOutputs

log: Final = logging.getLogger("aliquot.store")


class ServerPlan(Struct, frozen=True, kw_only=True):
    """Everything a server is made of."""

    database_url: str
    """Empty: SQLite in the data folder."""
    data_folder: Path
    address: str
    """URL at which users, agents and other servers reach this one."""
    token: str
    """Shared by all servers of one database."""
    clock: SystemClock
    keys: AgentKeys
    make_side: Callable[[State, TermStart], AgentExecutors]
    must_lead: bool
    """Whether it has local agents, which no other server can reach."""
    outfit: Features
    mark: MarkFile
    check_disk: Callable[[], str | None]
    """Checks the disks of the data folder and the database: returns a message when space is short."""
    accepts_clock: bool = False
    """Whether to start although the newest event is more than a day ahead of the clock."""


@asynccontextmanager
async def open_server(plan: ServerPlan) -> AsyncIterator[Running]:
    """Start everything but the listener; stop it in reverse order. Kernels keep running.

    Yields when the server follows a leader, or leads and its local agents have joined.

    Raises:
        ConfigurationError: a setting or a device file is invalid, or this server must lead and another one does.
        StoreUnavailable: the database cannot be opened, or is more than a day ahead of the clock.
    """
    database = open_database(
        plan.database_url,
        data_folder=plan.data_folder,
        now_us=plan.clock.now_us,
        address=plan.address,
        mark=plan.mark,
        archive=plan.outfit.keeping.folder,
    )
    try:
        state = await read_database(database)
        if not plan.accepts_clock:
            check_clock(state.newest_us, wall_us=plan.clock.wall_us())
        plan.clock.not_before(state.newest_us)
        async with (
            history_kept(plan.outfit.history) as measurements,
            _taking_part(plan, database, state, measurements=measurements) as running,
        ):
            if plan.outfit.history is not None:
                # Measurements have a clock of their own, which is read in another thread.
                correct = plan.outfit.history.correct_clock
                running.cases.journal.subscribe(lambda event: correct(event.at_us), to=(CLOCK_CORRECTED,))
            yield running
    finally:
        await database.store.close()


async def read_database(database: ServerDatabase) -> State:
    """The stored state. Nothing else of what was read is kept, so that records which the state forgets are freed.

    Raises:
        ConfigurationError, StoreUnavailable: it cannot be read; the message says why.
    """
    try:
        return await state_of(await database.store.join(), store=database.store)
    except (ServerError, AliquotError, OSError):
        raise
    except Exception as error:
        log.debug("the database could not be read", exc_info=error)
        raise (unavailability(error) or damage(error)) from error


@asynccontextmanager
async def _taking_part(
    plan: ServerPlan, database: ServerDatabase, state: State, *, measurements: HistoryDatabase | None
) -> AsyncIterator[Running]:
    present = LeaderRuntime()
    own = OwnOutputs(present.executor)
    streams = _outputs(plan, own, leader=lambda: election.standing.leader_address) if database.is_shared else own
    cases = UseCases(
        store=database.store,
        clock=plan.clock,
        ids=RandomIds(),
        outputs=streams,
        state=state,
        is_shared=database.is_shared,
        parts=await parts_of(
            plan.outfit,
            database,
            measurements=measurements,
            backtests=_backtests(plan, database),
            inspector=present.inspector,
            leader=lambda: election.standing.leader_address,
            streams=streams,
            app_key=plan.token.encode(),
        ),
    )
    cases.journal.subscribe(plan.clock.follow)
    await begin(cases, plan.outfit.first)
    terms = _Terms(plan, cases, database, present)
    election = LeaderElection(
        cases,
        store=database.store,
        seat=database.lock,
        news=database.notifications,
        open_term=terms.open,
        address=plan.address,
        must_lead=plan.must_lead,
        relay=database.relay,
        boards=database.store.forecasts if database.is_shared else None,
    )
    loops = asyncio.create_task(election.run())
    async with AsyncExitStack() as rest:
        if database.is_shared:
            leaderless = plan.outfit.notices.leaderless_alerts(cases, why=lambda: election.why_unled)
            rest.callback(asyncio.create_task(leaderless.run()).cancel)
        rest.push_async_callback(_stop, loops)
        for answers in (cases.previews, cases.explanations, cases.what_ifs, cases.booking_effects):
            rest.callback(answers.close)
        rest.push_async_callback(cases.administration.backtests.close)
        await _until_in_place(election, terms, loops, leads=plan.must_lead or not database.is_shared)
        rest.callback(asyncio.create_task(cases.administration.backtests.run(), name="backtests").cancel)
        watched = WatchedTask(loops)  # from here on: until then the start itself reports how they failed
        yield Running(
            cases=cases,
            agents=RemoteGateway(plan.keys, executor=present.remote, leader=lambda: election.standing.leader_address),
            outputs=own if database.is_shared else None,
            side=present.side,
            standing=lambda: election.standing,
            missing=lambda: watched.fault or election.fault,
            failed=watched.failed,
            database=WatchedDatabase.of(database.store, plan.clock),
        )


def _backtests(plan: ServerPlan, database: ServerDatabase) -> BacktestSources:
    return BacktestSources(
        ids=RandomIds(),
        runner=ProcessBacktests(database_url=plan.database_url, data_folder=plan.data_folder),
        records=database.store.backtests,
        is_shared=database.is_shared,
    )


class _Terms:
    """Terms of this server: opens and closes the parts that only a leader has."""

    def __init__(self, plan: ServerPlan, cases: UseCases, database: ServerDatabase, present: LeaderRuntime) -> None:
        self.joined = asyncio.Event()
        """Set once this server has led and its local agents have joined."""
        self._plan = plan
        self._cases = cases
        self._database = database
        self._present = present

    @asynccontextmanager
    async def open(self, beginning: TermStart) -> AsyncIterator[LeaderTerm]:
        """One term, from its start to its end."""
        plan = self._plan
        plan.clock.not_before(beginning.last_at_us)
        side = plan.make_side(self._cases.state, beginning)
        term = LeaderTerm(
            self._cases,
            executor=side.executor,
            ledger=self._database.store.ledger,
            beginning=beginning,
            grace_ms=plan.outfit.grace_ms,
            respect_foreign_usage=plan.outfit.respect_foreign_usage,
            retention=retention_of(plan.outfit.keeping, self._database.store, now_us=plan.clock.now_us),
            notices=plan.outfit.notices,
            forecasts=forecasts_of(self._database) if plan.outfit.forecasts else None,
            ray=_ray_status(side),
            check_disk=plan.check_disk,
        )
        async with AsyncExitStack() as rest:
            # The executors close first, so that nothing waits for an agent that does not answer.
            rest.push_async_callback(term.close)
            rest.push_async_callback(side.close)
            rest.callback(asyncio.create_task(self._note_joined(term, side)).cancel)
            await side.start()
            await term.forget_agents(side.own | side.expected)
            rest.enter_context(self._present.serving(side, term.reaper))
            yield term

    async def _note_joined(self, term: LeaderTerm, side: AgentExecutors) -> None:
        await term.until_reachable(side.own)
        self.joined.set()


def _ray_status(side: AgentExecutors) -> Callable[[], RayView] | None:
    gateway = side.ray
    return None if gateway is None else lambda: gateway.status


def _outputs(plan: ServerPlan, own: OwnOutputs, *, leader: Callable[[], str | None]) -> "LeaderOutputs":
    # Imported here: a standalone server needs no HTTP client.
    from aliquot.app.outputs import LeaderOutputs

    return LeaderOutputs(own, leader=leader, token=plan.token)


async def _until_in_place(election: LeaderElection, terms: _Terms, loops: asyncio.Task[None], *, leads: bool) -> None:
    """Wait until a leader is known; if this server must lead, until its local agents have joined."""
    waiting = asyncio.ensure_future(terms.joined.wait() if leads else election.until_settled())
    await asyncio.wait({waiting, loops}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if loops.done() and not loops.cancelled() and (fault := loops.exception()) is not None:
        raise first_of(fault)


async def _stop(loops: asyncio.Task[None]) -> None:
    loops.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await loops
