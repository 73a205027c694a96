"""Folding: the snapshot of each pass, made again of a checkpoint, the event log, and what the ledger adds to it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from aliquot.core.fairshare import Usage
from aliquot.core.policy import Policy
from aliquot.core.predict import Prediction
from aliquot.core.snapshot import Request, Snapshot
from aliquot.service.accounting import Books
from aliquot.service.forecasting import Forecasts
from aliquot.service.ledger.entries import Checkpoint, Inputs, PassEntry
from aliquot.service.snapshots import take
from aliquot.service.state import State
from aliquot_schema.events import Event
from aliquot_schema.ids import SessionId
from aliquot_schema.reasons import Verdict
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

K = TypeVar("K")
V = TypeVar("V")


class ToldForecasts(Forecasts):
    """Predicts what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[SessionId, int] = {}
        self._foreseen: dict[SessionId, Prediction] = {}

    def learn(self, session: Session) -> None:
        """What was told stays: a session that ended and waits again by the next pass may be told of no more."""
        self._foreseen.pop(session.id, None)

    def foresee(self, session: Session) -> Prediction | None:
        estimate_ms = self.told.get(session.id)
        if estimate_ms is None:
            return None
        found = Prediction(estimate_ms=estimate_ms, runs=0, likeness="", is_limited=False)
        self._foreseen[session.id] = found
        return found

    def of(self, session_id: SessionId) -> Prediction | None:
        return self._foreseen.get(session_id)


class Fold:
    """Begins with an entry that has a checkpoint, and goes on entry by entry."""

    def __init__(self, entry: PassEntry) -> None:
        assert entry.checkpoint is not None, f"pass {entry.number} has no checkpoint"
        self._forecasts = ToldForecasts()
        self._state = State(forecasts=self._forecasts)
        self._asked: dict[Request, int] = {}
        self._dependencies: dict[SessionId, SessionState] = {}
        self._verdicts: dict[SessionId, Verdict] = {}
        self._forecasts.told.update(entry.inputs.estimates)
        _load(self._state, entry.checkpoint, revision=entry.revision)
        self._take_in(entry.inputs)

    @property
    def revision(self) -> int:
        """The number of the last event in it."""
        return self._state.revision

    def follow(self, entry: PassEntry, events: Iterable[Event]) -> None:
        """Go on to another entry: these are all events from the one before up to its revision."""
        self._forecasts.told.update(entry.inputs.estimates)
        for event in events:
            self._state.apply(event)
        assert self._state.revision == entry.revision, f"pass {entry.number}: events are missing"
        self._take_in(entry.inputs)

    def snapshot(self) -> Snapshot:
        """What the pass saw."""
        return replace(take(self._state), asked=dict(self._asked), dependencies=dict(self._dependencies))

    def rules(self, entry: PassEntry) -> Policy:
        """The policy it went by."""
        rules, inputs = self._state.rules, entry.inputs
        return replace(rules, order=inputs.order or rules.order, placement=inputs.placement or rules.placement)

    def verdicts(self, entry: PassEntry, snapshot: Snapshot) -> Mapping[SessionId, Verdict]:
        """Why each session waited after the pass. To be asked for every entry, in order."""
        queue = snapshot.queue
        known = {row.session_id: self._verdicts[row.session_id] for row in queue if row.session_id in self._verdicts}
        for change in entry.verdicts:
            for place in change.places:
                if change.verdict is None:
                    known.pop(queue[place].session_id, None)
                else:
                    known[queue[place].session_id] = change.verdict
        self._verdicts = known
        return known

    def _take_in(self, inputs: Inputs) -> None:
        if inputs.open_agents is not None:
            self._state.reachable = set(inputs.open_agents)
        if inputs.external is not None:
            self._state.external.set({node_id: dict(budgets) for node_id, budgets in inputs.external})
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
    )
    state.load(records, revision=revision, ended_complete=False)
    balances = {(project, user): balance for project, user, balance in checkpoint.balances}
    usage = Usage(balances=balances, half_life_ms=checkpoint.half_life_ms)
    state.books = Books(usage, rates=checkpoint.rates)
