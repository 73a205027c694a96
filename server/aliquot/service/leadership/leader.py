"""Term of a leader: the loops that only a leader runs. It schedules, launches, and receives agents' reports."""

import asyncio
from collections.abc import Callable
from typing import Final

from aliquot.service.accounts.secrets import SecretCleanup
from aliquot.service.agents.messages import AgentMessages
from aliquot.service.agents.reaper import Reaper
from aliquot.service.alerts.idle_process import IdleProcess
from aliquot.service.alerts.plan import AlertPlan
from aliquot.service.backtests.policy_trial import PolicyTrial
from aliquot.service.foresight.forecasting import Forecasting, ForecastPlan
from aliquot.service.history.sampling import HistoryRecording
from aliquot.service.leadership.clock_keeper import ClockKeeper
from aliquot.service.leadership.effects import EventEffects, SessionNews
from aliquot.service.leadership.ports import TermStart
from aliquot.service.ledger.entries import LedgerStore
from aliquot.service.ledger.recorder import PassRecorder, recording_of
from aliquot.service.lifecycle.agent_registration import leave
from aliquot.service.lifecycle.launch_orders import Orders
from aliquot.service.ports import Executor
from aliquot.service.retention import ClockJumps, RetentionPlan
from aliquot.service.scheduling.allocator import Allocator
from aliquot.service.scheduling.dispatch import Dispatch
from aliquot.service.state.agents import watch
from aliquot.service.state.forecast_board import SWITCHED_OFF
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.use_cases import UseCases
from aliquot_schema.events import Entity
from aliquot_schema.ids import AgentId
from aliquot_schema.states import AgentState
from aliquot_schema.views.server import RayView

ACTOR: Final = "system:start"


class LeaderTerm:
    """The leader's loops, from election to loss of the lock. `run` ends only by cancellation or when a loop fails."""

    def __init__(
        self,
        cases: UseCases,
        *,
        executor: Executor,
        ledger: LedgerStore | None,
        beginning: TermStart,
        grace_ms: int,
        respect_foreign_usage: bool = True,
        retention: RetentionPlan | None = None,
        notices: AlertPlan | None = None,
        forecasts: ForecastPlan | None = None,
        ray: Callable[[], RayView] | None = None,
        check_disk: Callable[[], str | None] = lambda: None,
    ) -> None:
        """
        Args:
            executor: made for this term, and used only in its epoch.
            ledger, retention, notices, forecasts: None = not recorded; nothing is removed; none are sent; none made.
            grace_ms: milliseconds between SIGTERM and SIGKILL.
            respect_foreign_usage: whether devices used by foreign processes are withheld from sessions.
            check_disk: checks the disks of this server: returns a message when space is short. May block.
        """
        state, journal, clock, epoch = cases.state, cases.journal, cases.clock, beginning.epoch
        self._state, self._journal, self._clock, self._workspaces = state, journal, clock, cases.workspaces
        subscribed = len(journal.subscriptions)
        _clear_readings(state)
        self._dispatch = _dispatch(cases, executor, epoch=epoch, grace_ms=grace_ms)
        self.recording = None if ledger is None else recording_of(state, epoch, ledger, clock)
        self.allocator = _allocator(cases, beginning, self.recording, launch=self._dispatch.launch)
        _subscribe(cases, self.recording, self._dispatch)
        self.keeper = ClockKeeper(state=state, journal=journal, clock=clock)
        self._jumps = jumps = ClockJumps(clock, known_us=beginning.last_at_us, correction=state.clock_correction)
        self._history = HistoryRecording(cases.history, state=state, journal=journal, clock=clock, jumps=jumps)
        self._clearing = SecretCleanup(cases.secrets, state=state, clock=clock, jumps=jumps)
        self._messages = AgentMessages(
            state=state,
            journal=journal,
            executor=executor,
            dispatch=self._dispatch,
            clock=clock,
            on_reachable=self._note_reachable,
            on_readings=self._history.note,
            device_time=cases.measures.devices,
        )
        self.reaper = Reaper(
            cases,
            executor=executor,
            dispatch=self._dispatch,
            grace_ms=grace_ms,
            respect_foreign_usage=respect_foreign_usage,
            on_moved=self.allocator.wake,
        )
        self.retaining = None if retention is None else retention.begin(epoch, memory=state, clock=clock, jumps=jumps)
        self.forecasting = _forecasting(cases, forecasts, epoch=epoch, jumps=jumps)
        self._measures, self._check_disk, self._reached = cases.measures, check_disk, asyncio.Event()
        self.alerting = (
            None if notices is None else notices.begin(cases, outputs=executor, beginning=beginning, ray=ray)
        )
        self._subscriptions = journal.subscriptions[subscribed:]

    async def run(self, *, awaited: frozenset[AgentId] = frozenset()) -> None:
        """Run all loops; the failure of one ends the others.

        Args:
            awaited: agents that are about to join. The first pass waits for them, as without them no session fits.
        """
        await self.keeper.run_once()  # first: a log that is ahead of the clock would date everything else
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.keeper.run(), name="clock")
            loops.create_task(self._allocate(awaited), name="allocator")
            if self.recording is not None:
                loops.create_task(self.recording.run(), name="ledger")
            if self.retaining is not None:
                loops.create_task(self.retaining.run(), name="retention")
            if self.alerting is not None:
                loops.create_task(self.alerting.run(), name="notices")
            if self.forecasting is not None:
                loops.create_task(self.forecasting.run(), name="forecasts")
            space, wake = self._state.disk_space, self.allocator.wake
            disk = watch(space, check=self._check_disk, clock=self._clock, on_moved=wake)
            loops.create_task(disk, name="disk space")
            loops.create_task(self._messages.listen(), name="agent messages in")
            loops.create_task(self._messages.run(), name="agent messages")
            loops.create_task(self.reaper.run(), name="reaper")
            loops.create_task(self._history.run(), name="history")
            loops.create_task(self._clearing.run(), name="secrets")
            idle = IdleProcess(state=self._state, journal=self._journal, clock=self._clock, wake=wake)
            loops.create_task(idle.run(), name="idle sessions")
            if self._workspaces is not None:
                loops.create_task(self._workspaces.run(self._jumps), name="workspaces")
            trial = PolicyTrial(state=self._state, journal=self._journal, clock=self._clock)
            loops.create_task(trial.run(), name="policy trial")

    async def until_reachable(self, agents: frozenset[AgentId]) -> None:
        """Wait until all of these agents have joined."""
        while not agents <= self._state.reachable:
            await self._reached.wait()

    async def forget_agents(self, configured: frozenset[AgentId]) -> None:
        """Mark agents outside `configured` as left, or as lost while their devices are held."""

        def change(draft: UnitOfWork) -> None:
            for agent in list(self._state.agents.values()):
                if agent.id not in configured:
                    to = AgentState.LOST if self._state.is_held(agent.id) else AgentState.LEFT
                    leave(draft, agent.id, to=to, now_us=self._clock.now_us())

        await self._journal.persist(change, actor=ACTOR)

    async def close(self) -> None:
        """Unsubscribe from the journal, and wait for orders and records under way."""
        self._journal.unsubscribe(*self._subscriptions)
        _clear_readings(self._state)
        self._measures.end_term()
        await self._dispatch.close()
        self.allocator.close()
        if self.forecasting is not None:
            await self.forecasting.close()
        if self.recording is not None:
            await self.recording.close()

    async def _allocate(self, awaited: frozenset[AgentId]) -> None:
        if self.recording is not None:
            self._state.backlogs.update(await self.recording.backlogs())
        await self.until_reachable(awaited)
        self.allocator.wake()
        await self.allocator.run()

    def _note_reachable(self) -> None:
        self.allocator.wake_for_agents()
        self.reaper.wake()
        reached, self._reached = self._reached, asyncio.Event()
        reached.set()


def _clear_readings(state: State) -> None:
    """Clear what is known only from connected agents; done at the start and the end of a term."""
    state.reachable.clear()
    state.readings.drop()
    state.foreign_usage.set({})
    state.disk_space.agents.clear()
    state.transfers.clear()


def _dispatch(cases: UseCases, executor: Executor, *, epoch: int, grace_ms: int) -> Dispatch:
    transfers = None if cases.workspaces is None else cases.workspaces.transfers
    return Dispatch(
        executor,
        epoch=epoch,
        grace_ms=grace_ms,
        app_tokens=cases.app_tokens,
        filled=cases.secrets.filled,
        bring=None if transfers is None else transfers.bring,
        is_awaited=None if transfers is None else transfers.is_awaited,
    )


def _allocator(
    cases: UseCases,
    beginning: TermStart,
    recording: PassRecorder | None,
    *,
    launch: Callable[[Orders], None],
) -> Allocator:
    return Allocator(
        state=cases.state,
        journal=cases.journal,
        clock=cases.clock,
        last_pass=beginning.last_pass,
        last_at_us=beginning.last_at_us,
        launch=launch,
        watcher=None if recording is None else recording.watch,
        measures=cases.measures,
    )


def _forecasting(cases: UseCases, plan: ForecastPlan | None, *, epoch: int, jumps: ClockJumps) -> Forecasting | None:
    if plan is None:
        cases.state.board.lack(SWITCHED_OFF)
        return None
    return plan.begin(
        state=cases.state,
        journal=cases.journal,
        clock=cases.clock,
        epoch=epoch,
        jumps=jumps,
        measures=cases.measures.forecasts,
        questions=cases.questions,
    )


def _subscribe(cases: UseCases, recording: PassRecorder | None, dispatch: Dispatch) -> None:
    """Subscribe the recorder, the effects on agents and the metrics to the journal."""
    if recording is not None:
        cases.journal.subscribe(recording.watch.on_event, to=(Entity.SESSION,))
    EventEffects(state=cases.state, journal=cases.journal, dispatch=dispatch).begin()
    SessionNews(cases.state).begin(cases.journal)
    cases.journal.subscribe(cases.measures.take, to=(Entity.SESSION, Entity.ACTION))
