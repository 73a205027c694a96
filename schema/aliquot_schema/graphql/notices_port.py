"""What resolvers ask about alerts and notices."""

from typing import Protocol

from aliquot_schema.audit_views import Reel
from aliquot_schema.notice_views import (
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
    TrialSent,
)
from aliquot_schema.notices import AlertRule
from aliquot_schema.requests import Caller, PageRequest


class Notifier(Protocol):
    """Each raises Forbidden for those whom it is not for."""

    async def alerts(self, caller: Caller, state: AlertState | None, page: PageRequest) -> Reel[AlertView]:
        """The newest first."""

    def notice_rules(self, caller: Caller) -> tuple[NoticeRuleView, ...]:
        """All rules, for operators."""

    async def set_notice_rule(
        self, caller: Caller, changes: NoticeRuleChanges, expected_version: int | None
    ) -> NoticeRuleChanged:
        """For admins."""

    async def mute_notice_rule(self, caller: Caller, rule: AlertRule, seconds: float) -> NoticeRuleChanged:
        """For operators."""

    def notice_receivers(self, caller: Caller) -> tuple[ReceiverView, ...]:
        """For admins."""

    async def deliveries(self, caller: Caller, notice_id: str | None, page: PageRequest) -> Reel[DeliveryView]:
        """For admins; the newest first."""

    async def send_test_notice(self, caller: Caller, receiver: str) -> TrialSent:
        """For admins."""

    def notice_preferences(self, caller: Caller) -> NoticePreferencesView:
        """The caller's own."""

    async def set_notice_preferences(
        self, caller: Caller, changes: NoticePreferencesChanges
    ) -> NoticePreferencesChanged:
        """The caller's own."""
