"""Inputs about rules and preferences. A field that is left out, or null, stays as it is."""

from typing import Any

import strawberry

from aliquot_schema.graphql.enums import AlertRule, NoticeKind, Severity
from aliquot_schema.notice_views import NoticePreferencesChanges, NoticeRuleChanges


def _field(description: str) -> Any:
    return strawberry.field(default=None, description=description)


@strawberry.input(description="Changes of a rule.")
class SetNoticeRuleInput:
    rule: AlertRule = strawberry.field(description="Which one.")
    is_on: bool | None = _field("Whether anybody looks.")
    threshold: int | None = _field("Above which it opens, in its unit.")
    floor: int | None = _field("For failure_rate: so many sessions have to have ended in the hour.")
    for_s: int | None = _field("How many seconds it has to hold without a break.")
    severity: Severity | None = _field("Of its alerts.")
    expected_version: int | None = _field("Refuse if it is not at this version.")

    def to_changes(self) -> NoticeRuleChanges:
        """For the service."""
        return NoticeRuleChanges(
            rule=self.rule,
            is_on=self.is_on,
            threshold=self.threshold,
            floor=self.floor,
            for_s=self.for_s,
            severity=self.severity,
        )


@strawberry.input(description="How long nobody is told of a rule's alerts.")
class MuteNoticeRuleInput:
    rule: AlertRule = strawberry.field(description="Which one.")
    seconds: float = strawberry.field(description="From now on; 0 ends it.")


@strawberry.input(description="Where you are told of your sessions, and what of.")
class SetNoticePreferencesInput:
    email: str | None = _field("Your address; empty is none.")
    notify: list[NoticeKind] | None = _field("All that you want to be told of, in place of what it was.")

    def to_changes(self) -> NoticePreferencesChanges:
        """For the service."""
        return NoticePreferencesChanges(email=self.email, notify=None if self.notify is None else tuple(self.notify))
