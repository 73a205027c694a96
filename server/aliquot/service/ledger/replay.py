"""Replay: decides recorded passes again, and reports differences to the original decisions.

Snapshots are rebuilt from the last checkpoint before the requested passes, the event log, and the inputs in the ledger.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from aliquot.core.fairshare import Usage
from aliquot.core.model.plan import Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import NO_USER, Request, Snapshot
from aliquot.core.prediction import Prediction, RunTimes, Workload
from aliquot.core.scheduler.cache import PassCache
from aliquot.core.scheduler.decide import decide
from aliquot.core.workloads import Forecasts
from aliquot.service.ledger.entries import Checkpoint, Inputs, LedgerReader, PassEntry, entries_of
from aliquot.service.state.snapshots import take
from aliquot.service.state.state import State
from aliquot.service.state.usage_accounts import UsageAccounts
from aliquot_schema.errors import NotFound
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Verdict
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

COMPARED: Final = ("placements", "evictions", "promises")
"""Sequences of a plan, whose order is part of the decision."""


class ReplayDifference(Struct, frozen=True, kw_only=True):
    """One difference between the recorded and the replayed decision."""

    pass_number: int
    what: str
    """`placements`, `verdicts`, `reservation`, `bookings`, ..."""
    of: str
    """The session concerned; empty = none in particular."""
    was: Any
    """The recorded value; None = absent."""
    now: Any


def differences(
    number: int, was: Plan, now: Plan, *, verdicts: Mapping[SessionId, Verdict]
) -> tuple[ReplayDifference, ...]:
    """Compare two plans of one pass; the verdicts of `was` are given separately."""
    pairs = [
        *_of_mapping("verdicts", verdicts, now.verdicts),
        *_of_mapping("failures", was.failures, now.failures),
        *_of_mapping("fallbacks", was.fallbacks, now.fallbacks),
        *(pair for what in COMPARED for pair in _of_sequence(what, getattr(was, what), getattr(now, what))),
    ]
    pairs += [
        (what, "", getattr(was, what), getattr(now, what))
        for what in ("reservation", "wake_at_us", "bookings", "extensions")
        if getattr(was, what) != getattr(now, what)
    ]
    return tuple(
        ReplayDifference(pass_number=number, what=what, of=of, was=old, now=new) for what, of, old, new in pairs
    )


Pair = tuple[str, str, Any, Any]


def _of_mapping(what: str, was: Mapping[SessionId, Any], now: Mapping[SessionId, Any]) -> Iterator[Pair]:
    for name in {**was, **now}:
        if was.get(name) != now.get(name):
            yield what, name, was.get(name), now.get(name)


def _of_sequence(what: str, was: tuple[Any, ...], now: tuple[Any, ...]) -> Iterator[Pair]:
    for old, new in zip_longest(was, now):
        if old != new:
            yield what, (new if old is None else old).session_id, old, new


K = TypeVar("K")
V = TypeVar("V")


class PublishedForecasts(Forecasts):
    """Forecasts that return the recorded predictions instead of learning."""

    def __init__(self) -> None:
        super().__init__()
        self._recorded: dict[SessionId, RunTimes] = {}
        self._numbers: dict[SessionId, int] = {}
        self._known: dict[Workload, RunTimes] = {}
        self._predicted: dict[SessionId, Prediction] = {}

    def publish(self, inputs: Inputs) -> None:
        """Take the predictions of an entry."""
        medians = dict(inputs.medians)  # 0.1.0 recorded none
        self._recorded.update((name, RunTimes(mean, medians.get(name, mean))) for name, mean in inputs.estimates)
        self._numbers.update(inputs.workloads)
        _merge(self._known, {_numbered(number): found for number, found in inputs.run_times})

    def learn(self, session: Session) -> None:
        """Keep what is recorded: if the session is retried before the next pass, it may not be recorded again."""
        self._predicted.pop(session.id, None)

    def wait(self, session: Session) -> Workload | None:
        self._predicted.pop(session.id, None)
        number = self._numbers.get(session.id)
        return None if number is None else _numbered(number)

    def start(self, session: Session) -> None:
        found = self._recorded.get(session.id)
        if found is not None:
            self._predicted[session.id] = Prediction(
                estimate_ms=found.mean_ms, median_ms=found.median_ms, runs=0, user=None, likeness="", is_limited=False
            )

    def of(self, session_id: SessionId) -> Prediction | None:
        return self._predicted.get(session_id)

    def run_times(self) -> Mapping[Workload, RunTimes]:
        return dict(self._known)


def _numbered(number: int) -> Workload:
    """A workload that differs from those of other numbers; decisions read nothing else of it."""
    return Workload(user=NO_USER, program=str(number), milli=0, limit_ms=None)


class SnapshotFold:
    """Rebuilds the snapshot of each entry, beginning with one that has a checkpoint."""

    def __init__(self, entry: PassEntry, *, forecasts: Forecasts | None = None) -> None:
        """
        Args:
            forecasts: they learn from the sessions that end; None = the recorded predictions, with workloads that only
                have numbers.
        """
        assert entry.checkpoint is not None, f"pass {entry.number} has no checkpoint"
        self._published = PublishedForecasts() if forecasts is None else None
        self._state = State(forecasts=forecasts or self._published)
        self._asked: dict[Request, int] = {}
        self._dependencies: dict[SessionId, SessionState] = {}
        self._verdicts: dict[SessionId, Verdict] = {}
        self._publish(entry)
        _load(self._state, entry.checkpoint, revision=entry.revision)
        self._apply_inputs(entry.inputs)

    @property
    def revision(self) -> int:
        """The number of the last event applied."""
        return self._state.revision

    @property
    def state(self) -> State:
        """The state; events that belong to no entry may be applied to it."""
        return self._state

    def follow(self, entry: PassEntry, events: Iterable[Event]) -> None:
        """Advance to the next entry; `events` are all events since the previous one, up to the entry's revision."""
        self._publish(entry)
        for event in events:
            self._state.apply(event)
        assert self._state.revision == entry.revision, f"pass {entry.number}: events are missing"
        if entry.checkpoint is not None:
            self._asked.clear()
            self._dependencies.clear()
        self._apply_inputs(entry.inputs)

    def snapshot(self) -> Snapshot:
        """The snapshot of the pass."""
        return replace(take(self._state), asked=dict(self._asked), dependencies=dict(self._dependencies))

    def rules(self, entry: PassEntry) -> Policy:
        """The policy of the pass."""
        rules, inputs = self._state.rules, entry.inputs
        return replace(rules, order=inputs.order or rules.order, placement=inputs.placement or rules.placement)

    def verdicts(self, entry: PassEntry, snapshot: Snapshot) -> Mapping[SessionId, Verdict]:
        """Verdicts after the pass. Must be called for every entry, in order."""
        queue = snapshot.queue
        known = {row.session_id: self._verdicts[row.session_id] for row in queue if row.session_id in self._verdicts}
        for change in entry.verdicts:
            for position in change.places:
                if change.verdict is None:
                    known.pop(queue[position].session_id, None)
                else:
                    known[queue[position].session_id] = change.verdict
        self._verdicts = known
        return known

    def _publish(self, entry: PassEntry) -> None:
        if self._published is not None:
            self._published.publish(entry.inputs)

    def _apply_inputs(self, inputs: Inputs) -> None:
        if inputs.open_agents is not None:
            self._state.reachable = set(inputs.open_agents)
        if inputs.foreign_usage is not None:
            self._state.foreign_usage.set({node_id: dict(budgets) for node_id, budgets in inputs.foreign_usage})
        self._state.backlogs.set(dict(inputs.backlogs))
        _merge(self._asked, {request: count or None for request, count in inputs.asked})
        _merge(self._dependencies, dict(inputs.dependencies))


def _merge(known: dict[K, V], changes: Mapping[K, V | None]) -> None:
    for key, value in changes.items():
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value


def _load(state: State, checkpoint: Checkpoint, *, revision: int) -> None:
    records = (
        *checkpoint.agents,
        *checkpoint.slots,
        *((checkpoint.policy,) if checkpoint.policy.version else ()),
        *checkpoint.quotas,
        *checkpoint.sessions,
        *checkpoint.kernels,
        *checkpoint.leases,
        *checkpoint.bookings,
        *checkpoint.statements,
        *checkpoint.idle,
    )
    state.load(records, revision=revision, ended_complete=False)
    balances = {(project, user): balance for project, user, balance in checkpoint.balances}
    usage = Usage(balances=balances, half_life_ms=checkpoint.half_life_ms)
    state.books = UsageAccounts(usage, rates=checkpoint.rates)


EVENTS_PAGE: Final = 2000


class Replayed(Struct, frozen=True, kw_only=True):
    """One replayed pass."""

    entry: PassEntry
    placements: int
    waiting: int
    differences: tuple[ReplayDifference, ...]


async def replay(
    ledger: LedgerReader, *, first: int, last: int, policy: Policy | None = None
) -> AsyncIterator[Replayed]:
    """Replay passes in order.

    Args:
        policy: decide by this policy instead of the recorded ones. Each pass still starts from the recorded state,
            not from the outcome of earlier replayed decisions.
    Raises:
        NotFound: the ledger has no checkpoint before `first`, or no entry in the range.
    """
    start = await ledger.checkpoint_before(first)
    if start is None:
        raise NotFound(
            f"the ledger does not reach back to pass {first}; choose a later one", kind="pass", id=str(first)
        )
    fold: SnapshotFold | None = None
    cache = PassCache()
    found = False
    async for entry in entries_of(ledger, first=start.number, last=last):
        if entry.checkpoint is not None:
            fold, cache = SnapshotFold(entry), PassCache()
        else:
            assert fold is not None, "the first entry has a checkpoint"
            fold.follow(entry, await events_between(ledger, after=fold.revision, until=entry.revision))
        snapshot = fold.snapshot()
        verdicts = fold.verdicts(entry, snapshot)
        if entry.number < first:
            continue
        found = True
        plan = decide(snapshot, policy or fold.rules(entry), now_us=entry.now_us, seed=entry.seed, known=cache)
        yield Replayed(
            entry=entry,
            placements=len(plan.placements),
            waiting=len(plan.verdicts),
            differences=differences(entry.number, entry.plan, plan, verdicts=verdicts),
        )
    if not found:
        raise NotFound(
            f"no pass from {first} to {last} is recorded; passes that decided nothing have no entry",
            kind="pass",
            id=str(first),
        )


async def events_between(ledger: LedgerReader, *, after: int, until: int) -> list[Event]:
    """Events after one number, up to another.

    Raises:
        NotFound: some were archived.
    """
    found: list[Event] = []
    while after < until:
        page = await ledger.events_after(after, limit=min(EVENTS_PAGE, until - after))
        if not page:
            raise NotFound(
                f"event {after + 1} was archived, so these passes cannot be replayed", kind="event", id=str(after + 1)
            )
        found += page
        after = page[-1].number
    return found
