"""Alerts and notices. Everybody sees alerts, and says where he is told of his own sessions; the rest is for operators
and admins."""

from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.answers import ALWAYS, answer, union
from aliquot_schema.graphql.audit_types import UncountedConnection, uncounted
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.descriptions import argument
from aliquot_schema.graphql.enums import AlertState
from aliquot_schema.graphql.notices_inputs import MuteNoticeRuleInput, SetNoticePreferencesInput, SetNoticeRuleInput
from aliquot_schema.graphql.notices_types import Alert, Delivery, NoticePreferences, NoticeReceiver, NoticeRule
from aliquot_schema.graphql.paging import PAGE_DEFAULT, After, First, page_of
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.notice_views import (
    AlertView,
    DeliveryView,
    NoticePreferencesChanged,
    NoticePreferencesView,
    NoticeRuleChanged,
    NoticeRuleView,
    ReceiverView,
    TrialSent,
)

_ON_RULE: Final = (*ALWAYS, errors.VersionConflict)
_ON_TRIAL: Final = (*ALWAYS, errors.NotFound)


@strawberry.type(description="The rule is as it says here.")
class NoticeRuleChangeSuccess:
    rule: NoticeRule = strawberry.field(description="The rule.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, NoticeRuleChanged)


@strawberry.type(description="A notice is on its way; look at `deliveries` for what becomes of it.")
class SendTestNoticeSuccess:
    delivery: Delivery = strawberry.field(description="The notice.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, TrialSent)


@strawberry.type(description="You are told as it says here.")
class NoticePreferencesChangeSuccess:
    preferences: NoticePreferences = strawberry.field(description="Where, and what of.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, NoticePreferencesChanged)


NoticeRuleChangeResult = union("NoticeRuleChangeResult", NoticeRuleChangeSuccess, *_ON_RULE)
SendTestNoticeResult = union("SendTestNoticeResult", SendTestNoticeSuccess, *_ON_TRIAL)
NoticePreferencesChangeResult = union("NoticePreferencesChangeResult", NoticePreferencesChangeSuccess, *ALWAYS)


@strawberry.type
class NoticeQueries:
    """Part of `Query`."""

    @root_field(UncountedConnection[Alert], "Alerts, the newest first.")
    async def alerts(
        self,
        info: Info[Context, None],
        state: Annotated[AlertState | None, argument("These alone; null is all.")] = AlertState.OPEN,
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[AlertView]:
        context = info.context
        return uncounted(await context.admin.alerts(context.caller, state, page_of(first, after)))

    @root_field(list[NoticeRule], "When alerts open. For operators.")
    async def notice_rules(self, info: Info[Context, None]) -> tuple[NoticeRuleView, ...]:
        return info.context.admin.notice_rules(info.context.caller)

    @root_field(list[NoticeReceiver], "Where notices go. For admins.")
    async def notice_receivers(self, info: Info[Context, None]) -> tuple[ReceiverView, ...]:
        return info.context.admin.notice_receivers(info.context.caller)

    @root_field(
        UncountedConnection[Delivery], "Notices to receivers and what became of them, the newest first. For admins."
    )
    async def deliveries(
        self,
        info: Info[Context, None],
        notice_id: Annotated[strawberry.ID | None, argument("Of this notice alone.")] = None,
        first: First = PAGE_DEFAULT,
        after: After = None,
    ) -> UncountedConnection[DeliveryView]:
        context = info.context
        return uncounted(await context.admin.deliveries(context.caller, notice_id, page_of(first, after)))

    @root_field(NoticePreferences, "Where you are told of your sessions, and what of.")
    async def notice_preferences(self, info: Info[Context, None]) -> NoticePreferencesView:
        return info.context.admin.notice_preferences(info.context.caller)


@strawberry.type
class NoticeMutations:
    """Part of `Mutation`."""

    @root_field(NoticeRuleChangeResult, "Say when alerts open, from now on. For admins.")
    async def set_notice_rule(
        self, info: Info[Context, None], input: Annotated[SetNoticeRuleInput, argument("Which, and what changes.")]
    ) -> NoticeRuleChanged | errors.Error:
        context = info.context
        change = context.admin.set_notice_rule(context.caller, input.to_changes(), input.expected_version)
        return await answer(change, _ON_RULE)

    @root_field(NoticeRuleChangeResult, "Let nobody be told of a rule's alerts for a while. For operators.")
    async def mute_notice_rule(
        self, info: Info[Context, None], input: Annotated[MuteNoticeRuleInput, argument("Which, and for how long.")]
    ) -> NoticeRuleChanged | errors.Error:
        context = info.context
        return await answer(context.admin.mute_notice_rule(context.caller, input.rule, input.seconds), _ON_RULE)

    @root_field(SendTestNoticeResult, "Try a receiver. For admins.")
    async def send_test_notice(
        self, info: Info[Context, None], receiver: Annotated[str, argument("By its name.")]
    ) -> TrialSent | errors.Error:
        context = info.context
        return await answer(context.admin.send_test_notice(context.caller, receiver), _ON_TRIAL)

    @root_field(NoticePreferencesChangeResult, "Say where you are told of your sessions, and what of.")
    async def set_notice_preferences(
        self, info: Info[Context, None], input: Annotated[SetNoticePreferencesInput, argument("What changes.")]
    ) -> NoticePreferencesChanged | errors.Error:
        context = info.context
        return await answer(context.admin.set_notice_preferences(context.caller, input.to_changes()), ALWAYS)
