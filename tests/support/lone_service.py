"""A service that always leads, without an election: for tests that bring their own store."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from aliquot.service.alerts.plan import AlertPlan
from aliquot.service.foresight.forecasting import ForecastPlan
from aliquot.service.leadership.leader import LeaderTerm
from aliquot.service.leadership.ports import TermStart
from aliquot.service.ledger.entries import LedgerStore
from aliquot.service.ports import Clock, Executor, Ids, LoadedRows, Store
from aliquot.service.retention import RetentionPlan
from aliquot.service.state.state import ENDED_KEPT, State
from aliquot.service.use_cases import ServiceParts, UseCases, state_of
from aliquot_schema.ids import AgentId


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The service's dependencies."""

    store: Store
    executor: Executor
    clock: Clock
    ids: Ids
    ledger: LedgerStore | None = None
    """None = decisions are not recorded."""
    retention: RetentionPlan | None = None
    """None = everything is kept."""
    notices: AlertPlan | None = None
    """None = no notices."""
    forecasts: ForecastPlan | None = None
    """None = starts are not forecast."""
    parts: ServiceParts = field(default_factory=ServiceParts)


class Orchestrator(UseCases):
    """Built from a loaded store. `run` returns only when a loop failed, or by cancellation."""

    def __init__(
        self,
        ports: Ports,
        *,
        state: State,
        loaded: LoadedRows,
        grace_ms: int,
        respect_foreign_usage: bool = True,
    ) -> None:
        operators = replace(ports.parts.operators, inspector=lambda: self.reaper)
        super().__init__(
            store=ports.store,
            clock=ports.clock,
            ids=ports.ids,
            outputs=ports.executor,
            state=state,
            parts=replace(ports.parts, operators=operators),
        )
        self.journal.lead(loaded.epoch)
        beginning = TermStart(
            epoch=loaded.epoch,
            began_us=loaded.last_at_us,
            revision=loaded.revision,
            last_at_us=loaded.last_at_us,
            last_pass=loaded.last_pass,
        )
        self._term = LeaderTerm(
            self,
            executor=ports.executor,
            ledger=ports.ledger,
            beginning=beginning,
            grace_ms=grace_ms,
            respect_foreign_usage=respect_foreign_usage,
            retention=ports.retention,
            notices=ports.notices,
            forecasts=ports.forecasts,
        )
        self.allocator = self._term.allocator
        self.recording = self._term.recording
        self.keeper = self._term.keeper
        self.reaper = self._term.reaper
        self.retaining = self._term.retaining
        self.forecasting = self._term.forecasting

    async def run(self, *, awaited: frozenset[AgentId] = frozenset()) -> None:
        """See `LeaderTerm.run`."""
        await self._term.run(awaited=awaited)

    async def wait_for_agents(self, agents: frozenset[AgentId]) -> None:
        """See `LeaderTerm.until_reachable`."""
        await self._term.until_reachable(agents)

    async def forget_agents(self, configured: frozenset[AgentId]) -> None:
        """See `LeaderTerm.forget_agents`."""
        await self._term.forget_agents(configured)

    async def close(self) -> None:
        """Finish pending work."""
        self.previews.close()
        await self._term.close()


async def load_state(store: Store, *, ended_kept: int = ENDED_KEPT) -> tuple[State, LoadedRows]:
    """Open the store and build the state, with ended sessions that pending ones depend on."""
    loaded = await store.open()
    return await state_of(loaded, store=store, ended_kept=ended_kept), loaded
