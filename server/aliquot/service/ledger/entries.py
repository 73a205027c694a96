"""Ledger entries: the decisions of a pass, and those inputs that are not in the event log; with the ledger's ports.

Entries are differences to the previous entry; every `CHECKPOINT_EVERY` entries one holds a complete checkpoint. A pass
is reproducible only with the same `code_version`.
"""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

import aliquot
import aliquot_schema
from aliquot.core.fairshare import UsageBalance
from aliquot.core.model.plan import BacklogPeak, Plan
from aliquot.core.model.policy import Policy
from aliquot.core.model.snapshot import Request, Snapshot
from aliquot.core.prediction import RunTimes
from aliquot_schema.billing import Statement
from aliquot_schema.bookings import Booking
from aliquot_schema.cluster.agents import Agent, KnownSlot
from aliquot_schema.errors import NotFound
from aliquot_schema.events import Event
from aliquot_schema.ids import AgentId, DeviceId, LeaseId, NodeId, PoolId, ProjectId, SessionId, UserId
from aliquot_schema.intervals import Intervals
from aliquot_schema.orchestration import Action
from aliquot_schema.policies import PolicyDocument
from aliquot_schema.quotas import Quota
from aliquot_schema.reasons import Verdict
from aliquot_schema.resources.leases import Kernel, Lease
from aliquot_schema.sessions import Session
from aliquot_schema.states import SessionState

LEDGER_FORMAT: Final = 1
"""Version of the entry format; incremented when older entries could be misread."""


class Inputs(Struct, frozen=True, kw_only=True):
    """Inputs not in the event log, as changes to the previous entry; complete in an entry with a checkpoint."""

    open_agents: tuple[AgentId, ...] | None = None
    """Agents open for new work; None = unchanged."""
    estimates: tuple[tuple[SessionId, int], ...] = ()
    """Mean run times predicted for sessions at their start, in milliseconds."""
    medians: tuple[tuple[SessionId, int], ...] = ()
    """As `estimates`, medians."""
    workloads: tuple[tuple[SessionId, int], ...] = ()
    """Number of the workload that each waiting session is predicted by."""
    run_times: tuple[tuple[int, RunTimes | None], ...] = ()
    """Predictions by number of the workload; None = too few similar runs, or no session of it waits."""
    backlogs: tuple[tuple[PoolId, BacklogPeak], ...] = ()
    """Peaks of the backlogs before the pass; always complete."""
    asked: tuple[tuple[Request, int], ...] = ()
    """Sessions per request; 0 = none any more."""
    dependencies: tuple[tuple[SessionId, SessionState | None], ...] = ()
    """States of dependencies; None = no longer a dependency, or unknown."""
    foreign_usage: tuple[tuple[NodeId, tuple[tuple[DeviceId, int], ...]], ...] | None = None
    """Devices used by foreign processes, with the budget units counted as held; None = unchanged."""
    order: str | None = None
    """Replacement for the policy's order, which the server did not know; None = the policy's own."""
    placement: str | None = None


class VerdictChange(Struct, frozen=True, kw_only=True):
    """Sessions whose verdict changed since the previous entry."""

    places: Intervals
    """Positions in the queue of the snapshot, which is sorted by (queued_us, session_id)."""
    verdict: Verdict | None
    """None = they wait no longer: they were placed, or have failed."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The part of the state at an entry's revision from which later snapshots are rebuilt."""

    agents: tuple[Agent, ...]
    slots: tuple[KnownSlot, ...]
    policy: PolicyDocument
    quotas: tuple[Quota, ...]
    sessions: tuple[Session, ...]
    """Sessions that have not ended, hold devices or are dependencies; without command and environment."""
    kernels: tuple[Kernel, ...]
    """Kernels that have not exited."""
    leases: tuple[Lease, ...]
    """Open leases."""
    balances: tuple[tuple[ProjectId, UserId, UsageBalance], ...]
    half_life_ms: int
    rates: Mapping[LeaseId, int]
    """Rates of the open leases at their grants, in thousandths of a device."""
    bookings: tuple[Booking, ...] = ()
    """Open bookings."""
    statements: tuple[Statement, ...] = ()
    """Statements of accounts."""
    idle: tuple[Action, ...] = ()
    """Records of sessions that do not use their GPUs."""


class PassEntry(Struct, frozen=True, kw_only=True):
    """One pass. A pass that decided nothing and changed no verdict has no entry."""

    number: int
    """Increases from entry to entry, also across restarts."""
    now_us: int
    revision: int
    """The number of the last event in the snapshot."""
    seed: int
    epoch: int
    code_version: str
    lost: int = 0
    """Passes before this one that may have decided something and could not be recorded."""
    inputs: Inputs
    verdicts: tuple[VerdictChange, ...]
    plan: Plan
    """Without verdicts."""
    checkpoint: Checkpoint | None = None


class PassKey(Struct, frozen=True, kw_only=True):
    """Index of an entry."""

    number: int
    revision: int
    has_checkpoint: bool


class LedgerStore(Protocol):
    """The durable ledger, append-only and hash-chained. Every method may raise `StoreUnavailable`."""

    async def append(self, entries: Sequence[PassEntry]) -> None:
        """Write entries in order; existing ones are not changed.

        Raises:
            NotLeader: a later epoch has begun; none was written.
        """

    async def backlogs(self) -> Mapping[PoolId, BacklogPeak]:
        """Peaks of the backlogs after the last entry; empty without one."""

    async def missing(self) -> int:
        """Number of passes of earlier epochs that have events and come after the last entry."""

    async def follow(self) -> bool:
        """Project a page of events into the query tables; returns whether there may be more."""


class LedgerReader(Protocol):
    """The ledger as replays read it."""

    async def last(self, count: int) -> tuple[PassKey, ...]:
        """The newest entries, oldest first."""

    async def checkpoint_before(self, number: int) -> PassKey | None:
        """The newest entry with a checkpoint, at or before this pass."""

    async def entries(self, *, first: int, last: int, limit: int) -> tuple[PassEntry, ...]:
        """At most `limit` entries numbered `first` to `last`, both included, in order."""

    async def events_after(self, number: int, *, limit: int) -> tuple[Event, ...]:
        """Events numbered above `number`, in order."""


PAGE: Final = 100
"""Entries per read."""


async def entries_of(ledger: LedgerReader, *, first: int, last: int) -> AsyncIterator[PassEntry]:
    """Entries from `first` to `last`, read page by page.

    Raises:
        NotFound: some were archived meanwhile.
    """
    page = await ledger.entries(first=first, last=last, limit=PAGE)
    while page:
        for entry in page:
            yield entry
        known = page[-1].number
        if known >= last:
            return
        # The oldest are archived first: while the last known one is there, so are those after it.
        page = await ledger.entries(first=known, last=last, limit=PAGE + 1)
        if not page or page[0].number != known:
            raise NotFound(f"the passes after {known} were archived meanwhile", kind="pass", id=str(known + 1))
        page = page[1:]


class PassWatcher(Protocol):
    """Observes every pass."""

    def begins(self, snapshot: Snapshot, rules: Policy) -> None:
        """A snapshot was taken; the state has not changed since."""

    def ends(self, plan: Plan, *, number: int, now_us: int, seed: int) -> None:
        """The pass that began last has produced a plan."""


DECIDING: Final = ("core", "service")
"""Packages of the server that make snapshots or decide on them."""
_DIGITS: Final = 12


@cache
def code_version() -> str:
    """`<version>+<first digits of the SHA-256 of the sources>`. Reads several hundred small files, once."""
    server, schema = (Path(str(package.__file__)).parent for package in (aliquot, aliquot_schema))
    paths = [path for name in DECIDING for path in sorted((server / name).rglob("*.py"))]
    paths += [
        path for path in sorted(schema.rglob("*.py")) if not {"graphql", "views"} & set(path.relative_to(schema).parts)
    ]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"{_version()}+{digest.hexdigest()[:_DIGITS]}"


def _version() -> str:
    try:
        return version("aliquot")
    except PackageNotFoundError:
        return "0"
