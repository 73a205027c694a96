"""The orchestrator of a server that is alone with its store: it leads from its start to its end."""

from aliquot.service.leadership.ports import Beginning
from aliquot.service.leadership.term import Term
from aliquot.service.ports import Loaded, Store
from aliquot.service.recalling import in_memory, recalled
from aliquot.service.state import ENDED_KEPT, State
from aliquot.service.submission_checks import PENDING_MAX
from aliquot.service.use_cases import Ports as Ports
from aliquot.service.use_cases import UseCases
from aliquot_schema.ids import AgentId


class Orchestrator(UseCases):
    """Made from what the store held. `run` returns only when a loop failed, or by cancellation."""

    def __init__(
        self,
        ports: Ports,
        *,
        state: State,
        loaded: Loaded,
        grace_ms: int,
        respect_external: bool = True,
        pending_max: int = PENDING_MAX,
    ) -> None:
        super().__init__(
            store=ports.store,
            clock=ports.clock,
            ids=ports.ids,
            outputs=ports.executor,
            state=state,
            epoch=loaded.epoch,
            pending_max=pending_max,
        )
        beginning = Beginning(
            epoch=loaded.epoch,
            began_us=loaded.last_at_us,
            revision=loaded.revision,
            last_at_us=loaded.last_at_us,
            last_pass=loaded.last_pass,
        )
        self._term = Term(
            self,
            executor=ports.executor,
            ledger=ports.ledger,
            beginning=beginning,
            grace_ms=grace_ms,
            respect_external=respect_external,
            retention=ports.retention,
            notices=ports.notices,
        )
        self.allocator = self._term.allocator
        self.recording = self._term.recording
        self.reaper = self._term.reaper
        self.retaining = self._term.retaining

    async def run(self, *, awaited: frozenset[AgentId] = frozenset()) -> None:
        """See `Term.run`."""
        await self._term.run(awaited=awaited)

    async def until_reachable(self, agents: frozenset[AgentId]) -> None:
        """See `Term.until_reachable`."""
        await self._term.until_reachable(agents)

    async def forget_agents(self, configured: frozenset[AgentId]) -> None:
        """See `Term.forget_agents`."""
        await self._term.forget_agents(configured)

    async def close(self) -> None:
        """Finish what is under way."""
        self.previews.close()
        await self._term.close()


async def load_state(store: Store, *, ended_kept: int = ENDED_KEPT) -> tuple[State, Loaded]:
    """Open the store and build the state, ended sessions that pending ones depend on included."""
    loaded = await store.open()
    return await state_of(loaded, store=store, ended_kept=ended_kept), loaded


async def state_of(loaded: Loaded, *, store: Store, ended_kept: int = ENDED_KEPT) -> State:
    """The state that a store has read."""
    state = State(ended_kept=ended_kept)
    state.load(loaded.records, revision=loaded.revision, ended_complete=loaded.ended_complete)
    with in_memory(await recalled(state.waited_for(), state=state, store=store), state=state):
        return state
