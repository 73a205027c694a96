"""Receivers, as `aliquot.toml` names them. Secrets are in files, which are read whenever a letter is sent."""

from datetime import time, tzinfo
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from aliquot.service.notices.addresses import checked_address
from aliquot.service.notices.quiet import QuietHours
from aliquot.service.notices.receivers import Receiver
from aliquot_schema.notices import NoticeKind, Severity

GATHER_S: Final = 10
"""Of mail: several sessions that fail together are one letter."""
OUTPUT_LINES: Final = 20


def _kebab(name: str) -> str:
    return name.replace("_", "-")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name} on this machine; give one like Europe/Berlin") from None
    return name


class Table(BaseModel):
    """What all tables share."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, populate_by_name=True)


class QuietTable(Table):
    """When what is not critical waits. Strings in quotes: `begin = "22:00"`."""

    begin: time
    end: time
    zone: Annotated[str, AfterValidator(_zone)] = "UTC"

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.begin == self.end or self.begin.tzinfo or self.end.tzinfo:
            raise ValueError("begin and end are two times of the day, without a zone of their own")
        return self

    @property
    def hours(self) -> QuietHours:
        """For the service."""
        zone: tzinfo = ZoneInfo(self.zone)
        return QuietHours(begin=self.begin, end=self.end, zone=zone)


class ReceiverTable(Table):
    """What all kinds of receivers share."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    tells: frozenset[Literal["alerts", "owners"]] = frozenset({"alerts"})
    """Alerts of the cluster, or what happens to somebody's sessions."""
    severity: Literal["info", "warning", "critical"] = "info"
    """The least, of what owners are told too: that a session is preempted, or has completed, is info."""
    kinds: frozenset[NoticeKind] = frozenset()
    """Empty: all."""
    quiet: QuietTable | None = None
    gather_s: int = Field(0, ge=0, le=3600)
    output_lines: int = Field(0, ge=0, le=200)
    timeout_s: float = Field(10.0, gt=0, le=120)
    ca_file: Path | None = None
    """Authorities in PEM, in place of those that the machine trusts."""

    def receiver(self, kind: str) -> Receiver:
        """For the service."""
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
    """One that takes HTTP. An address that is itself a secret is in a file."""

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
    """A program that takes notices as JSON, signed where there is a key."""

    kind: Literal["webhook"]
    key_file: Path | None = None


class SlackTable(WebTable):
    """A chat that takes `{"text": ...}`."""

    kind: Literal["slack"]


class EmailTable(ReceiverTable):
    """A server that takes mail. What is for an owner goes to the address that he gave."""

    kind: Literal["email"]
    host: str
    port: int | None = Field(None, ge=1, le=65535)
    """Without one: 587 with STARTTLS, 465 with TLS, 25 with none."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password_file: Path | None = None
    sender: Annotated[str, AfterValidator(checked_address)]
    to: tuple[Annotated[str, AfterValidator(checked_address)], ...] = ()
    """Of those who look after the cluster."""
    owner_domains: frozenset[str] = frozenset()
    """Owners' addresses have to be in one of these; empty: anywhere."""
    gather_s: int = Field(GATHER_S, ge=0, le=3600)
    output_lines: int = Field(OUTPUT_LINES, ge=0, le=200)

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password-file belong together; give both")
        if self.user is not None and self.security == "none":
            raise ValueError("a password is not sent without encryption: security is starttls or tls")
        if "alerts" in self.tells and not self.to:
            raise ValueError('to: say who hears of alerts, or give tells = ["owners"]')
        return self


AnyReceiver = Annotated[WebhookTable | SlackTable | EmailTable, Field(discriminator="kind")]


def check_url(url: str) -> str:
    """An address that can be posted to.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError("a receiver's address is http(s)://HOST/..., without a name and password in it")
    return url
