"""Use cases of alerting: list alerts, deliveries and receivers, change and mute rules, set a user's own preferences."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from aliquot.service.access import check_role, check_writes
from aliquot.service.alerts.alert_views import alert_view, delivery_view, preferences_view, receiver_view, rule_view
from aliquot.service.alerts.context import AlertQuery, DeliveryQuery, NoticeRecords
from aliquot.service.alerts.message_texts import SECOND_US
from aliquot.service.alerts.plan import AlertPlan
from aliquot.service.alerts.routing import Receiver, checked_address
from aliquot.service.alerts.rules import DEFAULTS, Rules, mute_id
from aliquot.service.operators import OperatorCommands, check_version
from aliquot.service.ports import Clock
from aliquot.service.state.journal import Journal
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.pagination import cursor_of, key_of
from aliquot_schema.alerts import (
    DELIVERY_PREFIX,
    OWNERS_HEAR,
    Alert,
    AlertRule,
    Delivery,
    NoticeKind,
    NoticeRule,
    Severity,
    Subscriber,
)
from aliquot_schema.errors import InvalidRequest, NotFound, Unavailable
from aliquot_schema.identity.accounts import Role
from aliquot_schema.ids import RequestId
from aliquot_schema.requests import Caller, PageRequest
from aliquot_schema.views.alerts import (
    AlertState,
    AlertView,
    DeliveryView,
    NoticePreferencesChanged,
    NoticePreferencesChanges,
    NoticePreferencesView,
    NoticeRuleChanged,
    NoticeRuleChanges,
    NoticeRuleView,
    ReceiverView,
    TestNoticeSent,
)
from aliquot_schema.views.audit import CursorPage

DURATION_S_MAX: Final = 30 * 86_400
NUMBER_MAX: Final = 10_000_000
_LIMITS: Final = {"threshold": NUMBER_MAX, "floor": NUMBER_MAX, "for_s": DURATION_S_MAX}

R = TypeVar("R", Alert, Delivery)
V = TypeVar("V")


class RuleChanges(OperatorCommands):
    """Commands on notice rules. Changed rules are stored and apply to all servers."""

    def __init__(
        self, *, state: State, journal: Journal, clock: Clock, rules: Mapping[AlertRule, NoticeRule] = DEFAULTS
    ) -> None:
        """
        Args:
            rules: the rules of this server's settings.
        """
        super().__init__(state=state, journal=journal, clock=clock)
        self._rules = Rules(state.alert_index, rules)

    def notice_rules(self, caller: Caller) -> tuple[NoticeRuleView, ...]:
        """All rules, in the order of `AlertRule`.

        Raises:
            Forbidden: the caller is not an operator.
        """
        check_role(caller, Role.OPERATOR)
        return tuple(map(rule_view, self._rules.all()))

    async def set_notice_rule(
        self, caller: Caller, changes: NoticeRuleChanges, expected_version: int | None
    ) -> NoticeRuleChanged:
        """Change a rule; fields that are None stay as they are.

        Raises:
            Forbidden: the caller is not an admin.
            InvalidRequest: a value is out of range.
            VersionConflict: the rule was changed since `expected_version`.
        """
        check_role(caller, Role.ADMIN)
        given = _given_rule(changes)
        return await self._change(caller, changes.rule, given, expected=expected_version)

    async def mute_notice_rule(self, caller: Caller, rule: AlertRule, seconds: float) -> NoticeRuleChanged:
        """Send no notices about alerts of a rule for `seconds`, 0 to 30 days; 0 ends the muting.

        Raises:
            Forbidden: the caller is not an operator.
            InvalidRequest: `seconds` is out of range.
        """
        check_role(caller, Role.OPERATOR)
        if not 0 <= seconds <= DURATION_S_MAX:
            raise InvalidRequest(f"seconds: 0 to {DURATION_S_MAX}", field="seconds")
        until_us = self._clock.now_us() + round(seconds * SECOND_US) if seconds else None
        mute = NoticeRule(id=mute_id(rule), muted_until_us=until_us, changed_us=self._clock.now_us())
        await self._act(caller, lambda draft: draft.put(mute, "muted" if seconds else "unmuted"))
        return self._changed(rule)

    async def _change(
        self, caller: Caller, rule: AlertRule, given: dict[str, Any], *, expected: int | None
    ) -> NoticeRuleChanged:
        def change(draft: UnitOfWork) -> None:
            known = draft.notice(NoticeRule, rule.value) or self._rules.of(rule)
            check_version(rule.value, expected=expected, actual=known.version)
            wanted = replace(known, **given)
            if wanted != known:
                draft.put(replace(wanted, changed_us=self._clock.now_us()), "changed")

        await self._act(caller, change)
        return self._changed(rule)

    def _changed(self, rule: AlertRule) -> NoticeRuleChanged:
        return NoticeRuleChanged(rule=rule_view(self._rules.of(rule)), revision=self._state.revision)


def _given_rule(changes: NoticeRuleChanges) -> dict[str, Any]:
    """The fields to change, under the names of the record."""
    names = ("is_on", "threshold", "floor", "for_s", "severity")
    given = {name: value for name in names if (value := getattr(changes, name)) is not None}
    for name, limit in _LIMITS.items():
        if name in given and not 0 <= given[name] <= limit:
            raise InvalidRequest(f"{name}: 0 to {limit}", field=name)
    if given.get("floor") and not DEFAULTS[changes.rule].floor:
        raise InvalidRequest(f"floor: the rule {changes.rule} has none; leave it out", field="floor")
    return given


class AlertCommands(RuleChanges):
    """Use cases of alerting. Every server answers them; receivers are those of its own settings."""

    def __init__(
        self,
        *,
        state: State,
        journal: Journal,
        clock: Clock,
        plan: AlertPlan | None = None,
        records: NoticeRecords | None = None,
    ) -> None:
        """
        Args:
            plan: the settings of this server; None = default rules and no receivers.
            records: None = this server keeps no record of alerts and deliveries.
        """
        super().__init__(state=state, journal=journal, clock=clock, rules=DEFAULTS if plan is None else plan.rules)
        self._plan = plan
        self._stored = records

    async def alerts(self, caller: Caller, state: AlertState | None, page: PageRequest) -> CursorPage[AlertView]:
        """Alerts, newest first.

        Raises:
            InvalidRequest: the cursor is not valid.
        """
        query = AlertQuery(
            is_open=None if state is None else state is AlertState.OPEN, before=_before(page), limit=page.first + 1
        )
        return _page(await self._records().alerts(query), page, view=alert_view)

    def notice_receivers(self, caller: Caller) -> tuple[ReceiverView, ...]:
        """Receivers of notices.

        Raises:
            Forbidden: the caller is not an admin.
        """
        check_role(caller, Role.ADMIN)
        now_us = self._clock.now_us()
        return tuple(receiver_view(receiver, now_us=now_us) for receiver in self._receivers())

    async def deliveries(self, caller: Caller, notice_id: str | None, page: PageRequest) -> CursorPage[DeliveryView]:
        """Deliveries to receivers, newest first.

        Raises:
            Forbidden: the caller is not an admin.
            InvalidRequest: the cursor is not valid.
        """
        check_role(caller, Role.ADMIN)
        query = DeliveryQuery(notice_id=notice_id, before=_before(page), limit=page.first + 1)
        return _page(await self._records().deliveries(query), page, view=delivery_view)

    async def send_test_notice(self, caller: Caller, receiver: str) -> TestNoticeSent:
        """Queue a test notice for one receiver; the leader delivers it.

        Raises:
            Forbidden: the caller is not an admin.
            NotFound: the settings name no such receiver.
        """
        check_role(caller, Role.ADMIN)
        known = next((one for one in self._receivers() if one.name == receiver), None)
        if known is None or self._plan is None:
            names = ", ".join(one.name for one in self._receivers()) or "none"
            raise NotFound(
                f"the settings name no receiver {receiver[:80]}; configured receivers: {names}",
                kind="receiver",
                id=receiver[:80],
            )
        name, now_us = self._plan.ids.new(DELIVERY_PREFIX), self._clock.now_us()
        trial = Delivery(
            id=name,
            receiver=known.name,
            kind=NoticeKind.TEST,
            severity=Severity.INFO,
            subject=known.name,
            words=f"test notice for receiver {known.name}, requested by {caller.user}",
            user=None if known.tells_alerts else caller.user,
            notice_id=name,
            made_us=now_us,
            next_us=now_us,
        )
        sent = await self._act(caller, lambda draft: draft.put(trial, "queued"))
        return TestNoticeSent(delivery=delivery_view(sent), revision=self._state.revision)

    def notice_preferences(self, caller: Caller) -> NoticePreferencesView:
        """The caller's own preferences."""
        return preferences_view(self._state.alert_index.subscribers.get(caller.user), sends_mail=self._sends_mail())

    async def set_notice_preferences(
        self, caller: Caller, changes: NoticePreferencesChanges
    ) -> NoticePreferencesChanged:
        """Change the caller's own preferences; fields that are None stay as they are.

        Raises:
            InvalidRequest: the e-mail address is not valid, or a kind is not sent to owners.
            Forbidden: the caller's key only reads; a new address would get notices after the key has ended too.
        """
        check_writes(caller, self._state.people.keys, what="who gets notices, and about what")
        given = _given(changes)

        def change(draft: UnitOfWork) -> Subscriber:
            known = draft.notice(Subscriber, caller.user) or Subscriber(id=caller.user)
            wanted = replace(known, **given)
            if wanted == known and known.version:
                return known
            return draft.put(replace(wanted, changed_us=self._clock.now_us()), "changed")

        request_id = RequestId(caller.request_id)
        changed = await self._journal.transact(change, actor=caller.actor, request_id=request_id)
        preferences = preferences_view(changed, sends_mail=self._sends_mail())
        return NoticePreferencesChanged(preferences=preferences, revision=self._state.revision)

    def _records(self) -> NoticeRecords:
        if self._stored is None:
            raise Unavailable("this server keeps no record of alerts and deliveries")
        return self._stored

    def _sends_mail(self) -> bool:
        return any(one.tells_owners and one.needs_address for one in self._receivers())

    def _receivers(self) -> list[Receiver]:
        return [] if self._plan is None else [address.receiver for address in self._plan.addresses.values()]


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
            raise InvalidRequest(f"notify: {odd[0]} is not sent to owners; choose among: {known}", field="notify")
        given["notify"] = tuple(kind for kind in OWNERS_HEAR if kind in changes.notify)
    return given


def _page(found: Sequence[R], page: PageRequest, *, view: Callable[[R], V]) -> CursorPage[V]:
    newest = found[: page.first]
    return CursorPage(
        items=tuple(map(view, newest)),
        cursors=tuple(cursor_of(one.id) for one in newest),
        has_next=len(found) > page.first,
        has_previous=page.after is not None,
    )


def _before(page: PageRequest) -> str | None:
    return None if page.after is None else key_of(page.after)
