"""GraphQL API of alerts, rules, receivers, deliveries and notice preferences.

Every user can read alerts and set their own preferences; the rest is for operators and admins. In inputs that change
something, null fields are unchanged.
"""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.administration.audit import UncountedConnection, uncounted
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import AlertRule, AlertState, DeliveryState, NoticeKind, Severity
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import argument, optional, root_field
from aliquot_schema.graphql.pagination import PAGE_DEFAULT, After, First, page_of
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.alerts import (
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


@strawberry.input(description="Changes of an alert rule. Null fields are unchanged.")
class SetNoticeRuleInput:
    rule: AlertRule = strawberry.field(description="The rule.")
    is_on: bool | None = optional("Whether the rule is evaluated.")
    threshold: int | None = optional("Threshold in the rule's unit; an alert opens above it.")
    floor: int | None = optional("failure_rate only: minimum number of sessions that ended in the hour.")
    for_s: int | None = optional("Seconds that the condition must hold without interruption.")
    severity: Severity | None = optional("Severity of its alerts.")
    expected_version: int | None = optional("Expected current version; fails with VersionConflict otherwise.")

    def to_changes(self) -> NoticeRuleChanges:
        """The input as a request."""
        return NoticeRuleChanges(
            rule=self.rule,
            is_on=self.is_on,
            threshold=self.threshold,
            floor=self.floor,
            for_s=self.for_s,
            severity=self.severity,
        )


@strawberry.input(description="A period without notices of a rule's alerts.")
class MuteNoticeRuleInput:
    rule: AlertRule = strawberry.field(description="The rule.")
    seconds: float = strawberry.field(description="Length in seconds from now; 0 = unmute.")


@strawberry.input(description="Changes of the caller's notice preferences. Null fields are unchanged.")
class SetNoticePreferencesInput:
    email: str | None = optional("Email address; empty = none.")
    notify: list[NoticeKind] | None = optional("Kinds of notices to receive; replaces the list.")

    def to_changes(self) -> NoticePreferencesChanges:
        """The input as a request."""
        return NoticePreferencesChanges(email=self.email, notify=None if self.notify is None else tuple(self.notify))


@strawberry.type(description="A problem detected by an alert rule, from its confirmation to its end.")
class Alert:
    id: strawberry.ID = strawberry.field(description="`alr_...`.")
    version: int = strawberry.field(description="Incremented by every change.")
    rule: AlertRule = strawberry.field(description="The rule that opened it.")
    state: AlertState = strawberry.field(description="Whether it is still open.")
    severity: Severity = strawberry.field(description="Severity.")
    subject: str = strawberry.field(description="An agent, `AGENT/DEVICE`, a user, `queue` or `cluster`.")
    message: str = strawberry.field(description="Message with the facts at the time it was opened.")
    opened_at: datetime = strawberry.field(description="When the problem was confirmed.")
    closed_at: datetime | None = strawberry.field(description="When it ended; null while it is open.")


@strawberry.type(description="An alert rule: the condition under which alerts open.")
class NoticeRule:
    rule: AlertRule = strawberry.field(description="The rule.")
    description: str = strawberry.field(description="When an alert of it opens, as a sentence.")
    version: int = strawberry.field(description="Incremented by every change; 0 = the server's settings.")
    is_on: bool = strawberry.field(description="Whether the rule is evaluated.")
    threshold: int = strawberry.field(description="Threshold in the rule's unit; an alert opens above it.")
    unit: str = strawberry.field(
        description="Unit of the threshold, like tasks, seconds or percent; empty if the rule has none."
    )
    floor: int = strawberry.field(
        description="How many are compared at least: sessions or similar runs, or tasks of an array; 0 = it has none."
    )
    for_s: int = strawberry.field(description="Seconds that the condition must hold without interruption.")
    severity: Severity = strawberry.field(description="Severity of its alerts.")
    muted_until: datetime | None = strawberry.field(
        description="Until then its alerts are listed, but no notices are sent."
    )
    changed_at: datetime | None = strawberry.field(description="When it was last changed; null = never.")


@strawberry.type(description="A receiver of notices, as configured on the answering server.")
class NoticeReceiver:
    name: str = strawberry.field(description="Its name in the settings.")
    kind: str = strawberry.field(description="`webhook`, `slack` or `email`.")
    tells_alerts: bool = strawberry.field(description="Whether it receives alerts of the cluster.")
    tells_owners: bool = strawberry.field(description="Whether it receives notices for owners of sessions.")
    least_severity: Severity = strawberry.field(description="Minimum severity that it receives.")
    kinds: list[NoticeKind] = strawberry.field(description="Kinds that it receives; empty = all.")
    is_quiet: bool = strawberry.field(
        description="Whether its quiet hours are in effect, during which only critical notices are sent."
    )


@strawberry.type(description="A notice for one receiver, and the state of its delivery.")
class Delivery:
    id: strawberry.ID = strawberry.field(description="`dlv_...`; the same for repeated attempts.")
    version: int = strawberry.field(description="Incremented by every change.")
    notice_id: strawberry.ID = strawberry.field(description="The alert, or `event:NUMBER`; the same for all receivers.")
    receiver: str = strawberry.field(description="Name of the receiver.")
    kind: NoticeKind = strawberry.field(description="Subject of the notice.")
    severity: Severity = strawberry.field(description="Severity.")
    is_over: bool = strawberry.field(description="Whether it reports that an alert was closed.")
    subject: str = strawberry.field(description="The alert's subject, or the session.")
    message: str = strawberry.field(description="Text of the notice.")
    user: str | None = strawberry.field(description="The addressee; null = the cluster's operators.")
    state: DeliveryState = strawberry.field(description="State of the delivery.")
    tries: int = strawberry.field(description="Number of attempts.")
    error: str | None = strawberry.field(description="Error of the last attempt.")
    made_at: datetime = strawberry.field(description="When it was created.")
    next_try_at: datetime | None = strawberry.field(description="When the next attempt is due; null if there is none.")
    ended_at: datetime | None = strawberry.field(description="When it was sent or given up.")


@strawberry.type(description="The caller's notice preferences.")
class NoticePreferences:
    email: str | None = strawberry.field(description="Email address; null = none.")
    notify: list[NoticeKind] = strawberry.field(description="Kinds of notices that are sent.")
    sends_mail: bool = strawberry.field(description="Whether an admin has set up mail to owners of sessions.")


_ON_RULE: Final = (*ALWAYS, errors.VersionConflict)
_ON_TRIAL: Final = (*ALWAYS, errors.NotFound)


@strawberry.type(description="The rule was changed.")
class NoticeRuleChangeSuccess:
    rule: NoticeRule = strawberry.field(description="The rule.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, NoticeRuleChanged)


@strawberry.type(description="The test notice is queued; see `deliveries` for its state.")
class SendTestNoticeSuccess:
    delivery: Delivery = strawberry.field(description="The delivery.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, TestNoticeSent)


@strawberry.type(description="The preferences were changed.")
class NoticePreferencesChangeSuccess:
    preferences: NoticePreferences = strawberry.field(description="The preferences.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, NoticePreferencesChanged)


NoticeRuleChangeResult = union("NoticeRuleChangeResult", NoticeRuleChangeSuccess, *_ON_RULE)
SendTestNoticeResult = union("SendTestNoticeResult", SendTestNoticeSuccess, *_ON_TRIAL)
NoticePreferencesChangeResult = union("NoticePreferencesChangeResult", NoticePreferencesChangeSuccess, *ALWAYS)


@strawberry.type
class NoticeQueries:
    """Part of `Query`."""

    @root_field(UncountedConnection[Alert], "Alerts, newest first.")
    async def alerts(
        self,
        info: Info[Context, None],
        state: Annotated[AlertState | None, argument("Only alerts in this state; null = all.")] = AlertState.OPEN,
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[AlertView]:
        context = info.context
        return uncounted(
            await context.services.administration.alerts.alerts(context.caller, state, page_of(first, after))
        )

    @root_field(list[NoticeRule], "All alert rules. For operators.")
    async def notice_rules(self, info: Info[Context, None]) -> tuple[NoticeRuleView, ...]:
        return info.context.services.administration.alerts.notice_rules(info.context.caller)

    @root_field(list[NoticeReceiver], "All receivers of notices. For admins.")
    async def notice_receivers(self, info: Info[Context, None]) -> tuple[ReceiverView, ...]:
        return info.context.services.administration.alerts.notice_receivers(info.context.caller)

    @root_field(UncountedConnection[Delivery], "Deliveries of notices, newest first. For admins.")
    async def deliveries(
        self,
        info: Info[Context, None],
        notice_id: Annotated[strawberry.ID | None, argument("Only deliveries of this notice.")] = None,
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[DeliveryView]:
        context = info.context
        return uncounted(
            await context.services.administration.alerts.deliveries(context.caller, notice_id, page_of(first, after))
        )

    @root_field(NoticePreferences, "The caller's notice preferences.")
    async def notice_preferences(self, info: Info[Context, None]) -> NoticePreferencesView:
        return info.context.services.administration.alerts.notice_preferences(info.context.caller)


@strawberry.type
class NoticeMutations:
    """Part of `Mutation`."""

    @root_field(NoticeRuleChangeResult, "Change an alert rule. For admins.")
    async def set_notice_rule(
        self, info: Info[Context, None], input: Annotated[SetNoticeRuleInput, argument("The rule and the changes.")]
    ) -> NoticeRuleChanged | errors.Error:
        context = info.context
        change = context.services.administration.alerts.set_notice_rule(
            context.caller, input.to_changes(), input.expected_version
        )
        return await answer(change, _ON_RULE)

    @root_field(NoticeRuleChangeResult, "Mute the notices of a rule's alerts for a period. For operators.")
    async def mute_notice_rule(
        self, info: Info[Context, None], input: Annotated[MuteNoticeRuleInput, argument("The rule and the period.")]
    ) -> NoticeRuleChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.alerts.mute_notice_rule(context.caller, input.rule, input.seconds), _ON_RULE
        )

    @root_field(SendTestNoticeResult, "Send a test notice to a receiver. For admins.")
    async def send_test_notice(
        self, info: Info[Context, None], receiver: Annotated[str, argument("Name of the receiver.")]
    ) -> TestNoticeSent | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.alerts.send_test_notice(context.caller, receiver), _ON_TRIAL
        )

    @root_field(NoticePreferencesChangeResult, "Change the caller's notice preferences.")
    async def set_notice_preferences(
        self, info: Info[Context, None], input: Annotated[SetNoticePreferencesInput, argument("The changes.")]
    ) -> NoticePreferencesChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.administration.alerts.set_notice_preferences(context.caller, input.to_changes()), ALWAYS
        )
