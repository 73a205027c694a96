"""Notices, as people ask for them: what is open, where it goes, and where they hear of their own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from aliquot.service.draft import Draft
from aliquot.service.notices.addresses import checked_address
from aliquot.service.notices.ports import AlertQuery, DeliveryQuery, NoticeRecords
from aliquot.service.notices.projection import alert_view, delivery_view, preferences_view, receiver_view
from aliquot.service.notices.receivers import Receiver
from aliquot.service.notices.rule_changes import RuleChanges
from aliquot.service.paging import cursor_of, key_of
from aliquot.service.permissions import check_role
from aliquot.service.ports import Ids
from aliquot_schema.audit_views import Reel
from aliquot_schema.errors import InvalidRequest, NotFound, Unavailable
from aliquot_schema.ids import RequestId
from aliquot_schema.notice_views import (
    AlertState,
    AlertView,
    DeliveryView,
    NoticePreferencesChanged,
    NoticePreferencesChanges,
    NoticePreferencesView,
    ReceiverView,
    TrialSent,
)
from aliquot_schema.notices import DELIVERY_PREFIX, OWNERS_HEAR, Alert, Delivery, NoticeKind, Severity, Subscriber
from aliquot_schema.requests import Caller, PageRequest
from aliquot_schema.roles import Role

R = TypeVar("R", Alert, Delivery)
V = TypeVar("V")


class NoticeOffice(RuleChanges):
    """Any server can be asked; what it answers of receivers is by its own settings."""

    outbox: NoticeRecords | None = None
    """None = what the server runs on keeps no record."""
    receivers: Sequence[Receiver] = ()
    notice_ids: Ids | None = None

    async def alerts(self, caller: Caller, state: AlertState | None, page: PageRequest) -> Reel[AlertView]:
        """Alerts, the newest first.

        Raises:
            InvalidRequest: the cursor is none.
        """
        query = AlertQuery(
            is_open=None if state is None else state is AlertState.OPEN, before=_before(page), limit=page.first + 1
        )
        return _reel(await self._records().alerts(query), page, show=alert_view)

    def notice_receivers(self, caller: Caller) -> tuple[ReceiverView, ...]:
        """Where notices go.

        Raises:
            Forbidden: for admins.
        """
        check_role(caller, Role.ADMIN)
        now_us = self._clock.now_us()
        return tuple(receiver_view(receiver, now_us=now_us) for receiver in self.receivers)

    async def deliveries(self, caller: Caller, notice_id: str | None, page: PageRequest) -> Reel[DeliveryView]:
        """What went to receivers, the newest first.

        Raises:
            Forbidden: for admins; InvalidRequest: the cursor is none.
        """
        check_role(caller, Role.ADMIN)
        query = DeliveryQuery(notice_id=notice_id, before=_before(page), limit=page.first + 1)
        return _reel(await self._records().deliveries(query), page, show=delivery_view)

    async def send_test_notice(self, caller: Caller, receiver: str) -> TrialSent:
        """Put a notice for one receiver into the outbox, from where the server that leads delivers it.

        Raises:
            Forbidden: for admins; NotFound: the settings name no such receiver.
        """
        check_role(caller, Role.ADMIN)
        known = next((one for one in self.receivers if one.name == receiver), None)
        if known is None or self.notice_ids is None:
            names = ", ".join(one.name for one in self.receivers) or "none"
            raise NotFound(
                f"the settings name no receiver {receiver[:80]}; there are: {names}", kind="receiver", id=receiver[:80]
            )
        name, now_us = self.notice_ids.new(DELIVERY_PREFIX), self._clock.now_us()
        trial = Delivery(
            id=name,
            receiver=known.name,
            kind=NoticeKind.TEST,
            severity=Severity.INFO,
            subject=known.name,
            words=f"a test of receiver {known.name}, which {caller.user} asked for",
            user=None if known.tells_alerts else caller.user,
            notice_id=name,
            made_us=now_us,
            next_us=now_us,
        )
        sent = await self._act(caller, lambda draft: draft.put(trial, "queued"))
        return TrialSent(delivery=delivery_view(sent), revision=self._state.revision)

    def notice_preferences(self, caller: Caller) -> NoticePreferencesView:
        """The caller's own."""
        return preferences_view(self._state.noticed.subscribers.get(caller.user))

    async def set_notice_preferences(
        self, caller: Caller, changes: NoticePreferencesChanges
    ) -> NoticePreferencesChanged:
        """Change the caller's own; what is None stays.

        Raises:
            InvalidRequest: the address is none, or owners are not told of one of these.
        """
        given = _given(changes)

        def change(draft: Draft) -> Subscriber:
            known = draft.notice(Subscriber, caller.user) or Subscriber(id=caller.user)
            wanted = replace(known, **given)
            if wanted == known and known.version:
                return known
            return draft.put(replace(wanted, changed_us=self._clock.now_us()), "changed")

        request_id = RequestId(caller.request_id)
        changed = await self._journal.transact(change, actor=caller.user, request_id=request_id)
        return NoticePreferencesChanged(preferences=preferences_view(changed), revision=self._state.revision)

    def _records(self) -> NoticeRecords:
        if self.outbox is None:
            raise Unavailable("this server keeps no record")
        return self.outbox


def _given(changes: NoticePreferencesChanges) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if changes.email is not None:
        try:
            given["email"] = checked_address(changes.email) if changes.email.strip() else None
        except ValueError as error:
            raise InvalidRequest(f"email: {error}", field="email") from None
    if changes.notify is not None:
        odd = [kind for kind in changes.notify if kind not in OWNERS_HEAR]
        if odd:
            known = ", ".join(OWNERS_HEAR)
            raise InvalidRequest(f"notify: owners are not told of {odd[0]}; there are: {known}", field="notify")
        given["notify"] = tuple(kind for kind in OWNERS_HEAR if kind in changes.notify)
    return given


def _reel(found: Sequence[R], page: PageRequest, *, show: Callable[[R], V]) -> Reel[V]:
    newest = found[: page.first]
    return Reel(
        items=tuple(map(show, newest)),
        cursors=tuple(cursor_of(one.id) for one in newest),
        has_next=len(found) > page.first,
        has_previous=page.after is not None,
    )


def _before(page: PageRequest) -> str | None:
    return None if page.after is None else key_of(page.after)
