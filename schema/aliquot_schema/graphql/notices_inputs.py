"""Inputs about rules and preferences. A field that is left out, or null, stays as it is."""

import strawberry

from aliquot_schema.graphql.descriptions import optional
from aliquot_schema.graphql.enums import AlertRule, NoticeKind, Severity
from aliquot_schema.notice_views import NoticePreferencesChanges, NoticeRuleChanges


@strawberry.input(description="Changes of a rule.")
class SetNoticeRuleInput:
    rule: AlertRule = strawberry.field(description="Which one.")
    is_on: bool | None = optional("Whether anybody looks.")
    threshold: int | None = optional("Above which it opens, in its unit.")
    floor: int | None = optional("For failure_rate: so many sessions have to have ended in the hour.")
    for_s: int | None = optional("How many seconds it has to hold without a break.")
    severity: Severity | None = optional("Of its alerts.")
    expected_version: int | None = optional("Refuse if it is not at this version.")

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
    email: str | None = optional("Your address; empty is none.")
    notify: list[NoticeKind] | None = optional("All that you want to be told of, in place of what it was.")

    def to_changes(self) -> NoticePreferencesChanges:
        """For the service."""
        return NoticePreferencesChanges(email=self.email, notify=None if self.notify is None else tuple(self.notify))
