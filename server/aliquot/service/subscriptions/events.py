"""Event subscription: the event log as it grows, in the form of audit entries."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from aliquot.service.access import check_role
from aliquot.service.audit.audit import AuditQuery, AuditStore, change_view
from aliquot.service.state.identities import Identities
from aliquot.service.state.journal import Feed
from aliquot_schema.errors import InvalidRequest, Unavailable
from aliquot_schema.events import Event
from aliquot_schema.identity.accounts import Role
from aliquot_schema.requests import Caller
from aliquot_schema.views.audit import ChangeView

KINDS_MAX: Final = 32
KIND_CHARS_MAX: Final = 80


class Record:
    """Subscriptions to committed events.

    Args:
        people: names the keys that changes were made with.
        book: the audit store; None = this server keeps no audit log.
    """

    def __init__(self, *, people: Identities, feed: Feed, book: AuditStore | None) -> None:
        self._people = people
        self._feed = feed
        self._book = book

    async def follow(self, caller: Caller, after: int, kinds: Sequence[str]) -> AsyncIterator[ChangeView]:
        """Events numbered above `after`, in order; of these kinds, or of all if none are given.

        Raises:
            Forbidden: the caller is not an operator.
            InvalidRequest: the next event was archived, or a kind is malformed.
            Unavailable: this server keeps no audit log.
        """
        check_role(caller, Role.OPERATOR)
        wanted = _checked(kinds)
        book = self._book
        if book is None:
            raise Unavailable("this server keeps no audit log")
        position = after
        while True:
            await self._feed.reached(position + 1)
            page = await self._feed.page(position)
            before, position = position, page[-1].number
            numbers = [event.number for event in page if not wanted or _is_one_of(event, wanted)]
            if not numbers:
                continue
            first, last = numbers[0], numbers[-1]
            query = AuditQuery(after=first - 1, before=last + 1, kinds=wanted, limit=last - first + 1)
            changes = await book.changes(query)
            if len(changes) < len(numbers):
                await self._feed.page(before)  # raises where they were archived after the page was read
            for change in changes:
                yield change_view(change, people=self._people, shows_commands=caller.role >= Role.ADMIN)


def _is_one_of(event: Event, kinds: Sequence[str]) -> bool:
    return event.kind in kinds or event.entity in kinds


def _checked(kinds: Sequence[str]) -> tuple[str, ...]:
    if len(kinds) > KINDS_MAX or any(not 0 < len(kind) <= KIND_CHARS_MAX for kind in kinds):
        raise InvalidRequest(f"kinds: at most {KINDS_MAX}, each like `session` or `session.queued`", field="kinds")
    return tuple(kinds)
