"""A server that is alone with its database: it leads from its start to its end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from aliquot.clock import RandomIds, SystemClock
from aliquot.composition.agent_side import AgentSide
from aliquot.composition.outfit import Outfit, fit_out
from aliquot.composition.retention import retention_of
from aliquot.composition.running import Running, Watched, WatchedDatabase
from aliquot.service.leadership.standing import ServerRole, Standing
from aliquot.service.orchestrator import Orchestrator, Ports, load_state
from aliquot.service.ports import Loaded, Store
from aliquot.service.state import State
from aliquot.store.opening import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class AlonePlan:
    """What it is made of."""

    database_url: str
    """Empty: SQLite in the data folder."""
    data_folder: Path
    address: str
    clock: SystemClock
    make_side: Callable[[State], AgentSide]
    outfit: Outfit


@asynccontextmanager
async def lone_server(plan: AlonePlan) -> AsyncIterator[Running]:
    """Start everything but the listener, in order; stop it in reverse. Kernels run on.

    Raises:
        ConfigurationError: a setting or a device file is wrong.
        StoreUnavailable: the database cannot be opened; the message says why.
    """
    clock, outfit = plan.clock, plan.outfit
    store = open_store(plan.database_url, data_folder=plan.data_folder, now_us=clock.now_us)
    state, loaded = await load_state(store)
    clock.not_before(loaded.last_at_us)
    side = plan.make_side(state)
    ports = Ports(
        store=store,
        executor=side.executor,
        clock=clock,
        ids=RandomIds(),
        ledger=store.ledger,
        retention=retention_of(outfit.keeping, store, now_us=clock.now_us),
        notices=outfit.notices,
    )
    orchestrator = Orchestrator(
        ports,
        state=state,
        loaded=loaded,
        grace_ms=outfit.grace_ms,
        respect_external=outfit.respect_external,
        pending_max=outfit.pending_max,
    )
    orchestrator.administration.file = store
    await fit_out(orchestrator, store, outfit)
    await orchestrator.forget_agents(side.own | side.expected)
    watched = Watched(asyncio.create_task(orchestrator.run(awaited=side.own)))
    try:
        await side.start()
        joining = asyncio.create_task(orchestrator.until_reachable(side.own))
        await asyncio.wait({joining, watched.task}, return_when=asyncio.FIRST_COMPLETED)
        joining.cancel()
        standing = _standing(plan, loaded)
        yield Running(
            cases=orchestrator,
            agents=side.remote,
            outputs=None,
            side=lambda: side,
            standing=lambda: standing,
            missing=lambda: watched.fault,
            failed=watched.failed,
            database=WatchedDatabase.of(store),
        )
    finally:
        await _stop(watched.task, orchestrator, side, store)


def _standing(plan: AlonePlan, loaded: Loaded) -> Standing:
    return Standing(
        role=ServerRole.LEADER,
        address=plan.address,
        leader_address=plan.address,
        epoch=loaded.epoch,
        since_us=plan.clock.now_us(),
    )


async def _stop(loops: asyncio.Task[None], orchestrator: Orchestrator, side: AgentSide, store: Store) -> None:
    """Stop in the reverse order of starting; what fails to stop keeps nothing else from it."""
    async with AsyncExitStack() as rest:
        for part in (store, side, orchestrator):
            rest.push_async_callback(part.close)
        loops.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await loops
