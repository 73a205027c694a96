"""One server of several: it follows the log of their database, and leads when it is its turn."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from aliquot.clock import RandomIds, SystemClock
from aliquot.composition.agent_side import AgentSide
from aliquot.composition.outfit import Outfit, fit_out
from aliquot.composition.outputs import LeaderOutputs, OwnOutputs
from aliquot.composition.retention import retention_of
from aliquot.composition.running import Running, Watched, WatchedDatabase
from aliquot.execution.remote.door import LeaderDoor
from aliquot.execution.remote.keys import AgentKeys
from aliquot.service.leadership.duty import Duty
from aliquot.service.leadership.ports import Beginning
from aliquot.service.leadership.term import Term
from aliquot.service.orchestrator import state_of
from aliquot.service.state import State
from aliquot.service.use_cases import UseCases
from aliquot.store.sharing import SharedDatabase, share

log: Final = logging.getLogger("aliquot.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlan:
    """What it is made of."""

    database_url: str
    address: str
    """Where people, agents and the other servers reach this one."""
    token: str
    """Which all servers share."""
    clock: SystemClock
    keys: AgentKeys
    make_side: Callable[[State, Beginning], AgentSide]
    must_lead: bool
    """Whether it has agents of its own, which no other server could reach."""
    outfit: Outfit


@asynccontextmanager
async def shared_server(plan: SharedPlan) -> AsyncIterator[Running]:
    """Join the others; leave them at the end. Returns when it follows, or leads if it must.

    Raises:
        ConfigurationError: it must lead, and another one does.
        StoreUnavailable: the database cannot be opened; the message says why.
    """
    database = share(plan.database_url, now_us=plan.clock.now_us, address=plan.address)
    loaded = await database.store.join()
    try:
        state = await state_of(loaded, store=database.store)
        plan.clock.not_before(loaded.last_at_us)
        async with _on_duty(plan, database, state) as running:
            yield running
    finally:
        await database.store.close()


@asynccontextmanager
async def _on_duty(plan: SharedPlan, database: SharedDatabase, state: State) -> AsyncIterator[Running]:
    own = OwnOutputs()
    cases = UseCases(
        store=database.store,
        clock=plan.clock,
        ids=RandomIds(),
        outputs=LeaderOutputs(own, leader=lambda: duty.standing.leader_address, token=plan.token),
        state=state,
        epoch=0,
        is_shared=True,
        pending_max=plan.outfit.pending_max,
    )
    # Servers' clocks differ: what follows from an event is not dated before it.
    cases.journal.listeners.append(lambda event: plan.clock.not_before(event.at_us))
    await fit_out(cases, database.store, plan.outfit)
    turns = _Turns(plan, cases, database, own, LeaderDoor(plan.keys, leader=lambda: duty.standing.leader_address))
    duty = Duty(
        cases,
        store=database.store,
        seat=database.seat,
        news=database.news,
        open_term=turns.open_term,
        address=plan.address,
        must_lead=plan.must_lead,
        relay=database.relay,
    )
    watched = Watched(asyncio.create_task(duty.run()))
    lookout = asyncio.create_task(plan.outfit.notices.lookout(cases, why=lambda: duty.why_unled).run())
    try:
        await _until_in_place(plan, duty, turns, watched.task)
        yield Running(
            cases=cases,
            agents=turns.door,
            outputs=own,
            side=lambda: turns.side,
            standing=lambda: duty.standing,
            missing=lambda: watched.fault or duty.fault,
            failed=watched.failed,
            database=WatchedDatabase.of(database.store),
        )
    finally:
        lookout.cancel()
        cases.previews.close()
        watched.task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await watched.task


class _Turns:
    """Opens and closes what only a leader has."""

    def __init__(
        self, plan: SharedPlan, cases: UseCases, database: SharedDatabase, outputs: OwnOutputs, door: LeaderDoor
    ) -> None:
        self.door = door
        self.side: AgentSide | None = None
        self.joined = asyncio.Event()
        """Set once this server led and its own agents were there."""
        self._plan = plan
        self._cases = cases
        self._database = database
        self._outputs = outputs

    @asynccontextmanager
    async def open_term(self, beginning: Beginning) -> AsyncIterator[Term]:
        """See `Duty`."""
        self._plan.clock.not_before(beginning.last_at_us)
        side = self._plan.make_side(self._cases.state, beginning)
        term = Term(
            self._cases,
            executor=side.executor,
            ledger=self._database.store.ledger,
            beginning=beginning,
            grace_ms=self._plan.outfit.grace_ms,
            respect_external=self._plan.outfit.respect_external,
            retention=retention_of(self._plan.outfit.keeping, self._database.store, now_us=self._plan.clock.now_us),
            notices=self._plan.outfit.notices,
        )
        joining = asyncio.create_task(self._note_joined(term, side))
        try:
            await side.start()
            await term.forget_agents(side.own | side.expected)
            self.side, self.door.executor, self._outputs.source = side, side.remote, side.executor
            yield term
        finally:
            self.side = self.door.executor = self._outputs.source = None
            joining.cancel()
            await side.close()
            await term.close()

    async def _note_joined(self, term: Term, side: AgentSide) -> None:
        await term.until_reachable(side.own)
        self.joined.set()


async def _until_in_place(plan: SharedPlan, duty: Duty, turns: _Turns, loops: asyncio.Task[None]) -> None:
    """Wait until it knows who leads; if it must lead, until its own agents have joined."""
    place = turns.joined.wait() if plan.must_lead else duty.until_settled()
    waiting = asyncio.ensure_future(place)
    await asyncio.wait({waiting, loops}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if loops.done() and not loops.cancelled() and (fault := loops.exception()) is not None:
        raise _first(fault)


def _first(fault: BaseException) -> BaseException:
    """What a group of errors is about."""
    return _first(fault.exceptions[0]) if isinstance(fault, BaseExceptionGroup) else fault
