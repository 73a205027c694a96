"""A term: what a leader does beside answering. It decides, launches, and listens to agents."""

import asyncio
from collections.abc import Callable
from typing import Final

from aliquot.service.agent_messages import AgentMessages
from aliquot.service.allocator import Allocator
from aliquot.service.disk_space import watch
from aliquot.service.dispatch import Dispatch
from aliquot.service.draft import Draft
from aliquot.service.history.recording import HistoryRecording
from aliquot.service.launcher import Launcher
from aliquot.service.leadership.consequences import Consequences
from aliquot.service.leadership.ports import Beginning
from aliquot.service.leaps import Leaps
from aliquot.service.ledger.ports import LedgerStore
from aliquot.service.ledger.recording import Recording, recording_of
from aliquot.service.measuring.session_news import SessionNews
from aliquot.service.notices.plan import NoticePlan
from aliquot.service.ports import Executor
from aliquot.service.reaper.reaper import Reaper
from aliquot.service.registration import leave
from aliquot.service.retention.plan import RetentionPlan
from aliquot.service.secrets.clearing import Clearing
from aliquot.service.state import State
from aliquot.service.use_cases import UseCases
from aliquot_schema.ids import AgentId, SessionId
from aliquot_schema.states import AgentState

ACTOR: Final = "system:start"


class Term:
    """From one election to its end. `run` returns only when a loop failed, or by cancellation."""

    def __init__(
        self,
        cases: UseCases,
        *,
        executor: Executor,
        ledger: LedgerStore | None,
        beginning: Beginning,
        grace_ms: int,
        respect_external: bool = True,
        retention: RetentionPlan | None = None,
        notices: NoticePlan | None = None,
    ) -> None:
        """
        Args:
            executor: made for this term; agents are asked in its epoch alone.
            ledger, retention, notices: None = decisions are not written down; everything is kept; nobody is told.
            grace_ms: between the polite stop signal and the last one.
            respect_external: whether devices that processes of others use are kept from everybody.
        """
        state, journal, clock = cases.state, cases.journal, cases.clock
        self._state, self._journal, self._clock = state, journal, clock
        self._reached = asyncio.Event()
        listening, waiting = len(journal.listeners), len(journal.settled)
        _forget_measured(state)
        self._dispatch = Dispatch(executor, epoch=beginning.epoch, grace_ms=grace_ms, filled=cases.vault.filled)
        self._launcher = Launcher(journal=journal, dispatch=self._dispatch)
        self.recording = None if ledger is None else recording_of(state, beginning.epoch, ledger, clock)
        self.allocator = _allocator(cases, beginning, self.recording, on_scheduled=self._launcher.enqueue)
        _listen(cases, self.recording, self._dispatch)
        leaps = Leaps(clock, known_us=beginning.last_at_us)
        self._history = HistoryRecording(cases.history, state=state, journal=journal, clock=clock, leaps=leaps)
        self._clearing = Clearing(cases.vault, state=state, clock=clock, leaps=leaps)
        self._messages = AgentMessages(
            state=state,
            journal=journal,
            executor=executor,
            dispatch=self._dispatch,
            launcher=self._launcher,
            clock=clock,
            grace_ms=grace_ms,
            on_reachable=self._note_reachable,
            on_readings=self._history.note,
            device_time=cases.measures.devices,
        )
        self.reaper = Reaper(
            cases,
            executor=executor,
            dispatch=self._dispatch,
            grace_ms=grace_ms,
            respect_external=respect_external,
            on_moved=self.allocator.wake,
        )
        self.retaining = (
            None if retention is None else retention.begin(beginning.epoch, memory=state, clock=clock, leaps=leaps)
        )
        self._administration, self._measures = cases.administration, cases.measures
        self._administration.looker = self.reaper
        self.noticing = None if notices is None else notices.begin(cases, outputs=executor, beginning=beginning)
        self._listeners, self._settled = journal.listeners[listening:], journal.settled[waiting:]

    async def run(self, *, awaited: frozenset[AgentId] = frozenset()) -> None:
        """Keep all loops going; the failure of one ends the others.

        Args:
            awaited: agents that join at once. Nothing is decided before: a pass without them would only find out, of
                all that waits, that they are away.
        """
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._allocate(awaited), name="allocator")
            if self.recording is not None:
                loops.create_task(self.recording.run(), name="ledger")
            if self.retaining is not None:
                loops.create_task(self.retaining.run(), name="retention")
            if self.noticing is not None:
                loops.create_task(self.noticing.run(), name="notices")
            watching = watch(self._state.space, clock=self._clock, on_moved=self.allocator.wake)
            loops.create_task(watching, name="disk space")
            loops.create_task(self._launcher.run(), name="launcher")
            loops.create_task(self._messages.listen(), name="agent messages in")
            loops.create_task(self._messages.run(), name="agent messages")
            loops.create_task(self.reaper.run(), name="reaper")
            loops.create_task(self._history.run(), name="history")
            loops.create_task(self._clearing.run(), name="secrets")

    async def until_reachable(self, agents: frozenset[AgentId]) -> None:
        """Wait until all of these agents have joined."""
        while not agents <= self._state.reachable:
            await self._reached.wait()

    async def forget_agents(self, configured: frozenset[AgentId]) -> None:
        """Agents that this server no longer runs have left, or are lost while something holds their devices."""

        def change(draft: Draft) -> None:
            for agent in list(self._state.agents.values()):
                if agent.id not in configured:
                    to = AgentState.LOST if self._state.is_held(agent.id) else AgentState.LEFT
                    leave(draft, agent.id, to=to, now_us=self._clock.now_us())

        await self._journal.persist(change, actor=ACTOR)

    async def close(self) -> None:
        """Finish what is under way, and hear no more of the log."""
        for listener in self._listeners:
            self._journal.listeners.remove(listener)
        for call in self._settled:
            self._journal.settled.remove(call)
        _forget_measured(self._state)
        self._administration.looker = None
        self._measures.end_term()
        await self._dispatch.close()
        self.allocator.close()
        if self.recording is not None:
            await self.recording.close()

    async def _allocate(self, awaited: frozenset[AgentId]) -> None:
        await self.until_reachable(awaited)
        self.allocator.wake()
        await self.allocator.run()

    def _note_reachable(self) -> None:
        self.allocator.wake()
        self.reaper.wake()
        reached, self._reached = self._reached, asyncio.Event()
        reached.set()


def _forget_measured(state: State) -> None:
    """A term begins and ends with nothing of what its agents alone can tell."""
    state.reachable.clear()
    state.readings.drop()
    state.external.set({})
    state.space.agents.clear()


def _allocator(
    cases: UseCases,
    beginning: Beginning,
    recording: Recording | None,
    *,
    on_scheduled: Callable[[tuple[SessionId, ...]], None],
) -> Allocator:
    return Allocator(
        state=cases.state,
        journal=cases.journal,
        clock=cases.clock,
        last_pass=beginning.last_pass,
        last_at_us=beginning.last_at_us,
        on_scheduled=on_scheduled,
        watcher=None if recording is None else recording.watch,
        measures=cases.measures,
    )


def _listen(cases: UseCases, recording: Recording | None, dispatch: Dispatch) -> None:
    """Let those hear of every event who write down what happens, act on it, and count it."""
    news = SessionNews(cases.state)
    if recording is not None:
        cases.journal.listeners.append(recording.watch.hear)
    Consequences(state=cases.state, journal=cases.journal, dispatch=dispatch).begin()
    cases.journal.listeners += [cases.measures.take, news.take]
    cases.journal.settled.append(news.settle)
