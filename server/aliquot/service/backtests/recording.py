"""Recording: the history of a cluster between two times, read from the decision ledger and the event log.

A fact counts from the pass that saw it. Passes that decided nothing have no ledger entry: what happened more than
`SLACK_US` before an entry counts from its own time.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final, Protocol

from msgspec.structs import replace

from aliquot.core.allocation.occupancy import Occupancy, occupancy_on
from aliquot.core.model.agent_index import are_same
from aliquot.core.model.snapshot import PendingRow, Snapshot, asks_the_same
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.simulation.recorded_history import (
    DecisionContext,
    RecordedFact,
    RecordedHistory,
)
from aliquot.core.workloads import Forecasts, ran_ms, workload_of
from aliquot.service.backtests.attempts import AttemptLog
from aliquot.service.ledger.changes import decides
from aliquot.service.ledger.entries import LedgerReader, PassEntry, PassKey, entries_of
from aliquot.service.ledger.replay import SnapshotFold, events_between
from aliquot_schema.errors import NotFound
from aliquot_schema.events import Event
from aliquot_schema.ids import NodeId, SessionId
from aliquot_schema.sessions import Session

SLACK_US: Final = 1_000_000
LESSONS_MAX: Final = 10_000
"""Runs before the history that the predictor learns from, the newest."""


WAKES_MAX: Final = 20
"""Most passes due by the clock alone that are tried between two entries."""
JOINING: Final = frozenset(f"session.{what}" for what in ("queued", "held", "released", "requeued", "retried"))
"""Kinds of events after which a session begins to wait, or may start."""


CARRIED_OUT: Final = frozenset({"session.scheduled", "session.preempting"})


class HistoryReader(LedgerReader, Protocol):
    """The ledger and the sessions, as backtests read them."""

    async def first_at(self, at_us: int) -> PassKey | None:
        """The first entry at or after a time."""

    async def checkpoint_after(self, number: int) -> PassKey | None:
        """The oldest entry with a checkpoint, after this pass."""

    async def ended_before(self, at_us: int, *, limit: int) -> tuple[Session, ...]:
        """The sessions that ended last before a time, by their end."""

    async def commands(self, names: Sequence[SessionId]) -> Mapping[SessionId, tuple[str, ...]]:
        """Commands of sessions; missing ones are not stored any more."""


async def record(
    reader: HistoryReader, *, since_us: int, until_us: int, on_progress: Callable[[float], None] = lambda _: None
) -> RecordedHistory:
    """Read a history.

    Args:
        since_us: sessions submitted from then on are counted. The history begins at the checkpoint before it.
        on_progress: called now and then with the part that is read, 0 to 1.
    Raises:
        NotFound: nothing is recorded in this time.
    """
    key = await _first_checkpoint(reader, since_us)
    while key is not None:
        try:
            return await _record(reader, key, since_us=since_us, until_us=until_us, on_progress=on_progress)
        except NotFound:
            # This checkpoint, or what follows it, is archived: a later one may do.
            key = await reader.checkpoint_after(key.number)
    raise NotFound("no scheduling pass of this time is recorded; choose another time", kind="pass", id="")


async def _first_checkpoint(reader: HistoryReader, since_us: int) -> PassKey | None:
    first = await reader.first_at(since_us)
    if first is None:
        return None
    before = first.number - 1  # a checkpoint of `first` itself lacks what happened between the time and that pass
    return await reader.checkpoint_before(before) or await reader.checkpoint_after(before)


async def _record(
    reader: HistoryReader, key: PassKey, *, since_us: int, until_us: int, on_progress: Callable[[float], None]
) -> RecordedHistory:
    recorder: HistoryRecorder | None = None
    newest = await reader.last(1)
    last = await reader.first_at(until_us + 1) or newest[-1]
    async for entry in _until(reader, key, until_us, last=last):
        if recorder is None:
            if entry.number != key.number or entry.checkpoint is None:
                raise NotFound(f"pass {key.number} was archived meanwhile", kind="pass", id=str(key.number))
            past = await reader.ended_before(entry.now_us, limit=LESSONS_MAX)
            commands = await reader.commands([session.id for session in entry.checkpoint.sessions])
            recorder = HistoryRecorder(_with_commands(entry, commands), past=past)
            continue
        recorder.follow(entry, await events_between(reader, after=recorder.revision, until=entry.revision))
        on_progress(min((entry.number - key.number) / max(last.number - key.number, 1), 1.0))
    if recorder is None:
        raise NotFound("no scheduling pass of this time is recorded; choose another time", kind="pass", id="")
    await _follow_rest(reader, recorder, until_us=until_us)
    return recorder.history(since_us=since_us, until_us=until_us)


async def _until(reader: HistoryReader, key: PassKey, until_us: int, *, last: PassKey) -> AsyncIterator[PassEntry]:
    async for entry in entries_of(reader, first=key.number, last=last.number):
        if entry.now_us > until_us:
            return
        yield entry


async def _follow_rest(reader: HistoryReader, recorder: "HistoryRecorder", *, until_us: int) -> None:
    """What happened after the last entry."""
    seen = False
    while page := await reader.events_after(recorder.revision, limit=2000):
        due = [event for event in page if event.at_us <= until_us]
        if due and not seen:
            recorder.compare(due)
        seen = True
        if due:
            recorder.watch(due, until_us=due[-1].at_us)
        if len(due) < len(page) or recorder.revision < page[-1].number:
            return


def _with_commands(entry: PassEntry, commands: Mapping[SessionId, tuple[str, ...]]) -> PassEntry:
    """The entry with the commands of its checkpoint's sessions, which checkpoints leave out."""
    assert entry.checkpoint is not None
    sessions = tuple(
        replace(session, spec=replace(session.spec, argv=commands.get(session.id, ())))
        for session in entry.checkpoint.sessions
    )
    return replace(entry, checkpoint=replace(entry.checkpoint, sessions=sessions))


class HistoryRecorder:
    """Turns ledger entries and events into a history, beginning with an entry that has a checkpoint."""

    def __init__(self, entry: PassEntry, *, past: Iterable[Session]) -> None:
        """
        Args:
            past: sessions that ended before, by their end.
        """
        self._fold = SnapshotFold(entry, forecasts=Forecasts())
        self.begins_us: Final = entry.now_us
        self._lessons = [
            (workload_of(session), duration_ms) for session in past if (duration_ms := ran_ms(session)) is not None
        ]
        self._holds = AttemptLog()
        self._facts: list[RecordedFact] = []
        self._passes_us = [entry.now_us]
        self._planned = entry
        self._outdated: dict[int, frozenset[SessionId]] = {}
        self._gaps_us: list[tuple[int, int]] = []
        self._wake_us = entry.plan.wake_at_us
        self._lost = entry.lost
        self._cache = PassCache()
        state = self._fold.state
        leases = (lease for on_node in state.open_leases.values() for lease in on_node.values())
        for held in (*state.sessions.values(), *state.live_kernels.by_id.values(), *leases):
            self._holds.note(held, at_us=entry.now_us, event_us=entry.now_us)
        self._snapshot = self._fold.snapshot()
        self._queue = {row.session_id: row for row in self._snapshot.queue}
        self._first: Final = self._snapshot
        self._around = self._decision_context(self._snapshot, before=None)
        self._first_around: Final = self._around
        state.backlogs.update(entry.plan.backlogs)

    @property
    def revision(self) -> int:
        """The number of the last event that was seen."""
        return self._fold.revision

    def follow(self, entry: PassEntry, events: Sequence[Event]) -> None:
        """Go on to the next entry; `events` are all since the one before."""
        # Keeps two passes at the same microsecond apart.
        at_us = max(entry.now_us, self._passes_us[-1] + 1)
        self.compare(events)
        carried = _carried_out(events)
        quiet = list(takewhile(lambda event: event.at_us < entry.now_us - SLACK_US and not _joins(event), events))
        seen = self.watch(quiet, until_us=at_us) if len(quiet) >= carried else 0
        self._on_event(events[seen:], at_us=at_us)
        self._fold.follow(entry, [event for event in events if event.number > self.revision])
        self._look(at_us)
        self._fold.state.backlogs.update(entry.plan.backlogs)
        self._passes_us.append(at_us)
        self._wake_us = entry.plan.wake_at_us
        self._planned = entry
        self._lost += entry.lost

    def compare(self, events: Iterable[Event]) -> None:
        """Note which decisions of the last entry were not carried out; `events` are those up to the next."""
        plan, carried_out = self._planned.plan, {event.entity_id for event in events if event.kind in CARRIED_OUT}
        names = [placement.run_id for placement in plan.placements] + [one.session_id for one in plan.evictions]
        outdated = frozenset(name for name in names if name not in carried_out)
        if outdated:
            self._outdated[self._passes_us[-1]] = outdated

    def watch(self, events: Sequence[Event], *, until_us: int) -> int:
        """Take in events that no entry followed soon, from their own times on.

        Args:
            until_us: time of the next entry.
        Returns:
            How many of them passes may have seen. Later, a pass would have decided something: there was none until the
            next entry, as the server was stopped or its clock was set.
        """
        first, carried = 0, _carried_out(events)
        # The next pass begins after the plan of the last one was carried out.
        floor_us = max(self._passes_us[-1] + 1, events[carried - 1].at_us if carried else 0)
        while first < len(events):
            at_us, last = max(events[first].at_us, floor_us), first + 1
            while last < len(events) and events[last].at_us <= at_us:
                last += 1
            if first and self._sleeps(at_us, until_us=until_us):
                return first
            for event in events[first:last]:
                self._fold.state.apply(event)
            if self._would_decide(at_us):
                self._gaps_us.append((at_us, until_us))
                return first
            self._on_event(events[first:last], at_us=at_us)
            self._look(at_us)
            first = last
        self._sleeps(until_us - SLACK_US, until_us=until_us)
        return first

    def _sleeps(self, before_us: int, *, until_us: int) -> bool:
        """Whether a pass that was due by the clock alone, before some time, would have decided something."""
        for _ in range(WAKES_MAX):
            wake_us = self._wake_us
            if wake_us is None or wake_us >= before_us:
                return False
            if self._would_decide(wake_us):
                self._gaps_us.append((wake_us, until_us))
                return True
            if self._wake_us is not None and self._wake_us <= wake_us:
                self._wake_us = None
        return False

    def _would_decide(self, now_us: int) -> bool:
        state = self._fold.state
        if not state.pending or state.orchestration.is_stopped:
            return False
        plan = decide(self._fold.snapshot(), state.rules, now_us=now_us, seed=0, known=self._cache, explains=False)
        self._wake_us = plan.wake_at_us
        if decides(plan):
            return True
        state.backlogs.update(plan.backlogs)  # as the pass did, of which there is no entry
        return False

    def history(self, *, since_us: int, until_us: int) -> RecordedHistory:
        """The history so far."""
        until_us = min(until_us, max(self._passes_us[-1], self._fold.state.newest_us))
        notes = [f"{self._lost} passes are missing in the ledger"] if self._lost else []
        if self.begins_us > since_us:
            notes.append("the record begins later than asked for")
        sessions = self._holds.sessions(until_us=until_us)
        later = [one for one in sessions.values() if one.submitted_us >= since_us and one.attempts]
        if again := sum(one.is_run_again for one in later):
            notes.append(f"sessions that were run again after their end are not counted: {again}")
        return RecordedHistory(
            since_us=max(since_us, self.begins_us),
            until_us=until_us,
            begins_us=self.begins_us,
            snapshot=self._first,
            surroundings=self._first_around,
            facts=tuple(sorted(self._facts, key=lambda fact: fact.at_us)),
            sessions=sessions,
            passes_us=tuple(self._passes_us),
            outdated=self._outdated,
            gaps_us=tuple(self._gaps_us),
            lessons=tuple(self._lessons),
            notes=tuple(notes),
        )

    def _on_event(self, events: Sequence[Event], *, at_us: int) -> None:
        self._holds.on_event(events, at_us=at_us, planned=(self._planned.number, self._passes_us[-1]))

    def _look(self, at_us: int) -> None:
        """Compare the state with the one before."""
        snapshot = self._fold.snapshot()
        if snapshot.queue is not self._snapshot.queue:
            self._look_at_queue({row.session_id: row for row in snapshot.queue}, at_us)
        if snapshot.running is not self._snapshot.running:
            self._holds.look(snapshot.running, at_us=at_us)
        around = self._decision_context(snapshot, before=self._around)
        if around is not self._around:
            self._facts.append(RecordedFact(at_us=at_us, surroundings=around))
            self._around = around
        self._snapshot = snapshot

    def _look_at_queue(self, queue: dict[SessionId, PendingRow], at_us: int) -> None:
        for name, row in queue.items():
            before = self._queue.get(name)
            if before is None:
                if self._holds.joins(row, at_us=at_us):
                    self._facts.append(RecordedFact(at_us=at_us, arrival=row))
            elif before is not row and not _is_same(before, row):
                self._holds.amend(name)
                self._facts.append(RecordedFact(at_us=at_us, amendment=row))
        gone = [row for name, row in self._queue.items() if name not in queue and self._holds.is_withdrawn(row)]
        self._facts += [RecordedFact(at_us=at_us, withdrawal=row.session_id) for row in gone]
        self._queue = queue

    def _decision_context(self, snapshot: Snapshot, *, before: DecisionContext | None) -> DecisionContext:
        """The present surroundings; the same object as before if they are equal."""
        state = self._fold.state
        found = DecisionContext(
            agents=snapshot.agents,
            quotas=dict(snapshot.quotas),
            policy=state.rules,
            asked=snapshot.asked,
            foreign=_foreign(snapshot),
            dependencies=snapshot.dependencies,
            is_stopped=state.orchestration.is_stopped,
        )
        if before is None:
            return found
        same_agents = are_same(before.agents, found.agents)
        asked = before.asked if before.asked == found.asked else found.asked
        found = replace(found, agents=before.agents if same_agents else found.agents, asked=asked)
        return before if found == before else found


def _carried_out(events: Sequence[Event]) -> int:
    """How many of the events there are until the last one of a plan."""
    return max((place for place, event in enumerate(events, 1) if event.pass_number is not None), default=0)


def _joins(event: Event) -> bool:
    """Whether a session begins to wait. The next pass places it or says why it waits, so that it has an entry."""
    session = event.record
    return isinstance(session, Session) and session.is_pending and event.kind in JOINING


def _is_same(before: PendingRow, row: PendingRow) -> bool:
    """Whether two rows of a session are the same for decisions, apart from which tasks of an array have started."""
    if row.tasks is not None:
        return asks_the_same(before, row)
    return replace(before, version=row.version) == row


def _foreign(snapshot: Snapshot) -> dict[NodeId, Occupancy]:
    """Devices held beside those of sessions."""
    layouts = {agent.id: agent.layout for agent in snapshot.agents}
    held: dict[NodeId, dict[str, int]] = {}
    for kernel in (kernel for row in snapshot.running for kernel in row.kernels):
        layout = layouts.get(kernel.agent_id)
        on_node = held.setdefault(kernel.node_id, {})
        for device_id, amount in occupancy_on((kernel.spec,), {} if layout is None else layout.devices).items():
            on_node[device_id] = on_node.get(device_id, 0) + amount
    found: dict[NodeId, Occupancy] = {}
    for node_id, used in snapshot.used.items():
        mine = held.get(node_id, {})
        rest = {device_id: amount - mine.get(device_id, 0) for device_id, amount in used.items()}
        more = {device_id: amount for device_id, amount in rest.items() if amount > 0}
        if more:
            found[node_id] = more
    return found
