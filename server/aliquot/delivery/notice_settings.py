"""Settings of alerts and notices."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from aliquot.delivery.receiver_tables import AnyReceiver, Table
from aliquot.service.notices.rules import DEFAULTS
from aliquot.service.setting_errors import wrong
from aliquot_schema.notices import AlertRule, NoticeRule, Severity


class RuleTable(Table):
    """What of a rule is other than usual, on a cluster where nobody has changed it."""

    is_on: bool | None = None
    threshold: int | None = Field(None, ge=0)
    floor: int | None = Field(None, ge=0)
    for_s: int | None = Field(None, ge=0, le=7 * 86_400)
    severity: Severity | None = None

    @field_validator("severity", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        return Severity.__members__.get(value.upper(), value) if isinstance(value, str) else value


class NoticeSettings(BaseSettings):
    """A part of `aliquot.settings.Settings`."""

    receivers: Annotated[tuple[AnyReceiver, ...], NoDecode] = Field(
        (), description="Who is told of alerts and of what becomes of sessions: webhooks, chats and mail servers."
    )
    notice_rules: Annotated[Mapping[AlertRule, RuleTable], NoDecode] = Field(
        {}, description="When alerts open, by rule, as long as nobody has changed the rule."
    )
    alert_reminder_s: int | None = Field(
        None,
        ge=60,
        description="Seconds after which people are reminded of an alert that is still open; never without.",
    )

    @property
    def alert_rules(self) -> Mapping[AlertRule, NoticeRule]:
        """All rules, as these settings have them."""
        return {
            rule: replace(usual, **self.notice_rules[rule].model_dump(exclude_none=True))
            if rule in self.notice_rules
            else usual
            for rule, usual in DEFAULTS.items()
        }

    @field_validator("receivers")
    @classmethod
    def _told_apart(cls, receivers: tuple[AnyReceiver, ...]) -> tuple[AnyReceiver, ...]:
        names = [receiver.name for receiver in receivers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise wrong(f"two receivers have the name {twice[0]}")
        return receivers
