"""Alerts, rules, receivers and deliveries, as GraphQL types."""

from datetime import datetime

import strawberry

from aliquot_schema.graphql.enums import AlertRule, AlertState, DeliveryState, NoticeKind, Severity


@strawberry.type(description="Something that holds and should not, from when it was sure until it was over.")
class Alert:
    id: strawberry.ID = strawberry.field(description="`alr_...`.")
    version: int = strawberry.field(description="Counts its changes.")
    rule: AlertRule = strawberry.field(description="What it was opened for.")
    state: AlertState = strawberry.field(description="Whether it still holds.")
    severity: Severity = strawberry.field(description="How much it matters.")
    subject: str = strawberry.field(description="An agent, `AGENT/DEVICE`, a user, or what there is one of: queue, ...")
    message: str = strawberry.field(description="What was seen when it was opened.")
    opened_at: datetime = strawberry.field(description="When it was sure.")
    closed_at: datetime | None = strawberry.field(description="When it was over; null while it holds.")


@strawberry.type(description="When an alert opens.")
class NoticeRule:
    rule: AlertRule = strawberry.field(description="What it looks for.")
    version: int = strawberry.field(description="Counts its changes; 0 is as the server's settings say.")
    is_on: bool = strawberry.field(description="Whether anybody looks.")
    threshold: int = strawberry.field(description="Above which it opens, in its unit.")
    unit: str = strawberry.field(description="Of the threshold: tasks, seconds, percent; empty where there is none.")
    floor: int = strawberry.field(description="For failure_rate: so many sessions have to have ended in the hour.")
    for_s: int = strawberry.field(description="How many seconds it has to hold without a break.")
    severity: Severity = strawberry.field(description="Of its alerts.")
    muted_until: datetime | None = strawberry.field(description="Until then its alerts are shown, and told to nobody.")
    changed_at: datetime | None = strawberry.field(description="When somebody changed it last.")


@strawberry.type(description="Somewhere that notices go, by the settings of the server that answers.")
class NoticeReceiver:
    name: str = strawberry.field(description="As the settings call it.")
    kind: str = strawberry.field(description="webhook, slack or email.")
    tells_alerts: bool = strawberry.field(description="Whether it is told of the cluster's alerts.")
    tells_owners: bool = strawberry.field(description="Whether it is told what becomes of people's sessions.")
    least_severity: Severity = strawberry.field(description="It is told of nothing below.")
    kinds: list[NoticeKind] = strawberry.field(description="It is told of these alone; empty is all.")
    is_quiet: bool = strawberry.field(
        description="Whether these are its quiet hours, in which only what is critical goes."
    )


@strawberry.type(description="A notice on its way to one receiver, or what became of it.")
class Delivery:
    id: strawberry.ID = strawberry.field(description="`dlv_...`; repeats of it have the same.")
    version: int = strawberry.field(description="Counts its changes.")
    notice_id: strawberry.ID = strawberry.field(description="The alert, or event:NUMBER; the same for all receivers.")
    receiver: str = strawberry.field(description="Where it goes.")
    kind: NoticeKind = strawberry.field(description="What it is about.")
    severity: Severity = strawberry.field(description="How much it matters.")
    is_over: bool = strawberry.field(description="Whether it tells that an alert is closed.")
    subject: str = strawberry.field(description="The alert's subject, or the session.")
    message: str = strawberry.field(description="What it says.")
    user: str | None = strawberry.field(description="Whom it is for; null: those who look after the cluster.")
    state: DeliveryState = strawberry.field(description="Where it is.")
    tries: int = strawberry.field(description="How often it was tried.")
    error: str | None = strawberry.field(description="What the last try failed with.")
    made_at: datetime = strawberry.field(description="When it was written down.")
    next_try_at: datetime | None = strawberry.field(description="When it is tried next; null when it is over.")
    ended_at: datetime | None = strawberry.field(description="When it was sent, or given up.")


@strawberry.type(description="Where you are told of your sessions, and what of.")
class NoticePreferences:
    email: str | None = strawberry.field(description="Your address; null is none.")
    notify: list[NoticeKind] = strawberry.field(description="What you are told of.")
