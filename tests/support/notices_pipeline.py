"""The alert pipeline over a stage: a test runs every evaluation, notification and delivery itself."""

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aliquot.clock import RandomIds
from aliquot.service.alerts.conditions import Check
from aliquot.service.alerts.context import AlertContext, NotDelivered
from aliquot.service.alerts.evaluator import ACTOR, AlertEvaluator
from aliquot.service.alerts.message_texts import Message
from aliquot.service.alerts.notifier import Notifier
from aliquot.service.alerts.outbox import Address, Outbox
from aliquot.service.alerts.routing import Receiver
from aliquot.service.alerts.rules import DEFAULTS, Rules
from aliquot_schema.alerts import Alert, AlertRule, NoticeRule, Severity
from aliquot_schema.cluster.agents import Agent
from aliquot_schema.events import Event
from aliquot_schema.ids import KernelId
from service_bench import agent
from service_stage import Stage, stage


@dataclass
class FakeSender:
    """A sender that keeps its messages, and fails on request."""

    errors: deque[NotDelivered] = field(default_factory=deque)
    messages: list[Message] = field(default_factory=list)

    async def deliver(self, letter: Message) -> None:
        if self.errors:
            raise self.errors.popleft()
        self.messages.append(letter)

    @property
    def texts(self) -> list[list[str]]:
        return [[one.words for one in letter.notices] for letter in self.messages]


@dataclass
class AlertPipeline:
    """Evaluator, notifier and outbox, and the senders of its receivers."""

    stage: Stage
    evaluator: AlertEvaluator
    notifier: Notifier
    outbox: Outbox
    senders: dict[str, FakeSender]

    async def evaluate(self, after_s: float = 0.0) -> tuple[int, int]:
        """Advance the clock, and evaluate the rules once: (opened, closed)."""
        self.stage.clock.advance(after_s)
        return await self.evaluator.run_once()

    async def deliver(self) -> None:
        """Write the notices of new events, and deliver due ones."""
        await self.notifier.run_once()
        for name in self.senders:
            await self.outbox.run_once(name)

    def kinds(self, entity: str) -> list[str]:
        """Event kinds of an entity."""
        return [event.kind.partition(".")[2] for event in self.log if event.entity == entity]

    @property
    def log(self) -> list[Event]:
        return self.stage.store.log  # type: ignore[attr-defined]  # it is in memory


@asynccontextmanager
async def alert_pipeline(
    *receivers: Receiver,
    agents: list[Agent] | None = None,
    looks: Mapping[AlertRule, Check] | None = None,
    reminder_s: int | None = None,
    sender: FakeSender | None = None,
    **rules: NoticeRule,
) -> AsyncIterator[AlertPipeline]:
    """Over a stage with one agent. Rules have their defaults except those given."""
    async with stage(agents or [agent("a", devices=2)]) as on:
        yield pipeline_on(on, *receivers, looks=looks, reminder_s=reminder_s, sender=sender, **rules)


def pipeline_on(on: Stage, *receivers: Receiver, **more: Any) -> AlertPipeline:
    """A leader's parts; several can be made one after another, as after a take-over."""
    looks, reminder_s, sender = (more.pop(name, None) for name in ("looks", "reminder_s", "sender"))
    rules = Rules(on.state.alert_index, DEFAULTS | {AlertRule(name): rule for name, rule in more.items()})
    room = AlertContext(state=on.state, journal=on.journal, clock=on.clock, ids=RandomIds())
    boxes = {receiver.name: sender or FakeSender() for receiver in receivers}
    return AlertPipeline(
        stage=on,
        evaluator=AlertEvaluator(room, rules=rules, more=looks, reminder_s=reminder_s),
        notifier=Notifier(room, feed=on.feed, rules=rules, receivers=receivers),
        outbox=Outbox(
            room,
            outputs=on.executor,
            addresses={one.name: Address(receiver=one, sender=boxes[one.name]) for one in receivers},
        ),
        senders=boxes,
    )


async def open_alert(on: AlertPipeline, words: str, *, severity: Severity = Severity.WARNING) -> Alert:
    """An alert opened now."""
    now_us = on.stage.clock.now_us()
    made = Alert(
        id=f"alr_{now_us}",
        rule=AlertRule.DISK_LOW,
        subject=words,
        severity=severity,
        words=words,
        opened_us=now_us,
        told_us=now_us,
    )
    return await on.stage.journal.transact(lambda draft: draft.put(made, "opened"), actor=ACTOR)


async def fail_session(on: AlertPipeline, *, code: int = 3, **asked: Any) -> str:
    """A session that fails by itself."""
    name = await on.stage.submit(**asked)
    await on.stage.advance()
    on.stage.executor.end_kernel(KernelId(f"{name}.1.0"), code=code)
    await on.stage.settle()
    return name
