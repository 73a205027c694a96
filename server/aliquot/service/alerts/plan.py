"""Alerting plan: builds the alerting loops of a server from its settings."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from aliquot.service.alerts.conditions import leader_checks
from aliquot.service.alerts.context import AlertContext
from aliquot.service.alerts.evaluator import AlertEvaluator
from aliquot.service.alerts.leaderless import LeaderlessAlerts
from aliquot.service.alerts.notifier import Notifier
from aliquot.service.alerts.observation import Observation
from aliquot.service.alerts.outbox import Address, Outbox
from aliquot.service.alerts.rules import DEFAULTS, Rules
from aliquot.service.alerts.weekly_advice import Advisor, WeeklyAdvice
from aliquot.service.ports import Clock, Ids
from aliquot.service.state.journal import Feed, Journal
from aliquot.service.state.state import State
from aliquot.service.subscriptions.watching import Outputs
from aliquot_schema.alerts import AlertRule, NoticeRule
from aliquot_schema.orchestration import OperatingMode
from aliquot_schema.views.server import RayView


class AlertTermStart(Protocol):
    """Beginning of a leader term."""

    @property
    def epoch(self) -> int: ...

    @property
    def began_us(self) -> int: ...


class AlertUseCases(Protocol):
    """What alerting needs of a server, leader or follower."""

    state: State
    journal: Journal
    clock: Clock
    feed: Feed

    @property
    def advisor(self) -> Advisor: ...


class AlertPlan(Struct, frozen=True, kw_only=True):
    """Settings of alerting."""

    ids: Ids
    addresses: Mapping[str, Address] = field(default_factory=dict)
    rules: Mapping[AlertRule, NoticeRule] = field(default_factory=lambda: DEFAULTS)
    reminder_s: int | None = None
    address: str = ""
    """Address of this server."""
    mode: OperatingMode = OperatingMode.ENFORCE
    is_shared: bool = False
    """Whether several servers share the database, so that another one may have led before."""

    def leaderless_alerts(self, cases: AlertUseCases, *, why: Callable[[], str | None]) -> LeaderlessAlerts:
        """The check that a follower runs; see `LeaderlessAlerts`."""
        context = AlertContext(state=cases.state, journal=cases.journal, clock=cases.clock, ids=self.ids)
        rules = Rules(context.state.alert_index, self.rules)
        return LeaderlessAlerts(context, rules=rules, addresses=self.addresses, address=self.address, why=why)

    def begin(
        self,
        cases: AlertUseCases,
        *,
        outputs: Outputs,
        beginning: AlertTermStart,
        ray: Callable[[], RayView] | None = None,
    ) -> "Alerting":
        """The loops of one leader term."""
        context = AlertContext(state=cases.state, journal=cases.journal, clock=cases.clock, ids=self.ids)
        rules = Rules(context.state.alert_index, self.rules)
        checks = leader_checks(
            beginning.epoch, began_us=beginning.began_us, address=self.address, is_shared=self.is_shared, ray=ray
        )
        receivers = [address.receiver for address in self.addresses.values()]
        if self.mode is OperatingMode.OBSERVE:
            receivers = [replace(receiver, tells_owners=False) for receiver in receivers]
        return Alerting(
            evaluator=AlertEvaluator(context, rules=rules, more=checks, reminder_s=self.reminder_s),
            notifier=Notifier(context, feed=cases.feed, rules=rules, receivers=receivers, address=self.address)
            if receivers
            else None,
            outbox=Outbox(context, outputs=outputs, addresses=self.addresses),
            observation=None if self.mode is OperatingMode.ENFORCE else _observation(context),
            advice=WeeklyAdvice(context, advisor=cases.advisor, receivers=receivers) if receivers else None,
        )


def _observation(context: AlertContext) -> Observation:
    return Observation(state=context.state, journal=context.journal, clock=context.clock)


class Alerting(Struct, frozen=True, kw_only=True):
    """Alerting loops of a leader. `run` returns only when a loop failed or by cancellation."""

    evaluator: AlertEvaluator
    notifier: Notifier | None
    """None: there are no receivers."""
    outbox: Outbox
    """Runs without receivers too, to give up deliveries to earlier ones."""
    advice: WeeklyAdvice | None = None
    """None: there are no receivers."""
    observation: Observation | None = None
    """None: the server enforces, and does not record who uses GPUs."""

    async def run(self) -> None:
        """Evaluate, queue and deliver until canceled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.evaluator.run(), name="alerts")
            if self.notifier is not None:
                loops.create_task(self.notifier.run(), name="notices")
            loops.create_task(self.outbox.run(), name="outbox")
            if self.observation is not None:
                loops.create_task(self.observation.run(), name="observation")
            if self.advice is not None:
                loops.create_task(self.advice.run(), name="weekly advice")
