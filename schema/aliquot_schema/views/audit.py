"""Read models of the audit log: changes, device holdings, recorded passes and the steps of a session."""

from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

from aliquot_schema.states import SessionState
from aliquot_schema.views.session_parts import ImagePullView, PreemptionView

T = TypeVar("T")


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Filter of changes. None matches everything."""

    entity_id: str | None = None
    actor: str | None = None
    kind: str | None = None
    """`session.queued`, or only the part before the dot."""
    since: datetime | None = None
    until: datetime | None = None
    people_only: bool = False
    """Only changes made by users."""


class ChangedFieldView(Struct, frozen=True, kw_only=True):
    """Change of one field of a record; values are JSON text."""

    name: str
    before: str | None
    """None = the change created the record, or the previous state is past retention."""
    after: str


class ChangeView(Struct, frozen=True, kw_only=True):
    """A change: one event of the log."""

    number: int
    at: datetime
    kind: str
    entity_id: str
    actor: str
    api_key: str | None
    """Name of the API key that the request came with."""
    request_id: str | None
    pass_number: int | None
    fields: tuple[ChangedFieldView, ...]


class HoldingView(Struct, frozen=True, kw_only=True):
    """An amount of one slot of one device, held by one lease from grant to release."""

    device_id: str
    slot: str
    amount: str
    kind: str
    lease_id: str
    agent_id: str
    session_id: str | None
    user: str
    since: datetime
    until: datetime | None
    """When it was released; None = still held."""
    evidence: str | None
    """Evidence of the end."""
    pass_number: int | None
    """The pass that granted it."""
    preempted_at: datetime | None
    preempted_by: str | None
    """The session it was preempted for, or the cause."""


class RecordCheckView(Struct, frozen=True, kw_only=True):
    """A verification of the hash chains, the archives and the table of holdings. The counts are 0 until it ends."""

    started_at: datetime
    ended_at: datetime | None
    """None = it is running."""
    faults: tuple[str, ...] = ()
    """What is broken; empty when the record is intact."""
    events: int = 0
    passes: int = 0
    unwritten: int = 0
    """Passes that events name and that the ledger lacks."""
    holdings: int = 0
    archives: int = 0
    """Archive files."""
    archived_rows: int = 0
    removed_rows: int = 0
    """Rows removed without an archive."""


class LedgerPassView(Struct, frozen=True, kw_only=True):
    """A recorded scheduling pass whose decisions differ from the previous pass."""

    number: int
    at: datetime
    event_number: int
    """The last event of its snapshot."""
    epoch: int
    code_version: str
    lost_before: int
    placed: tuple[str, ...]
    preempted: tuple[str, ...]
    failed: tuple[str, ...]


class CursorPage(Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a log, newest first, without a total count."""

    items: tuple[T, ...]
    cursors: tuple[str, ...]
    """One opaque cursor per item."""
    has_next: bool
    has_previous: bool


class SessionStepView(Struct, frozen=True, kw_only=True):
    """One committed state change of a session."""

    number: int
    """Number of the event."""
    at: datetime
    kind: str
    """`session.queued`, `session.requeued`, ..."""
    state: SessionState
    attempt: int
    """Attempt number after it."""
    held_by: str | None
    preemption: PreemptionView | None
    """The latest preemption as of this step, possibly of an earlier attempt."""
    pull: ImagePullView | None = None
    """The pull that this step began or ended; None = it is another step."""
