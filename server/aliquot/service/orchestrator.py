"""The orchestrator: all use cases over one store and one executor, and the loops that keep them going."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from aliquot.service.administration import Administration
from aliquot.service.agent_messages import AgentMessages
from aliquot.service.allocator import Allocator
from aliquot.service.creation import Creation
from aliquot.service.dispatch import Dispatch
from aliquot.service.draft import Draft
from aliquot.service.feed import Feed
from aliquot.service.journal import Journal
from aliquot.service.launcher import Launcher
from aliquot.service.leadership.consequences import Consequences
from aliquot.service.ports import Clock, Executor, Ids, Loaded, Store
from aliquot.service.queries import Queries
from aliquot.service.registration import leave
from aliquot.service.sessions import Sessions
from aliquot.service.state import ENDED_KEPT, State
from aliquot.service.watching import Watching
from aliquot_schema.ids import AgentId
from aliquot_schema.states import AgentState

ACTOR: Final = "system:start"

log: Final = logging.getLogger("aliquot.orchestrator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The world, as the use cases see it."""

    store: Store
    executor: Executor
    clock: Clock
    ids: Ids


class Orchestrator:
    """Made from what the store held. `run` returns only when a loop failed, or by cancellation."""

    def __init__(self, ports: Ports, *, state: State, loaded: Loaded, grace_ms: int) -> None:
        store, executor, clock = ports.store, ports.executor, ports.clock
        self.state = state
        self.feed = Feed(store, revision=state.revision)
        self.journal = Journal(store=store, state=state, feed=self.feed, clock=clock, epoch=loaded.epoch)
        self._clock = clock
        self._reached = asyncio.Event()
        self._dispatch = Dispatch(executor, epoch=loaded.epoch, grace_ms=grace_ms)
        self._launcher = Launcher(journal=self.journal, dispatch=self._dispatch)
        self.allocator = Allocator(
            state=state,
            journal=self.journal,
            clock=clock,
            last_pass=loaded.last_pass,
            last_at_us=loaded.last_at_us,
            on_scheduled=self._launcher.enqueue,
        )
        Consequences(state=state, journal=self.journal, dispatch=self._dispatch).begin()
        self._messages = AgentMessages(
            state=state,
            journal=self.journal,
            executor=executor,
            dispatch=self._dispatch,
            launcher=self._launcher,
            clock=clock,
            grace_ms=grace_ms,
            on_reachable=self._note_reachable,
        )
        creation = Creation(state=state, journal=self.journal, store=store, clock=clock, ids=ports.ids)
        self.queries = Queries(state=state, store=store, feed=self.feed)
        self.sessions = Sessions(state=state, journal=self.journal, creation=creation, store=store, clock=clock)
        self.administration = Administration(state=state, journal=self.journal, clock=clock)
        self.watching = Watching(state=state, feed=self.feed, executor=executor)

    async def run(self) -> None:
        """Keep all loops going; the failure of one ends the others."""
        self.allocator.wake()
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.allocator.run(), name="allocator")
            loops.create_task(self._launcher.run(), name="launcher")
            loops.create_task(self._messages.listen(), name="agent messages in")
            loops.create_task(self._messages.run(), name="agent messages")

    async def until_reachable(self, agents: frozenset[AgentId]) -> None:
        """Wait until all of these agents have joined."""
        while not agents <= self.state.reachable:
            await self._reached.wait()

    async def forget_agents(self, configured: frozenset[AgentId]) -> None:
        """Agents that this server no longer runs have left, or are lost while something holds their devices."""

        def change(draft: Draft) -> None:
            for agent in list(self.state.agents.values()):
                if agent.id not in configured:
                    to = AgentState.LOST if self.state.is_held(agent.id) else AgentState.LEFT
                    leave(draft, agent.id, to=to, now_us=self._clock.now_us())

        await self.journal.transact(change, actor=ACTOR)

    async def close(self) -> None:
        """Finish what is under way."""
        await self._dispatch.close()
        self.allocator.close()

    def _note_reachable(self) -> None:
        self.allocator.wake()
        reached, self._reached = self._reached, asyncio.Event()
        reached.set()


async def load_state(store: Store, *, ended_kept: int = ENDED_KEPT) -> tuple[State, Loaded]:
    """Open the store and build the state, ended sessions that pending ones depend on included."""
    loaded = await store.open()
    state = State(ended_kept=ended_kept)
    state.load(loaded.records, revision=loaded.revision, ended_complete=loaded.ended_complete)
    wanted = {link.session_id for row in state.pending.values() for link in row.depends_on}
    for session_id in sorted(wanted - state.sessions.keys()):
        old = await store.session_records(session_id)
        state.recall(old)
    return state, loaded
