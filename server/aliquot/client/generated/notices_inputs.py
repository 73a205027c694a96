"""Notices inputs.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from collections.abc import Sequence

from msgspec import Struct

from aliquot.client.generated.enums import AlertRule, NoticeKind, Severity


class MuteNoticeRuleInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How long nobody is told of a rule's alerts."""

    rule: AlertRule
    """Which one."""
    seconds: float
    """From now on; 0 ends it."""


class SetNoticePreferencesInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where you are told of your sessions, and what of."""

    email: str | None = None
    """Your address; empty is none."""
    notify: Sequence[NoticeKind] | None = None
    """All that you want to be told of, in place of what it was."""


class SetNoticeRuleInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of a rule."""

    rule: AlertRule
    """Which one."""
    is_on: bool | None = None
    """Whether anybody looks."""
    threshold: int | None = None
    """Above which it opens, in its unit."""
    floor: int | None = None
    """For failure_rate: so many sessions have to have ended in the hour."""
    for_s: int | None = None
    """How many seconds it has to hold without a break."""
    severity: Severity | None = None
    """Of its alerts."""
    expected_version: int | None = None
    """Refuse if it is not at this version."""
