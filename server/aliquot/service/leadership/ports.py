"""Leadership ports: the shared store, the leadership lock and commit notifications, and one server's view of them."""

import asyncio
from typing import Protocol

from msgspec import Struct

from aliquot.service.ports import LoadedRows, Store
from aliquot.service.views.terms import moment, moment_or_none
from aliquot_schema.orchestration import Orchestration
from aliquot_schema.views.server import OrchestratorView
from aliquot_schema.views.server import ServerRole as ServerRole


class LeadershipLost(Exception):
    """This server may have lost the lock, and must stop acting as the leader."""


class CurrentTerm(Struct, frozen=True, kw_only=True):
    """The newest term: the present leader's, or the last one's."""

    epoch: int
    """0 before the first term."""
    began_us: int


class TermStart(CurrentTerm, frozen=True, kw_only=True):
    """Start of a term. No commit of an earlier term follows event `revision`."""

    revision: int
    last_at_us: int
    last_pass: int


class SharedStore(Store, Protocol):
    """A store that several servers write."""

    async def join(self) -> LoadedRows:
        """As `open`, but without raising the epoch: another server may lead."""

    async def begin_term(self) -> TermStart:
        """Raise the epoch; commits of older epochs are refused from now on."""

    async def present_term(self) -> CurrentTerm:
        """The newest term."""


class LeadershipLock(Protocol):
    """A lock that at most one server holds."""

    async def take(self) -> bool:
        """Try to take the lock; returns whether this server has it.

        Raises:
            StoreUnavailable: the database cannot be read.
        """

    async def holder(self) -> str | None:
        """The address of the holder, empty when it is unknown; None when the lock is free.

        Raises:
            StoreUnavailable: the database cannot be read.
        """

    async def hold(self) -> None:
        """Keep the lock until cancelled.

        Raises:
            LeadershipLost: another server may have it from now on.
        """

    async def leave(self) -> None:
        """Release the lock."""


class FreeLock:
    """Lock of a standalone server: always free, never lost."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def take(self) -> bool:
        """True."""
        return True

    async def holder(self) -> str | None:
        """This server."""
        return self._address

    async def hold(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()

    async def leave(self) -> None:
        """Do nothing: no other server waits for the lock."""


class CommitNotifications(Protocol):
    """Notifications of commits by other servers."""

    async def wait(self, *, seconds: float) -> None:
        """Return after a commit since the last call, after a possible one, or after `seconds`. Never raises."""

    async def close(self) -> None:
        """Stop listening."""


class LeadershipStatus(Struct, frozen=True, kw_only=True):
    """Leadership as one server sees it."""

    role: ServerRole
    address: str
    """URL of this server; empty when not configured."""
    leader_address: str | None
    """URL of the leader; None when no server leads or its URL is unknown."""
    epoch: int
    """Epoch of the newest term."""
    since_us: int | None
    """Start of that term, microseconds UTC; None before the first term."""


def orchestrator_view(standing: LeadershipStatus, orchestration: Orchestration) -> OrchestratorView:
    """The view of leadership and scheduling state that the API returns."""
    by = orchestration.changed_by if orchestration.version else None
    at = moment(orchestration.changed_us) if orchestration.version else None
    return OrchestratorView(
        role=standing.role,
        address=standing.address,
        leader_address=standing.leader_address,
        epoch=standing.epoch,
        leads_since=moment_or_none(standing.since_us),
        state=orchestration.state,
        stopped_by=by if orchestration.is_stopped else None,
        stopped_at=at if orchestration.is_stopped else None,
        changed_by=by,
        changed_at=at,
        note=orchestration.note,
    )
