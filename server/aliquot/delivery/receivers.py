"""Receiver settings: the tables of `aliquot.toml` on receivers and notice rules, and notices as plain text.

Secrets are in files, which are read for every message.
"""

from collections.abc import Iterator, Mapping
from datetime import time, tzinfo
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode

from aliquot.service.alerts.alert_views import UNITS
from aliquot.service.alerts.message_texts import Message
from aliquot.service.alerts.routing import QuietHours, Receiver, checked_address
from aliquot.service.alerts.rules import DEFAULTS
from aliquot.service.setting_errors import Seconds, WholeSeconds, identifier, read_seconds, wrong
from aliquot_schema.alerts import AlertRule, Delivery, NoticeKind, NoticeRule, Severity

GATHER_S: Final = 10
"""Default for e-mail: sessions that fail together are one message."""
OUTPUT_LINES: Final = 20

NOTICES_RENDERED_MAX: Final = 100
"""Notices listed in one message; the rest are counted."""
TEXT_CHARACTERS: Final = 2000


def _kebab(name: str) -> str:
    return name.replace("_", "-")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"time zone {name} is unknown on this machine; give one like Europe/Berlin") from None
    return name


class Table(BaseModel):
    """Options of all tables: kebab-case keys, unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, populate_by_name=True)


class QuietTable(Table):
    """Quiet hours. Times are quoted strings: `begin = "22:00"`."""

    begin: time
    end: time
    zone: Annotated[str, AfterValidator(_zone)] = "UTC"

    @model_validator(mode="after")
    def _is_period(self) -> Self:
        if self.begin == self.end or self.begin.tzinfo or self.end.tzinfo:
            raise ValueError("begin and end are two different times of the day without a UTC offset; set zone instead")
        return self

    @property
    def hours(self) -> QuietHours:
        """The value for the service."""
        zone: tzinfo = ZoneInfo(self.zone)
        return QuietHours(begin=self.begin, end=self.end, zone=zone)


class ReceiverTable(Table):
    """Settings that all kinds of receivers share."""

    name: Annotated[str, identifier(characters_max=63)]
    tells: frozenset[Literal["alerts", "owners"]] = frozenset({"alerts"})
    """`alerts` of the cluster, notices to `owners` of sessions, or both."""
    severity: Literal["info", "warning", "critical"] = "info"
    """The lowest severity that is sent, to owners too. Preempted and completed sessions are info."""
    kinds: frozenset[NoticeKind] = frozenset()
    """Empty: all."""
    quiet: QuietTable | None = None
    gather_s: WholeSeconds = Field(0, ge=0, le=3600)
    output_lines: int = Field(0, ge=0, le=200)
    timeout_s: Seconds = Field(10.0, gt=0, le=120)
    ca_file: Path | None = None
    """Authorities in PEM, instead of those that the machine trusts."""

    def receiver(self, kind: str) -> Receiver:
        """The value for the service."""
        return Receiver(
            name=self.name,
            kind=kind,
            tells_alerts="alerts" in self.tells,
            tells_owners="owners" in self.tells,
            least=Severity[self.severity.upper()],
            kinds=self.kinds,
            quiet=None if self.quiet is None else self.quiet.hours,
            gather_s=self.gather_s,
            output_lines=self.output_lines,
        )


class WebTable(ReceiverTable):
    """A receiver reached by HTTP. A URL that is itself a secret belongs into `url-file`."""

    url: str | None = None
    url_file: Path | None = None

    @model_validator(mode="after")
    def _has_url(self) -> Self:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("give either url or url-file")
        if self.url is not None:
            check_url(self.url)
        return self


class WebhookTable(WebTable):
    """A program that accepts notices as JSON, signed if a key file is given."""

    kind: Literal["webhook"]
    key_file: Path | None = None


class SlackTable(WebTable):
    """A chat that accepts `{"text": ...}`."""

    kind: Literal["slack"]


class EmailTable(ReceiverTable):
    """A mail server. Notices to an owner go to the address in their preferences."""

    kind: Literal["email"]
    host: str
    port: int | None = Field(None, ge=1, le=65535)
    """Default: 587 with STARTTLS, 465 with TLS, 25 without encryption."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password_file: Path | None = None
    sender: Annotated[str, AfterValidator(checked_address)]
    to: tuple[Annotated[str, AfterValidator(checked_address)], ...] = ()
    """Addresses of the cluster's operators."""
    owner_domains: frozenset[str] = frozenset()
    """Domains allowed in owners' addresses; empty: all."""
    gather_s: WholeSeconds = Field(GATHER_S, ge=0, le=3600)
    output_lines: int = Field(OUTPUT_LINES, ge=0, le=200)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password-file belong together; give both")
        if self.user is not None and self.security == "none":
            raise ValueError("a password is not sent without encryption; set security to starttls or tls")
        if "alerts" in self.tells and not self.to:
            raise ValueError('to: give the addresses that receive alerts, or set tells = ["owners"]')
        return self


AnyReceiver = Annotated[WebhookTable | SlackTable | EmailTable, Field(discriminator="kind")]


def check_url(url: str) -> str:
    """The URL, if requests can be sent to it.

    Raises:
        ValueError: it is not an http(s) URL with a host, or contains credentials.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError("a receiver's URL is http(s)://HOST/..., without user name and password")
    return url


class RuleTable(Table):
    """Settings of a rule that differ from its defaults. A rule changed at run time ignores them."""

    is_on: bool | None = None
    threshold: int | None = Field(None, ge=0)
    floor: int | None = Field(None, ge=0)
    for_s: WholeSeconds | None = Field(None, ge=0, le=7 * 86_400)
    severity: Severity | None = None

    @field_validator("severity", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        return Severity.__members__.get(value.upper(), value) if isinstance(value, str) else value


class NoticeSettings(BaseSettings):
    """The part of `aliquot.settings.Settings` on alerts and notices."""

    receivers: Annotated[tuple[AnyReceiver, ...], NoDecode] = Field(
        (), description="Receivers of notices about alerts and sessions: webhooks, chats and mail servers."
    )
    notice_rules: Annotated[Mapping[AlertRule, RuleTable], NoDecode] = Field(
        {}, description="When alerts open, by rule. A rule that was changed at run time ignores this setting."
    )
    alert_reminder_s: WholeSeconds | None = Field(
        None,
        ge=60,
        description="Seconds between reminders of an alert that is still open; without it none are sent.",
    )

    @property
    def alert_rules(self) -> Mapping[AlertRule, NoticeRule]:
        """All rules with these settings."""
        return {
            rule: replace(usual, **self.notice_rules[rule].model_dump(exclude_none=True))
            if rule in self.notice_rules
            else usual
            for rule, usual in DEFAULTS.items()
        }

    @field_validator("notice_rules", mode="before")
    @classmethod
    def _durations_read(cls, value: object) -> object:
        """A threshold in seconds may be given as a duration."""
        if not isinstance(value, Mapping):
            return value
        return {
            rule: {**table, "threshold": read_seconds(table["threshold"])}
            if UNITS.get(rule) == "seconds" and isinstance(table, Mapping) and "threshold" in table
            else table
            for rule, table in value.items()
        }

    @field_validator("receivers")
    @classmethod
    def _unique_names(cls, receivers: tuple[AnyReceiver, ...]) -> tuple[AnyReceiver, ...]:
        names = [receiver.name for receiver in receivers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise wrong(f"two receivers have the name {twice[0]}")
        return receivers


def lines(message: Message) -> Iterator[str]:
    """Each notice, followed by the last lines of output."""
    details = message.details or ("",) * len(message.notices)
    for one, output in list(zip(message.notices, details, strict=True))[:NOTICES_RENDERED_MAX]:
        yield f"{_label(one)} {one_line(one.words, characters_max=TEXT_CHARACTERS)}"
        if output:
            yield from ("", "The last lines of its output:", *(f"    {line}" for line in output.splitlines()), "")
    if len(message.notices) > NOTICES_RENDERED_MAX:
        yield f"... and {len(message.notices) - NOTICES_RENDERED_MAX} more"


def one_line(text: str, *, characters_max: int) -> str:
    """Without control characters and line breaks: names come from users and must not forge a notice."""
    rendered = "".join(sign if sign.isprintable() else " " for sign in text)
    return rendered if len(rendered) <= characters_max else f"{rendered[: characters_max - 1]}…"


def _label(one: Delivery) -> str:
    return "[over]" if one.is_over else f"[{one.severity.name.lower()}]"
