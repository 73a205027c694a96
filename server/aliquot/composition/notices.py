"""Notices: who is told of what happens, by the settings."""

from collections.abc import Callable

from aliquot.clock import RandomIds
from aliquot.delivery.couriers import addresses_of
from aliquot.service.notices.plan import NoticePlan
from aliquot.service.notices.rules import Rules
from aliquot.service.use_cases import UseCases
from aliquot.settings import Settings
from aliquot.store.shared_url import is_shared
from aliquot.store.store import DatabaseStore


def notices_of(settings: Settings, *, now_us: Callable[[], int]) -> NoticePlan:
    """What a server that leads does about them."""
    return NoticePlan(
        ids=RandomIds(),
        addresses=addresses_of(settings.receivers, now_us=now_us),
        rules=settings.alert_rules,
        reminder_s=settings.alert_reminder_s,
        address=settings.own_address,
        is_shared=is_shared(settings.database or ""),
    )


def open_notices(cases: UseCases, plan: NoticePlan, store: DatabaseStore) -> None:
    """Let people ask about them at any server."""
    office = cases.administration
    office.outbox = store.outbox
    office.notice_rules_set = Rules(cases.state.noticed, plan.rules)
    office.receivers = [address.receiver for address in plan.addresses.values()]
    office.notice_ids = plan.ids
